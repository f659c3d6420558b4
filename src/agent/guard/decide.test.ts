import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type GuardLevel, type GuardWhy, guardWhys } from '../../core/guard.ts';
import { default_policy, type Policy } from '../policy.ts';
import { decideGuard, diskFloor, type GuardDecision } from './decide.ts';
import type { Readings } from './readings.ts';

const gib = 2 ** 30;
const minute = 60_000;

/** A machine that nobody needs. */
const quiet: Readings = {
  others_millis: 0,
  cores_millis: 8000,
  memory_available_bytes: 16 * gib,
  memory_total_bytes: 32 * gib,
  memory_stall_percent: 0,
  disk: { free_bytes: 200e9, total_bytes: 500e9 },
  owner: { idle_ms: 'nobody', has_screen: false },
  power: { source: 'mains', percent: null },
  cpu_celsius: 50,
  gpu_celsius: 40,
  foreign_gpus: [],
  minute: 12 * 60,
  button: null,
};

const decide = (
  readings: Partial<Readings>,
  policy: Partial<Policy> = {},
  before: GuardDecision | null = null,
  now = 0,
) => decideGuard({ ...quiet, ...readings }, { ...default_policy, ...policy }, before, now);

const rows: [string, Partial<Readings>, Partial<Policy>, GuardLevel, GuardWhy[], GuardWhy[]][] = [
  ['nobody needs it', {}, {}, 0, [], []],
  [
    'somebody typed a moment ago',
    { owner: { idle_ms: 1000, has_screen: true } },
    {},
    2,
    ['owner_active'],
    [],
  ],
  [
    'somebody typed less than five minutes ago',
    { owner: { idle_ms: 4.9 * minute, has_screen: true } },
    {},
    2,
    ['owner_active'],
    [],
  ],
  ['away for five minutes', { owner: { idle_ms: 5 * minute, has_screen: true } }, {}, 0, [], []],
  [
    'a screen of which nobody can tell',
    { owner: { idle_ms: null, has_screen: true } },
    {},
    2,
    ['owner_active'],
    [],
  ],
  [
    'no screen, and nobody can tell',
    { owner: { idle_ms: null, has_screen: false } },
    {},
    0,
    [],
    [],
  ],
  [
    'the owner wants all back when at it',
    { owner: { idle_ms: 0, has_screen: true } },
    { when_active: 4 },
    4,
    ['owner_active'],
    [],
  ],
  [
    'the owner does not mind',
    { owner: { idle_ms: 0, has_screen: true } },
    { when_active: 0 },
    0,
    [],
    [],
  ],
  ['on battery', { power: { source: 'battery', percent: 80 } }, {}, 3, ['on_battery'], []],
  ['a low battery', { power: { source: 'battery', percent: 20 } }, {}, 4, ['on_battery'], []],
  [
    'a low battery that does not matter',
    { power: { source: 'battery', percent: 5 } },
    { on_battery: 0 },
    0,
    [],
    [],
  ],
  ['warm', { cpu_celsius: 94.9 }, {}, 0, [], []],
  ['hot', { cpu_celsius: 95 }, {}, 3, ['hot'], []],
  ['very hot', { gpu_celsius: 95 }, {}, 4, ['hot'], []],
  ['a GPU in use', { foreign_gpus: ['GPU-1'] }, {}, 4, ['foreign_gpu'], []],
  ['GPUs that cannot be asked', { foreign_gpus: null }, {}, 0, [], []],
  ['others use a quarter of the cores', { others_millis: 2000 }, {}, 0, [], []],
  ['others use more than that', { others_millis: 2001 }, {}, 2, ['cpu_busy'], []],
  [
    'others use no more than is kept',
    { others_millis: 3900 },
    { reserve: { cpu_millis: 4000, memory_bytes: null, disk_bytes: null } },
    0,
    [],
    [],
  ],
  ['little memory', { memory_available_bytes: 1.5 * gib }, {}, 1, ['memory_low'], []],
  ['hardly any memory', { memory_available_bytes: 0.7 * gib }, {}, 4, ['memory_low'], []],
  ['no memory', { memory_available_bytes: 2 ** 27 }, {}, 4, ['memory_low'], ['memory_low']],
  ['all waits for memory', { memory_stall_percent: 50 }, {}, 4, ['memory_low'], []],
  [
    'below the floor',
    { disk: { free_bytes: 49e9, total_bytes: 500e9 } },
    {},
    1,
    ['disk_floor'],
    [],
  ],
  ['half of it', { disk: { free_bytes: 24e9, total_bytes: 500e9 } }, {}, 3, ['disk_floor'], []],
  [
    'a full disk',
    { disk: { free_bytes: 0.9e9, total_bytes: 500e9 } },
    {},
    3,
    ['disk_floor'],
    ['disk_floor'],
  ],
  [
    'a floor of the owner, for everybody',
    { disk: { free_bytes: 90e9, total_bytes: 500e9 } },
    { reserve: { cpu_millis: null, memory_bytes: null, disk_bytes: 100e9 } },
    1,
    ['disk_floor'],
    ['disk_floor'],
  ],
  ['outside the hours', {}, { hours: [{ from: 22 * 60, to: 7 * 60 }] }, 4, ['outside_hours'], []],
  ['within the hours', {}, { hours: [{ from: 8 * 60, to: 13 * 60 }] }, 0, [], []],
  [
    'paused by its owner',
    { button: { level: 4, everyone: false } },
    {},
    4,
    ['owner_paused'],
    ['owner_paused'],
  ],
  [
    'paused at once',
    { button: { level: 5, everyone: false } },
    {},
    5,
    ['owner_paused'],
    ['owner_paused'],
  ],
  [
    'what weighs most comes first',
    {
      owner: { idle_ms: 0, has_screen: true },
      power: { source: 'battery', percent: 90 },
      foreign_gpus: ['GPU-1'],
    },
    {},
    4,
    ['foreign_gpu', 'on_battery', 'owner_active'],
    [],
  ],
  [
    'for everyone',
    { power: { source: 'battery', percent: 90 } },
    { applies_to: 'everyone' },
    3,
    ['on_battery'],
    ['on_battery'],
  ],
];

for (const [what, readings, policy, level, why, own_why] of rows) {
  test(`the guard decides: ${what}`, () => {
    const found = decide(readings, policy);
    assert.deepEqual([found.level, found.why, found.own_why], [level, why, own_why]);
  });
}

test('the owner back counts at once, and away only after five minutes', () => {
  const here = { owner: { idle_ms: 0, has_screen: true } };
  const first = decide({}, {}, null, 0);
  const back = decide(here, {}, first, 1000);
  assert.deepEqual([first.level, back.level], [0, 2]);
  assert.equal(back.until, 1000 + 5 * minute);
  const idle = (idle_ms: number) => ({ owner: { idle_ms, has_screen: true } });
  const still = decide(idle(5 * minute - 1), {}, back, 1000 + 5 * minute - 1);
  assert.equal(still.level, 2);
  assert.equal(decide(idle(5 * minute), {}, still, 1000 + 5 * minute).level, 0);
});

test('who signs out is away as one who went to lunch is', () => {
  const back = decide({ owner: { idle_ms: 0, has_screen: true } }, {}, null, 0);
  const out = { owner: { idle_ms: 'nobody' as const, has_screen: false } };
  assert.equal(decide(out, {}, back, 4 * minute).level, 2);
  assert.equal(decide(out, {}, decide(out, {}, back, 4 * minute), 5 * minute).level, 0);
});

test('what cannot be read any more keeps what was, and begins nothing', () => {
  const on_battery = decide({ power: { source: 'battery', percent: 50 } }, {}, null, 0);
  let now = on_battery;
  for (let at = minute; at <= 30 * minute; at += minute) now = decide({ power: null }, {}, now, at);
  assert.deepEqual([now.level, now.why], [3, ['on_battery']]);
  assert.equal(decide({ power: null }).level, 0);
});

test('a cause that gets milder keeps its level until it was mild for its time', () => {
  const worse = decide({ cpu_celsius: 101 }, {}, null, 0);
  const milder = decide({ cpu_celsius: 96 }, {}, worse, 30_000);
  assert.equal(milder.level, 4);
  const later = decide({ cpu_celsius: 96 }, {}, milder, 60_000);
  assert.equal(later.level, 3);
  assert.equal(decide({ cpu_celsius: 60 }, {}, later, 119_999).level, 3);
  assert.equal(decide({ cpu_celsius: 60 }, {}, later, 120_000).level, 0);
});

test('what was pressed ends when it is taken back', () => {
  const pressed = decide({ button: { level: 5, everyone: true } }, {}, null, 0);
  assert.deepEqual([pressed.level, pressed.everyone, pressed.until], [5, true, null]);
  const after = decide({}, {}, pressed, 1);
  assert.deepEqual([after.level, after.everyone, after.own_why], [0, false, []]);
});

test('the disk that is kept is 20 GB or a tenth, and a quarter of a small disk', () => {
  const floor = (total: number) => diskFloor(total, default_policy);
  assert.deepEqual([floor(500e9), floor(100e9), floor(32e9)], [50e9, 20e9, 8e9]);
});

const reading = fc.record<Partial<Readings>>({
  others_millis: fc.constantFrom(null, 0, 3000),
  memory_available_bytes: fc.constantFrom(null, 16 * gib, 1.5 * gib, 0.5 * gib, 2 ** 20),
  disk: fc.constantFrom(null, quiet.disk, { free_bytes: 30e9, total_bytes: 500e9 }),
  owner: fc.constantFrom<Readings['owner']>(
    { idle_ms: 'nobody', has_screen: false },
    { idle_ms: 0, has_screen: true },
    { idle_ms: null, has_screen: true },
    { idle_ms: null, has_screen: false },
  ),
  power: fc.constantFrom<Readings['power']>(
    null,
    { source: 'mains', percent: 5 },
    { source: 'battery', percent: 50 },
    { source: 'battery', percent: 5 },
  ),
  cpu_celsius: fc.constantFrom(null, 50, 96, 101),
  gpu_celsius: fc.constant(null),
  foreign_gpus: fc.constantFrom<string[] | null>(null, [], ['GPU-1']),
  minute: fc.constantFrom(60, 720),
});

test('it never rises without a reading that says so, and never falls before its time', () => {
  const tale = fc.array(fc.tuple(fc.integer({ min: 0, max: 200_000 }), reading), { maxLength: 40 });
  fc.assert(
    fc.property(tale, (steps) => {
      let before: GuardDecision | null = null;
      let now = 0;
      /** When each cause asked last for each level, by what a fresh decision says of it. */
      const asked = new Map<GuardWhy, { level: number; at: number }[]>();
      for (const [passed, readings] of steps) {
        now += passed;
        const fresh = decide(readings, {}, null, now);
        const found: GuardDecision = decide(readings, {}, before, now);
        for (const why of guardWhys) {
          const was = before?.causes[why]?.level ?? 0;
          const is = found.causes[why]?.level ?? 0;
          const said = fresh.causes[why]?.level ?? 0;
          const told = asked.get(why) ?? [];
          if (said > 0) asked.set(why, [...told, { level: said, at: now }]);
          if (is > was) assert.equal(is, said, `${why} rose to ${is} unasked`);
          if (is >= was) continue;
          const quiet_ms = why === 'owner_active' || why === 'cpu_busy' || why === 'foreign_gpu';
          const least = why === 'outside_hours' ? 0 : quiet_ms ? 5 * minute : minute;
          const last = told.filter(({ level }) => level >= was).at(-1);
          assert.ok(last && now - last.at >= least, `${why} fell from ${was} too early`);
        }
        const most = Math.max(0, ...Object.values(found.causes).map(({ level }) => level));
        assert.equal(found.level, most);
        before = found;
      }
    }),
    { numRuns: 300, seed: 11 },
  );
});
