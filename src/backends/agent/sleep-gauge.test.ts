/** How long a machine slept, told from two clocks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSleepGauge } from './sleep-gauge.ts';

/** Reports at our moments; the agent's clock stands still for so long before each. */
function tell(reports: [ours_s: number, asleep_s: number, late_s?: number][]) {
  const gauge = createSleepGauge();
  let asleep = 0;
  return reports.flatMap(([ours_s, more, late_s = 0]) => {
    asleep += more;
    const told = gauge.observe(1000 * ours_s, 1000 * (ours_s - late_s - asleep) + 77);
    return told === null ? [] : [[told.slept_ms / 1000, told.woke_ms / 1000]];
  });
}

test('a sleep is told at the second report after it, once, with when it was over', () => {
  assert.deepEqual(
    tell([
      [0, 0],
      [20, 0],
      [3640, 3600],
      [3660, 0],
      [3680, 0],
    ]),
    [[3600, 3640]],
  );
});

test('a report that was only late is no sleep', () => {
  assert.deepEqual(
    tell([
      [0, 0],
      [60, 0, 40],
      [80, 0],
      [140, 0, 50],
      [160, 0],
    ]),
    [],
  );
});

test('of two late reports after a sleep the quicker one is believed', () => {
  assert.deepEqual(
    tell([
      [0, 0],
      [700, 600, 30],
      [720, 0, 1],
      [740, 0],
    ]),
    [[601, 700]],
  );
});

test('sleeps one after the other are told each', () => {
  const days: [number, number][] = [
    [0, 0],
    [100, 80],
    [120, 0],
    [300, 150],
    [320, 0],
    [340, 0],
  ];
  assert.deepEqual(tell(days), [
    [80, 100],
    [150, 300],
  ]);
});
