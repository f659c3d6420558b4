/**
 * The peer of the start bench: LiteLLM's proxy out of its Python package, which serves the same
 * kind of API with nothing configured.
 *
 * Invariants: installed once, into a virtual environment of its own in the repository's cache;
 * where it cannot be had the peer is null with the reason, and the bench goes on.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../src/lib/exec.ts';
import { freePort, serve } from './served-program.ts';

export type Peer = { name: string; start(): Promise<number> };

const folder = join(import.meta.dirname, '../.cache/peers/litellm');
const install_timeout_ms = 10 * 60_000;
const start_timeout_ms = 120_000;

export async function findPeer(): Promise<Peer | { missing: string }> {
  const program = join(folder, 'bin/litellm');
  if (!existsSync(program)) {
    const why = await install();
    if (why !== null) return { missing: why };
  }
  const asked = await run(join(folder, 'bin/python'), [
    '-c',
    'from importlib.metadata import version; print(version("litellm"))',
  ]);
  if (asked.code !== 0) return { missing: lastLine(asked.stderr) };
  const config = join(folder, 'config.yaml');
  writeFileSync(config, 'model_list: []\n');
  return {
    name: `litellm ${asked.stdout.trim()}`,
    async start() {
      const port = await freePort();
      const url = `http://127.0.0.1:${port}/health/liveliness`;
      const args = ['--config', config, '--host', '127.0.0.1', '--port', String(port)];
      // It refuses to start without a key; this one dies with the process.
      const env = { LITELLM_MASTER_KEY: `sk-${randomBytes(32).toString('hex')}` };
      const served = await serve({ command: program, args, url, env }, start_timeout_ms);
      await served.stop();
      return served.ready_ms;
    },
  };
}

async function install(): Promise<string | null> {
  mkdirSync(folder, { recursive: true });
  const made = await run('python3', ['-m', 'venv', folder]);
  if (made.code !== 0) return lastLine(made.stderr || made.stdout);
  const args = ['-m', 'pip', 'install', '--quiet', 'litellm[proxy]'];
  const installed = await run(join(folder, 'bin/python'), args);
  return installed.code === 0 ? null : lastLine(installed.stderr);
}

function run(command: string, args: string[]) {
  const env = Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    ),
  );
  return exec(command, args, { env, timeout_ms: install_timeout_ms });
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 200) || 'it could not be installed';
}
