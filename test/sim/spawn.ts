/**
 * Starts one worker of the simulator and reads its lines.
 */
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { spawnChild } from '../../src/lib/exec.ts';
import type { Line } from './worker.ts';

export type Share = {
  root: string;
  share: number;
  of: number;
  words: string[];
  mutant: string | null;
  read: (line: Line) => void;
};

/** Resolves with what went wrong with the worker itself, or null. */
export async function spawnSim(share: Share): Promise<string | null> {
  const { root, words, mutant, read } = share;
  const hook = mutant === null ? [] : ['--import', join(root, 'test/sim/mutate.ts')];
  const args = ['--disable-warning=ExperimentalWarning', ...hook, join(root, 'test/sim/worker.ts')];
  const child = spawnChild(
    process.execPath,
    [...args, ...[String(share.share), String(share.of), ...words]],
    {
      env: { ...process.env, EINSORA_SIM_MUTANT: mutant ?? '' },
      cwd: root,
    },
  );
  const errors: Buffer[] = [];
  child.stderr?.on('data', (chunk: Buffer) => {
    if (words.includes('--verbose')) process.stderr.write(chunk);
    else errors.push(chunk);
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  if (child.stdout !== null) {
    for await (const text of createInterface({ input: child.stdout })) {
      read(JSON.parse(text) as Line);
    }
  }
  const code = await ended;
  return code === 0 ? null : `a worker ended with ${code}: ${Buffer.concat(errors).toString()}`;
}
