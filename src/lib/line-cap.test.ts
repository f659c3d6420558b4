/**
 * The cap on lines: a flood is told by its begin and its count.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { keepingLog, type LogLine } from '../../test/lib/rig.ts';
import { createLineCap } from './line-cap.ts';

test('the first lines of each window are written, the rest is counted', async () => {
  const clock = createFakeClock();
  const said: LogLine[] = [];
  const cap = createLineCap({ clock, log: keepingLog(said), lines: 3, window_ms: 10_000 });
  const ask = (times: number) => Array.from({ length: times }, () => cap.admits());
  assert.deepEqual(ask(5), [true, true, true, false, false]);
  await clock.advance(9_999);
  assert.deepEqual(ask(1), [false]);
  assert.equal(said.length, 0);
  await clock.advance(1);
  assert.deepEqual(
    said.map((line) => line.left_out),
    [3],
  );
  assert.deepEqual(ask(4), [true, true, true, false]);
  await clock.advance(60_000);
  assert.deepEqual(ask(3), [true, true, true]);
  assert.deepEqual(
    said.map((line) => line.left_out),
    [3, 1],
  );
});
