/**
 * A pass over what waits: in fair share's order, the same each time, and nobody waits for ever.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { endpointSpec, gib } from '../../test/lib/rig.ts';
import { askText } from '../core/ask.ts';
import type { Use } from '../core/fair-share.ts';
import { fallbackText } from '../core/fallback.ts';
import { sentenceOf } from '../core/reasons.ts';
import type { MachineView } from '../core/workload.ts';
import { createSlices } from '../lib/slices.ts';
import type { WaitingRow } from '../store/queue.ts';
import { createAsks, decideAll, reserve_after_ms, type Snapshot } from './admission.ts';

const none = { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 };
const now = 1e9;

function row(id: string, cores: number, over: Partial<WaitingRow> = {}): WaitingRow {
  const gpu_class = `cpu-${cores}c-${cores * 2}g`;
  const size = { cpu_millis: cores * 1000, memory_bytes: cores * 2 * gib };
  return {
    ...{ id, tenant_id: 'mine', creator_id: 'me', state: 'queued', code: 'all_matching_busy' },
    ...{ ask: askText(endpointSpec({ gpu_class, ...size })), revision: 1 },
    ...{ created_at: now - 1000, state_since: now - 1000, fallback: '', fallback_due: 0 },
    ...over,
  };
}

function machine(id: string, cores: number, held_cores = 0): MachineView {
  return {
    ...{ id, name: id, region: 'local', owner_tenant_id: 'mine', invited_tenant_ids: [] },
    ...{ sharing: 'community', online: true, last_seen_at: 0, accelerators: ['cpu'] },
    drivers: [{ driver: 'macos-container', ready: true, why: null, kinds: ['endpoint'] }],
    offered: { cpu_millis: cores * 1000, memory_bytes: 64 * gib, disk_bytes: 0 },
    held: { ...none, cpu_millis: held_cores * 1000 },
    ...{ reserved: { ...none }, holders: [] },
  };
}

function decide(waiting: Snapshot['waiting'], machines: MachineView[], uses: Use[] = []) {
  const snapshot: Snapshot = { waiting, machines: structuredClone(machines), uses, now };
  return decideAll(snapshot, createAsks(), createSlices(createFakeClock(), 3));
}
const placedOf = async (...args: Parameters<typeof decide>) =>
  (await decide(...args)).placed.map(
    ({ row, placement }) => `${row.id} on ${placement.machine_id}`,
  );

test('whoever used the least is placed first, not whoever came first', async () => {
  const waiting = [
    row('early', 1, { tenant_id: 'heavy', creator_id: 'a', created_at: 1 }),
    row('late', 1, { tenant_id: 'light', creator_id: 'b', created_at: 2 }),
  ];
  const uses = [{ tenant_id: 'heavy', user_id: 'a', weighted_s: 9000 }];
  assert.deepEqual(await placedOf(waiting, [machine('m', 1)], uses), ['late on m']);
  assert.deepEqual(await placedOf(waiting, [machine('m', 1)]), ['early on m']);
});

test('one that fits goes past one that does not', async () => {
  const waiting = [row('large', 4, { created_at: 1 }), row('small', 1)];
  assert.deepEqual(await placedOf(waiting, [machine('m', 4, 3)]), ['small on m']);
});

test('the head of a class that waited ten minutes keeps room free, and gets it', async () => {
  const waits_long = { created_at: 1, state_since: now - reserve_after_ms };
  const waiting = [row('large', 4, waits_long), row('small', 1)];
  const busy = machine('m', 4, 3);
  assert.deepEqual(await placedOf(waiting, [busy]), [], 'the small one leaves it');
  assert.deepEqual(await placedOf(waiting, [machine('m', 4)]), ['large on m']);
  assert.deepEqual(await placedOf(waiting, [busy, machine('other', 2)]), ['small on other']);
  const younger = { ...waits_long, state_since: now - reserve_after_ms + 1 };
  assert.deepEqual(await placedOf([row('large', 4, younger), row('small', 1)], [busy]), [
    'small on m',
  ]);
});

test('one that could run nowhere is no head: nothing is kept free for it', async () => {
  const waits_long = { created_at: 1, state_since: 0 };
  const nowhere = row('nowhere', 4, { ...waits_long, tenant_id: 'other', creator_id: 'x' });
  nowhere.ask = nowhere.ask.replace('"local"', '"elsewhere"');
  const waiting = [nowhere, row('large', 4, { ...waits_long, created_at: 2 }), row('small', 1)];
  const { placed, waits, reason } = await decide(waiting, [machine('m', 4, 3)]);
  assert.deepEqual(placed, []);
  const reasons = waits.map(({ row: one, group }) => [one.id, reason(group).code]);
  assert.deepEqual(new Map(reasons as [string, string][]).get('nowhere'), 'other_region');
});

test('a large one gets its turn, however many small ones come after it', async () => {
  let held: { id: string; cores: number; until: number }[] = [
    { id: 'first', cores: 2, until: now + 60_000 },
    { id: 'second', cores: 2, until: now + 90_000 },
  ];
  let at = now;
  let large_since: number | null = now;
  for (let minute = 0; minute < 60 && large_since !== null; minute += 1) {
    at += 60_000;
    held = held.filter((one) => one.until > at);
    const used = held.reduce((sum, one) => sum + one.cores, 0);
    const waiting = [
      row('large', 4, { created_at: now, state_since: large_since }),
      ...[1, 2, 3, 4].map((which) => row(`small-${minute}-${which}`, 1, { created_at: at })),
    ];
    const snapshot = { waiting, machines: [machine('m', 4, used)], uses: [], now: at };
    const slices = createSlices(createFakeClock(), 3);
    for (const { row: one } of (await decideAll(snapshot, createAsks(), slices)).placed) {
      if (one.id === 'large') large_since = null;
      held.push({ id: one.id, cores: 1, until: at + 150_000 });
    }
  }
  assert.equal(large_since, null, 'it was placed within an hour');
});

const anyWaiting = fc
  .array(
    fc.record({
      cores: fc.constantFrom(1, 2, 4, 8),
      tenant_id: fc.constantFrom('mine', 'yours'),
      created_at: fc.nat(9),
      state_since: fc.constantFrom(0, now - 1),
    }),
    { maxLength: 20 },
  )
  .map((all) =>
    all.map(({ cores, ...over }, index) => {
      return row(`w${index}`, cores, { ...over, creator_id: `${over.tenant_id}-user` });
    }),
  );
const anyMachines = fc
  .array(fc.record({ cores: fc.integer({ min: 1, max: 8 }), held: fc.nat(8) }), { maxLength: 5 })
  .map((all) => all.map(({ cores, held }, index) => machine(`m${index}`, cores, held)));

test('the same snapshot gives the same decisions, however its rows were sorted', async () => {
  const seen = async (waiting: Snapshot['waiting'], machines: MachineView[]) => {
    const { placed, waits } = await decide(waiting, machines);
    return [placed, waits.map((one) => one.row.id)];
  };
  await fc.assert(
    fc.asyncProperty(anyWaiting, anyMachines, async (waiting, machines) => {
      const once = await seen(waiting, machines);
      assert.deepEqual(await seen(waiting.toReversed(), machines), once);
    }),
    { seed: 3, numRuns: 300 },
  );
});

test('a further pass over what is left places nothing more', async () => {
  await fc.assert(
    fc.asyncProperty(anyWaiting, anyMachines, async (waiting, machines) => {
      const { placed, waits } = await decide(waiting, machines);
      assert.equal(placed.length + waits.length, waiting.length);
      const later = structuredClone(machines);
      for (const { row: one, placement } of placed) {
        const held = later.find((view) => view.id === placement.machine_id)?.held ?? { ...none };
        const ask = JSON.parse(one.ask);
        held.cpu_millis += ask.cpu_millis;
        held.memory_bytes += ask.memory_bytes;
      }
      for (const view of later) assert.ok(view.held.memory_bytes <= view.offered.memory_bytes);
      const again = await decide(
        waits.map((one) => one.row),
        later,
      );
      // Whoever becomes head of a class by then may keep room free, but nothing new is promised.
      assert.deepEqual(again.placed, []);
    }),
    { seed: 4, numRuns: 300 },
  );
});

/** Asks for large machines, and may fall back to one core after ten minutes. */
function falling(id: string, waited_ms: number, over: Partial<WaitingRow> = {}): WaitingRow {
  const small = { gpu_class: 'cpu-1c-2g', cpu_millis: 1000, memory_bytes: 2 * gib };
  const fallback = fallbackText({
    ...endpointSpec({ gpu_class: 'cpu-4c-8g', cpu_millis: 4000, memory_bytes: 8 * gib }),
    ...{ fallback_after_ms: 600_000, fallback: [{ step: 'class:cpu-1c-2g', set: small }] },
  });
  return row(id, 4, { fallback, state_since: now - waited_ms, ...over });
}
const stepsOf = async (...args: Parameters<typeof decide>) =>
  (await decide(...args)).placed.map(({ row: one, fallback_step }) => `${one.id} ${fallback_step}`);

test('a fallback is taken once it waited for it, and never where what was asked is free', async () => {
  const full = machine('m', 4, 3);
  assert.deepEqual(await stepsOf([falling('w', 599_999)], [full]), []);
  assert.deepEqual(await stepsOf([falling('w', 600_000)], [full]), ['w 1']);
  assert.deepEqual(await stepsOf([falling('w', 600_000)], [machine('m', 4)]), ['w 0']);
  assert.deepEqual(await stepsOf([falling('w', 0, { fallback_due: 1 })], [full]), ['w 1']);
  const { fallback_at } = await decide([falling('w', 599_000), falling('x', 1000)], [full]);
  assert.equal(fallback_at, now + 1000);
});

test('a fallback comes in the order of the queue, and takes nothing that is kept for others', async () => {
  const first = falling('first', 700_000, { created_at: 1 });
  const asks_small = row('second', 1, { created_at: 2 });
  const full = machine('m', 4, 3);
  assert.deepEqual(await stepsOf([first, asks_small], [full]), ['first 1']);
  assert.deepEqual(
    await stepsOf([{ ...first, created_at: 3 }, asks_small], [machine('m', 2, 1)]),
    ['second 0'],
    'what is asked for goes before, where it comes before',
  );
  const kept = row('head', 8, { created_at: 0, state_since: now - reserve_after_ms });
  assert.deepEqual(await stepsOf([kept, first], [machine('m', 8, 7)]), []);
});

test('where it finds no fallback either, the room that is kept for its head stays kept', async () => {
  const spec = endpointSpec({ gpu_class: 'cpu-4c-8g', cpu_millis: 4000, memory_bytes: 8 * gib });
  const size = { gpu_class: 'cpu-2c-4g', cpu_millis: 2000, memory_bytes: 4 * gib };
  const fallback = fallbackText({ ...spec, fallback: [{ step: 'class:cpu-2c-4g', set: size }] });
  const head = row('head', 4, { fallback, created_at: 1, state_since: now - reserve_after_ms });
  assert.deepEqual(await stepsOf([head, row('small', 1)], [machine('m', 4, 3)]), []);
});

test('what has a home falls back there and nowhere else', async () => {
  const spec = endpointSpec({ gpu_class: 'cpu-4c-8g', cpu_millis: 4000, memory_bytes: 8 * gib });
  const size = { gpu_class: 'cpu-1c-2g', cpu_millis: 1000, memory_bytes: 2 * gib };
  const elsewhere = { ...size, machine: { id: 'b', name: 'b' } };
  const fallback = fallbackText({
    ...spec,
    fallback: [
      { step: 'machine:b', set: elsewhere },
      { step: 'class:cpu-1c-2g', set: size },
    ],
  });
  const homed = row('w', 4, { fallback, ask: askText({ ...spec, home_machine_id: 'a' }) });
  const { placed } = await decide([homed], [machine('a', 4, 3), machine('b', 2)]);
  const where = placed.map((one) => [one.placement.machine_id, one.fallback_step]);
  assert.deepEqual(where, [['a', 2]]);
});

test('what a quota refused is passed over, so that the next step gets its turn', async () => {
  const snapshot = { waiting: [falling('w', 700_000)], uses: [], now };
  const decided = (refused: string[]) =>
    decideAll(
      { ...snapshot, machines: [machine('m', 8)], refused: new Set(refused) },
      ...[createAsks(), createSlices(createFakeClock(), 3)],
    );
  const steps = async (refused: string[]) =>
    (await decided(refused)).placed.map(({ fallback_step }) => fallback_step);
  assert.deepEqual(await steps([]), [0]);
  assert.deepEqual(await steps(['w 0']), [1]);
  assert.deepEqual(await steps(['w 0', 'w 1']), []);
});

const long_ago = { created_at: 1, state_since: now - reserve_after_ms };
const homedAt = (id: string, cores: number, home_machine_id: string) => {
  const size = { cpu_millis: cores * 1000, memory_bytes: cores * 2 * gib };
  const spec = endpointSpec({ gpu_class: `cpu-${cores}c-${cores * 2}g`, ...size });
  return row(id, cores, { ...long_ago, created_at: 0, ask: askText({ ...spec, home_machine_id }) });
};

test('room for what has a home is kept there alone, and holds no other of its class up', async () => {
  const waiting = [homedAt('homed', 4, 'a'), row('free', 4, long_ago), row('small', 1)];
  const machines = [machine('a', 4, 3), machine('b', 4, 3)];
  const decisions = await decide(waiting, machines);
  assert.deepEqual(decisions.placed, [], 'each machine is kept for one of the two');
  assert.deepEqual(await placedOf(waiting, [...machines, machine('c', 2)]), ['small on c']);
  assert.deepEqual(await placedOf(waiting, [machine('a', 4, 3), machine('b', 4)]), ['free on b']);
});

test('what waits says that room is kept, for which class and for how long', async () => {
  const { waits, reason } = await decide(
    [row('large', 4, long_ago), row('small', 1)],
    [machine('m', 4, 3)],
  );
  const small = waits.find(({ row: one }) => one.id === 'small');
  assert.ok(small);
  const { code, details } = reason(small.group);
  assert.equal(code, 'reserved_for_head');
  assert.equal(
    sentenceOf(code, details),
    'm has room, and keeps it for the first of cpu-4c-8g, which has waited 10m 0s.',
  );
});

test('a machine on which a start failed is the last choice for a while, and no longer', async () => {
  const failed = (avoid_until: number) => [row('w', 1, { avoid_machine_id: 'a', avoid_until })];
  const both = [machine('a', 2), machine('b', 8)];
  assert.deepEqual(await placedOf(failed(now + 1), both), ['w on b']);
  assert.deepEqual(await placedOf(failed(now), both), ['w on a']);
  assert.deepEqual(await placedOf(failed(now + 1), [machine('a', 2)]), ['w on a']);
  assert.deepEqual(await placedOf(failed(now + 1), [machine('a', 2), machine('b', 8, 8)]), [
    'w on a',
  ]);
});
