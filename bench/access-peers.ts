/**
 * The peers of the access bench: configurable-http-proxy, which JupyterHub puts before notebooks,
 * and nginx. Each is null, with the reason, where it cannot be had.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { startNginx } from './nginx.ts';
import { type Missing, npmInstall, type Peer, peerFolder, startPeer } from './peer.ts';
import { freePort } from './served-program.ts';

export async function startChp(upstream_port: number): Promise<Peer | Missing> {
  const folder = peerFolder('configurable-http-proxy');
  const program = join(folder, 'node_modules/configurable-http-proxy/bin/configurable-http-proxy');
  if (!existsSync(program)) {
    mkdirSync(folder, { recursive: true });
    const why = await npmInstall(folder, ['configurable-http-proxy@5']);
    if (why !== null) return { missing: why };
  }
  const [port, api_port] = [await freePort(), await freePort()];
  const target = `http://127.0.0.1:${upstream_port}`;
  const args = [program, '--ip', '127.0.0.1', '--port', String(port)];
  args.push('--api-ip', '127.0.0.1', '--api-port', String(api_port), '--log-level', 'error');
  args.push('--default-target', target, '--no-include-prefix');
  const env = { CONFIGPROXY_AUTH_TOKEN: 'of-this-bench' };
  return startPeer({ command: process.execPath, args, port, path: '/small' }, env);
}

export const startAccessNginx = (upstream_port: number) => startNginx(upstream_port, '/small');
