/**
 * Fuzzes the model validators in children with little memory; the form is the caller's: short for
 * every push, long by night.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exec } from '../../src/lib/exec.ts';
import { model_bombs } from './model-bombs.ts';

/** The validator must hold its own with this much; a chunk and the tensors' names are all it keeps. */
const heap_mb = 96;
const outside_bytes = 64 << 20;
/** For one model, on a busy machine of two cores; the slowest takes under 2 s on an idle one. */
const slowest_ms = 15_000;

const child = join(import.meta.dirname, '../fuzz/models-child.ts');

type Told = {
  accepted: number;
  refused: number;
  rules: number;
  slowest: { ms: number; what: string };
  most_bytes: number;
};

/** Validates `count` spoiled models from `first_seed` on; fails with the seed that was wrong. */
export async function fuzzModels(first_seed: number, count: number): Promise<Told> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-fuzz-'));
  try {
    return await runChild([folder, String(first_seed), String(count)], 60_000 + 100 * count);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Validates each of the files that are made to cost the most. */
export async function explodeModels(): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-bombs-'));
  const costs: string[] = [];
  try {
    for (const bomb of model_bombs) {
      const path = join(folder, 'model');
      bomb.write(path);
      const told = await runChild([path, 'one'], 60_000);
      costs.push(`${bomb.name}: ${Math.round(told.slowest.ms)} ms`);
      rmSync(path, { recursive: true });
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return costs;
}

async function runChild(args: string[], timeout_ms: number): Promise<Told> {
  const ran = await exec(process.execPath, [`--max-old-space-size=${heap_mb}`, child, ...args], {
    timeout_ms,
  });
  assert.equal(ran.code, 0, `${args.join(' ')}: ${ran.outcome}\n${ran.stderr}`);
  const told = JSON.parse(ran.stdout) as Told;
  const { ms, what } = told.slowest;
  assert.ok(ms < slowest_ms, `${what} took ${ms} ms`);
  assert.ok(told.most_bytes < outside_bytes, `${what}: ${told.most_bytes} bytes outside the heap`);
  return told;
}
