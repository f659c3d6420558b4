/**
 * The peers of the gateway bench: gateways that others use, each in front of the same engine. Each
 * is null, with the reason, where it cannot be had.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Asked } from './gateway-load.ts';
import { findLiteLlm } from './litellm.ts';
import { isMissing, type Missing, npmInstall, type Peer, peerFolder, startPeer } from './peer.ts';
import { freePort } from './served-program.ts';

export type AskedPeer = Peer & { headers: Asked['headers'] };

/** What it asks for by itself fails on every stream with a newer server beside it. */
const portkey_package = {
  private: true,
  dependencies: { '@portkey-ai/gateway': '1.15.2' },
  overrides: { hono: '4.9.7', '@hono/node-server': '1.13.8' },
};

export async function startPortkey(upstream_port: number): Promise<AskedPeer | Missing> {
  const folder = peerFolder('portkey');
  const program = join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js');
  if (!existsSync(program)) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'package.json'), JSON.stringify(portkey_package));
    const why = await npmInstall(folder);
    if (why !== null) return { missing: why };
  }
  const port = await freePort();
  const args = [program, '--headless', `--port=${port}`];
  const peer = await startPeer({ command: process.execPath, args, port, path: '/' });
  if (isMissing(peer)) return peer;
  const headers = [
    'x-portkey-provider: openai',
    `x-portkey-custom-host: http://127.0.0.1:${upstream_port}/v1`,
    'Authorization: Bearer of-this-bench',
  ];
  return { ...peer, headers };
}

export async function startLiteLlm(upstream_port: number): Promise<AskedPeer | Missing> {
  const found = await findLiteLlm();
  if (isMissing(found)) return found;
  const config = join(found.folder, 'gateway.yaml');
  const engine = `api_base: http://127.0.0.1:${upstream_port}/v1, api_key: none`;
  const model = `{model_name: smol, litellm_params: {model: openai/smol, ${engine}}}`;
  writeFileSync(config, `model_list: [${model}]\n`);
  const port = await freePort();
  const args = ['--config', config, '--host', '127.0.0.1', '--port', String(port)];
  const key = `sk-${randomBytes(32).toString('hex')}`;
  const serving = { command: found.program, args, port, path: '/health/liveliness' };
  const peer = await startPeer(serving, { LITELLM_MASTER_KEY: key, LITELLM_LOG: 'ERROR' });
  return isMissing(peer) ? peer : { ...peer, headers: [`Authorization: Bearer ${key}`] };
}
