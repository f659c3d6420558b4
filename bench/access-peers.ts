/**
 * The peers of the access bench: configurable-http-proxy, which JupyterHub puts before notebooks,
 * and nginx. Each is null, with the reason, where it cannot be had.
 */
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exec } from '../src/lib/exec.ts';
import { findProgram } from '../src/lib/which.ts';
import { freePort, type Served, serve } from './served-program.ts';

export type Peer = { port: number; stop(): Promise<void> };
export type Missing = { missing: string };

const folder = join(import.meta.dirname, '../.cache/peers/configurable-http-proxy');
const start_timeout_ms = 20_000;

export async function startChp(upstream_port: number): Promise<Peer | Missing> {
  const program = join(folder, 'node_modules/configurable-http-proxy/bin/configurable-http-proxy');
  if (!existsSync(program)) {
    mkdirSync(folder, { recursive: true });
    const args = ['install', '--ignore-scripts', '--no-save', '--prefix', folder];
    const npm = findProgram('npm', process.env.PATH) ?? 'npm';
    const made = await exec(npm, [...args, 'configurable-http-proxy@5'], {
      ...{ env: environment(), timeout_ms: 120_000 },
    });
    if (made.code !== 0) return { missing: lastLine(made.stderr) };
  }
  const [port, api_port] = [await freePort(), await freePort()];
  const target = `http://127.0.0.1:${upstream_port}`;
  const args = [program, '--ip', '127.0.0.1', '--port', String(port)];
  args.push('--api-ip', '127.0.0.1', '--api-port', String(api_port), '--log-level', 'error');
  args.push('--default-target', target, '--no-include-prefix');
  return started(port, () =>
    serve(
      {
        command: process.execPath,
        args,
        url: `http://127.0.0.1:${port}/small`,
        env: { CONFIGPROXY_AUTH_TOKEN: 'of-this-bench' },
      },
      start_timeout_ms,
    ),
  );
}

export async function startNginx(upstream_port: number): Promise<Peer | Missing> {
  const program = findProgram('nginx', `${process.env.PATH}:/usr/sbin:/sbin`);
  if (program === null) return { missing: 'nginx is not installed' };
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
  return started(port, () =>
    serve(
      {
        command: program,
        args: ['-c', config, '-e', 'stderr'],
        url: `http://127.0.0.1:${port}/small`,
        env: {},
      },
      start_timeout_ms,
    ),
  );
}

async function started(port: number, start: () => Promise<Served>): Promise<Peer | Missing> {
  try {
    const served = await start();
    return {
      port,
      async stop() {
        await served.stop();
      },
    };
  } catch (error) {
    return { missing: error instanceof Error ? error.message : String(error) };
  }
}

function environment(): Record<string, string> {
  const entries = Object.entries(process.env);
  return Object.fromEntries(entries.flatMap(([k, v]) => (v === undefined ? [] : [[k, v]])));
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 200) || 'it could not be installed';
}
