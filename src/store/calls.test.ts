/**
 * Calls on their way to an engine: the engine is never left waiting for those who are answered.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode, type Job } from './batch.ts';
import { createCalls } from './calls.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));
const done = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ ok: true as const, result: encode(index) }));

test('what waits is sent before the answers of the batch before are told', async () => {
  const events: string[] = [];
  const calls = createCalls(10, (jobs: Job[]) => {
    events.push(`sent ${jobs.map((job) => job.name).join(' ')}`);
  });
  void calls.add('first', {}).then(() => events.push('first is told'));
  await turn();
  void calls.add('second', {});
  void calls.add('third', {});
  await turn();
  calls.finish(done(1));
  await turn();
  assert.deepEqual(events, ['sent first', 'sent second third', 'first is told']);
});

test('those who ask again as they are told still go together', async () => {
  const sizes: number[] = [];
  const calls = createCalls(10, (jobs: Job[]) => void sizes.push(jobs.length));
  const ask = () => calls.add('again', {});
  for (let count = 0; count < 4; count += 1) void ask().then(ask);
  await turn();
  calls.finish(done(4));
  await turn();
  assert.deepEqual(sizes, [4, 4]);
});

test('one batch is under way at a time, and none is larger than its limit', async () => {
  const sizes: number[] = [];
  const calls = createCalls(3, (jobs: Job[]) => void sizes.push(jobs.length));
  const all = Array.from({ length: 7 }, (_, index) => calls.add('call', { index }));
  for (const size of [3, 3, 1]) {
    await turn();
    calls.finish(done(size));
  }
  await Promise.all(all);
  assert.deepEqual(sizes, [3, 3, 1]);
});
