/**
 * The event loop's delay: said each minute, as a warning where it was felt.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { keepingLog, type LogLine } from '../../test/lib/rig.ts';
import { startLoopWatch } from './loop-watch.ts';

test('a loop that was late is a warning, one that was not is a detail', async () => {
  const clock = createFakeClock();
  const lines: LogLine[] = [];
  let delay = { p99_ms: 3.4, max_ms: 9 };
  const watch = startLoopWatch({ clock, log: keepingLog(lines), read: () => delay });
  await clock.advance(60_000);
  delay = { p99_ms: 51, max_ms: 400 };
  await clock.advance(60_000);
  watch.stop();
  await clock.advance(600_000);
  assert.deepEqual(
    lines.map(({ level, p99_ms, max_ms }) => [level, p99_ms, max_ms]),
    [
      ['debug', 3, 9],
      ['warn', 51, 400],
    ],
  );
  assert.equal(clock.waiting(), 0);
});

test('the process’s own delay is a number that begins anew', async () => {
  const clock = createFakeClock();
  const lines: LogLine[] = [];
  const watch = startLoopWatch({ clock, log: keepingLog(lines) });
  await clock.advance(120_000);
  watch.stop();
  assert.equal(lines.length, 2);
  for (const { p99_ms } of lines) assert.ok(Number(p99_ms) >= 0);
});
