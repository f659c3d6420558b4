/**
 * Usage is additive: however a window is split and whatever it is grouped by, the parts are the
 * whole.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createTally, lengthWithin, type Usage, type UsageEntry, usageGroups } from './usage.ts';

const hour = 3600_000;
const start = Date.UTC(2027, 0, 30, 22);
const moment = fc.integer({ min: start, max: start + 80 * hour });
const anyEntry: fc.Arbitrary<UsageEntry> = fc
  .record({
    kind: fc.constantFrom('metered' as const, 'held' as const),
    sign: fc.constantFrom(1 as const, -1 as const),
    user_id: fc.constantFrom('ada', 'bob'),
    workload_id: fc.constantFrom('w1', 'w2', 'w3'),
    placed_class: fc.constantFrom('cpu-1c-2g', 'l40s-48gb'),
    gpu_count: fc.nat(4),
    cpu_millis: fc.integer({ min: 100, max: 64_000 }),
    memory_bytes: fc.integer({ min: 2 ** 20, max: 2 ** 40 }),
    started_at: moment,
    ended_at: moment,
  })
  .map((entry) => ({ ...entry, ended_at: Math.max(entry.started_at, entry.ended_at) }));

function totalOf(entries: UsageEntry[], from: number, to: number, by = usageGroups[0]): Usage {
  const tally = createTally({ from, to }, by);
  for (const entry of entries) tally.add(entry);
  return tally.total();
}

const near = (a: number, b: number) => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a));

function assertSame(sum: Usage, whole: Usage): void {
  assert.deepEqual([sum.metered_ms, sum.held_ms], [whole.metered_ms, whole.held_ms]);
  for (const name of ['cpu_hours', 'gpu_hours', 'memory_gib_hours'] as const) {
    assert.ok(near(sum[name], whole[name]), `${name}: ${sum[name]} and ${whole[name]}`);
  }
}

const plus = (a: Usage, b: Usage): Usage => ({
  metered_ms: a.metered_ms + b.metered_ms,
  held_ms: a.held_ms + b.held_ms,
  cpu_hours: a.cpu_hours + b.cpu_hours,
  gpu_hours: a.gpu_hours + b.gpu_hours,
  memory_gib_hours: a.memory_gib_hours + b.memory_gib_hours,
});

test('the parts of any split of a window sum to the whole', () => {
  fc.assert(
    fc.property(
      fc.array(anyEntry, { maxLength: 20 }),
      fc.array(moment, { minLength: 2, maxLength: 8 }),
      (entries, moments) => {
        const cuts = moments.sort((a, b) => a - b);
        const from = cuts[0] ?? 0;
        const to = cuts.at(-1) ?? 0;
        const parts = cuts.slice(1).map((cut, index) => totalOf(entries, cuts[index] ?? 0, cut));
        assertSame(parts.reduce(plus, totalOf([], 0, 0)), totalOf(entries, from, to));
      },
    ),
    { seed: 3 },
  );
});

test('the groups of any grouping sum to the total', () => {
  fc.assert(
    fc.property(
      fc.array(anyEntry, { maxLength: 20 }),
      moment,
      moment,
      fc.constantFrom(...usageGroups),
      (entries, from, to, by) => {
        const tally = createTally({ from, to: Math.max(from, to) }, by);
        for (const entry of entries) tally.add(entry);
        const groups = tally.groups();
        assert.deepEqual(
          groups.map(([key]) => key),
          groups.map(([key]) => key).sort(),
        );
        assertSame(groups.map(([, usage]) => usage).reduce(plus, totalOf([], 0, 0)), tally.total());
      },
    ),
    { seed: 4 },
  );
});

test('an entry counts where it reaches into the window, to the millisecond', () => {
  const entry = { sign: 1 as const, started_at: 100, ended_at: 200 };
  const cases: [number, number, number][] = [
    [0, 100, 0],
    [0, 101, 1],
    [150, 160, 10],
    [199, 900, 1],
    [200, 900, 0],
    [0, 900, 100],
    [900, 0, 0],
  ];
  for (const [from, to, length] of cases) assert.equal(lengthWithin(entry, { from, to }), length);
  assert.equal(lengthWithin({ ...entry, sign: -1 }, { from: 0, to: 150 }), -50);
});

test('a night is two days, and amounts are those of metered time', () => {
  const tally = createTally({ from: start, to: start + 24 * hour }, 'day');
  const entry = {
    ...{ sign: 1 as const, user_id: 'ada', workload_id: 'w1', placed_class: 'cpu-2c-4g' },
    ...{ gpu_count: 2, cpu_millis: 2000, memory_bytes: 4 * 2 ** 30 },
    ...{ started_at: start, ended_at: start + 3 * hour },
  };
  tally.add({ ...entry, kind: 'metered' });
  tally.add({ ...entry, kind: 'held', ended_at: start + 4 * hour });
  assert.deepEqual(tally.groups(), [
    [
      '2027-01-30',
      {
        ...{ metered_ms: 2 * hour, held_ms: 2 * hour },
        ...{ cpu_hours: 4, gpu_hours: 4, memory_gib_hours: 8 },
      },
    ],
    [
      '2027-01-31',
      {
        ...{ metered_ms: hour, held_ms: 2 * hour },
        ...{ cpu_hours: 2, gpu_hours: 2, memory_gib_hours: 4 },
      },
    ],
  ]);
});
