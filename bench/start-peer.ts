/**
 * The peer of the start bench: LiteLLM's proxy, which serves the same kind of API with nothing
 * configured.
 *
 * Invariants: where it cannot be had the peer is null with the reason, and the bench goes on.
 */
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findLiteLlm } from './litellm.ts';
import { isMissing, type Missing } from './peer.ts';
import { freePort, serve } from './served-program.ts';

export type Peer = { name: string; start(): Promise<number> };

const start_timeout_ms = 120_000;

export async function findPeer(): Promise<Peer | Missing> {
  const found = await findLiteLlm();
  if (isMissing(found)) return found;
  const config = join(found.folder, 'config.yaml');
  writeFileSync(config, 'model_list: []\n');
  return {
    name: `litellm ${found.version}`,
    async start() {
      const port = await freePort();
      const url = `http://127.0.0.1:${port}/health/liveliness`;
      const args = ['--config', config, '--host', '127.0.0.1', '--port', String(port)];
      // It refuses to start without a key; this one dies with the process.
      const env = { LITELLM_MASTER_KEY: `sk-${randomBytes(32).toString('hex')}` };
      const served = await serve({ command: found.program, args, url, env }, start_timeout_ms);
      await served.stop();
      return served.ready_ms;
    },
  };
}
