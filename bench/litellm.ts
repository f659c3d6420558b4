/**
 * LiteLLM's proxy out of its Python package: a peer of the start bench and of the gateway bench.
 *
 * Invariants: installed once, into a virtual environment of its own in the repository's cache.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../src/lib/exec.ts';
import { environment, install, type Missing, peerFolder } from './peer.ts';

export type LiteLlm = { program: string; version: string; folder: string };

export async function findLiteLlm(): Promise<LiteLlm | Missing> {
  const folder = peerFolder('litellm');
  const program = join(folder, 'bin/litellm');
  const python = join(folder, 'bin/python');
  if (!existsSync(program)) {
    mkdirSync(folder, { recursive: true });
    const why =
      (await install('python3', ['-m', 'venv', folder])) ??
      (await install(python, ['-m', 'pip', 'install', '--quiet', 'litellm[proxy]']));
    if (why !== null) return { missing: why };
  }
  const ask = 'from importlib.metadata import version; print(version("litellm"))';
  const asked = await exec(python, ['-c', ask], { env: environment(), timeout_ms: 60_000 });
  if (asked.code !== 0) return { missing: asked.stderr.trim().slice(-200) };
  return { program, version: asked.stdout.trim(), folder };
}
