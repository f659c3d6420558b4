/**
 * The index: what it chooses, one after the other, is what `place` would have chosen each time.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Ask } from './ask.ts';
import { place } from './placement.ts';
import { createPlacementIndex } from './placement-index.ts';
import { freeOf } from './room.ts';
import type { Amounts, MachineView } from './workload.ts';

const gib = 2 ** 30;
const none = { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 };
const askOf = (cores: number, memory_gib: number): Ask => ({
  ...{
    kind: 'endpoint',
    image_id: null,
    region: 'local',
    accelerator: null,
    gpu_class: null,
    gpu_count: 0,
  },
  ...{ cpu_millis: cores * 1000, memory_bytes: memory_gib * gib, disk_bytes: 0 },
});
const machineOf = (id: string, cores: number, over: Partial<MachineView> = {}): MachineView => ({
  ...{ id, name: id, region: 'local', owner_tenant_id: 'mine', invited_tenant_ids: [] },
  ...{ sharing: 'private', online: true, last_seen_at: 0, accelerators: ['cpu'] },
  drivers: [{ driver: 'macos-container', ready: true, why: null, kinds: ['endpoint'] }],
  offered: { cpu_millis: cores * 1000, memory_bytes: cores * 2 * gib, disk_bytes: 0 },
  ...{ held: { ...none }, reserved: { ...none }, holders: [] },
  ...over,
});
const anyMachines: fc.Arbitrary<MachineView[]> = fc
  .array(
    fc.record({
      cores: fc.integer({ min: 1, max: 8 }),
      online: fc.boolean(),
      owner_tenant_id: fc.constantFrom('mine', 'yours'),
      sharing: fc.constantFrom('private', 'community'),
      held: fc.nat(3),
    }),
    { maxLength: 8 },
  )
  .map((all) =>
    all.map(({ cores, held, ...over }, index) =>
      machineOf(`m${index}`, cores, { ...over, held: { ...none, cpu_millis: held * 1000 } }),
    ),
  );
const asks = [askOf(1, 2), askOf(2, 2), askOf(1, 8), askOf(4, 8)];
const anyTurns = fc.array(
  fc.record({ ask: fc.constantFrom(...asks), tenant: fc.constantFrom('mine', 'yours', 'third') }),
  { maxLength: 25 },
);
const copy = (machines: MachineView[]) => structuredClone(machines);

test('each choice is what place would choose after those before, and so is each reason', () => {
  fc.assert(
    fc.property(anyMachines, anyTurns, (machines, turns) => {
      const indexed = copy(machines);
      const plain = copy(machines);
      const index = createPlacementIndex(indexed);
      for (const { ask, tenant } of turns) {
        const group = index.group(ask, tenant);
        const expected = place(ask, tenant, plain);
        const chosen = index.choose(group);
        assert.deepEqual(chosen, expected.chosen);
        if (chosen === null) {
          const { code, details } = expected;
          assert.deepEqual(index.reason(group), { code, details });
          continue;
        }
        index.take(chosen, ask);
        const machine = plain.find((one) => one.id === chosen.machine_id);
        if (machine !== undefined) add(machine.held, ask);
      }
      assert.deepEqual(indexed, plain);
    }),
    { seed: 11, numRuns: 1000 },
  );
});

test('room is kept free where the least is missing, and nobody else gets it', () => {
  const large = machineOf('large', 4, { held: { ...none, cpu_millis: 3000 } });
  const largest = machineOf('largest', 8, { held: { ...none, cpu_millis: 8000 } });
  const index = createPlacementIndex([large, largest]);
  assert.equal(index.reserve(index.group(askOf(4, 8), 'mine')), true);
  assert.deepEqual(freeOf(large).cpu_millis, 0);
  assert.equal(index.choose(index.group(askOf(1, 1), 'mine')), null);
});

test('what no machine could ever hold keeps nothing free', () => {
  const small = machineOf('small', 2);
  const index = createPlacementIndex([small]);
  assert.equal(index.reserve(index.group(askOf(4, 8), 'mine')), false);
  assert.deepEqual(small.reserved, none);
});

test('two that keep room free do not count on the same', () => {
  const first = machineOf('a', 4, { held: { ...none, cpu_millis: 1000 } });
  const second = machineOf('b', 4, { held: { ...none, cpu_millis: 4000 } });
  const index = createPlacementIndex([first, second]);
  assert.equal(index.reserve(index.group(askOf(4, 8), 'mine')), true);
  assert.equal(index.reserve(index.group(askOf(4, 8), 'yours')), false);
  assert.equal(index.reserve(index.group(askOf(4, 4), 'mine')), true);
  assert.deepEqual([first.reserved.cpu_millis, second.reserved.cpu_millis], [4000, 4000]);
});

function add(sum: Amounts, more: Amounts): void {
  sum.cpu_millis += more.cpu_millis;
  sum.memory_bytes += more.memory_bytes;
  sum.disk_bytes += more.disk_bytes;
}
