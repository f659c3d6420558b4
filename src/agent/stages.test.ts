/**
 * Stages: one at a time, with durations of a clock that only rises.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { createStages } from './stages.ts';

test('a stage runs until it is done, and its duration stays', async () => {
  const clock = createFakeClock();
  let changes = 0;
  const stages = createStages(clock, () => {
    changes += 1;
  });
  stages.begin('engine');
  await clock.advance(250);
  stages.progress(10, null);
  const [running] = stages.list();
  assert.deepEqual(
    [running?.state, running?.duration_ms, running?.done_bytes, running?.total_bytes],
    ['running', 250, 10, null],
  );
  stages.done('made up');
  clock.stepWall(-1e6);
  await clock.advance(1000);
  const [done] = stages.list();
  assert.deepEqual([done?.state, done?.duration_ms, done?.note], ['done', 250, 'made up']);
  assert.equal(changes, 3);
});

test('beginning a stage ends the one before', () => {
  const stages = createStages(createFakeClock(), () => {});
  stages.begin('sandbox');
  stages.begin('engine');
  stages.fail('download_failed');
  assert.deepEqual(
    stages.list().map(({ name, state, note }) => [name, state, note]),
    [
      ['sandbox', 'done', null],
      ['engine', 'failed', 'download_failed'],
    ],
  );
});

test('without a stage there is no progress, and nothing to say', () => {
  let changes = 0;
  const stages = createStages(createFakeClock(), () => {
    changes += 1;
  });
  stages.progress(1, 2);
  stages.done();
  stages.fail('x');
  assert.deepEqual([stages.list(), changes], [[], 0]);
});
