/**
 * nginx as the least proxy that others trust: one worker, nothing buffered, connections kept. A
 * peer of the access bench and of the gateway bench.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProgram } from '../src/lib/which.ts';
import { type Missing, type Peer, startPeer } from './peer.ts';
import { freePort } from './served-program.ts';

/** In front of what listens on that port of loopback; `path` answers 200 once both serve. */
export async function startNginx(upstream_port: number, path: string): Promise<Peer | Missing> {
  const command = findProgram('nginx', `${process.env.PATH}:/usr/sbin:/sbin`);
  if (command === null) return { missing: 'nginx is not installed' };
  const port = await freePort();
  const at = mkdtempSync(join(tmpdir(), 'einsora-nginx-'));
  const config = join(at, 'nginx.conf');
  writeFileSync(
    config,
    `worker_processes 1; daemon off; pid ${at}/pid; error_log stderr error;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path ${at}/body; proxy_temp_path ${at}/proxy;
  fastcgi_temp_path ${at}/f; uwsgi_temp_path ${at}/u; scgi_temp_path ${at}/s;
  keepalive_requests 1000000000;
  upstream program { server 127.0.0.1:${upstream_port}; keepalive 128;
    keepalive_requests 1000000000; }
  server { listen 127.0.0.1:${port}; location / { proxy_pass http://program;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } } }
`,
  );
  return startPeer({ command, args: ['-c', config, '-e', 'stderr'], port, path });
}
