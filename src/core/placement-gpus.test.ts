/**
 * Placement with GPUs: the index chooses the machine and the devices that `place` would, takes and
 * keeps free what it says, and never gives one device to two.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Ask } from './ask.ts';
import type { DeviceView } from './devices.ts';
import { place } from './placement.ts';
import { createPlacementIndex } from './placement-index.ts';
import type { MachineView } from './workload.ts';

const gib = 2 ** 30;
const none = { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 };

const askOf = (over: Partial<Ask> = {}): Ask => ({
  ...{ kind: 'endpoint', image_id: null, region: 'local', accelerator: 'nvidia' },
  ...{ gpu_class: 'nvidia-any', gpu_count: 1, cpu_millis: 1000, memory_bytes: gib, disk_bytes: 0 },
  ...over,
});

function gpu(uuid: string, memory_gib: number, over: Partial<DeviceView> = {}): DeviceView {
  return {
    ...{ uuid, model: 'NVIDIA L40S', memory_bytes: memory_gib * gib, usable_by: ['docker'] },
    ...{ is_part: false, only_all: false, held: null, reserved: false, holders: [] },
    ...over,
  };
}

const machineOf = (id: string, devices: DeviceView[], cores = 64): MachineView => ({
  ...{ id, name: id, region: 'local', owner_tenant_id: 'mine', invited_tenant_ids: [] },
  ...{ sharing: 'private', online: true, last_seen_at: 0, accelerators: ['cpu', 'nvidia'] },
  drivers: [{ driver: 'docker', ready: true, why: null, kinds: ['endpoint'] }],
  offered: { cpu_millis: cores * 1000, memory_bytes: 256 * gib, disk_bytes: 0 },
  ...{ held: { ...none }, reserved: { ...none }, holders: [], devices },
});

const anyMachines = fc
  .array(fc.array(fc.constantFrom(16, 24, 48), { maxLength: 4 }), { maxLength: 4 })
  .map((all) =>
    all.map((sizes, machine) =>
      machineOf(
        `m${machine}`,
        sizes.map((size, index) => gpu(`GPU-${machine}-${index}`, size)),
        4,
      ),
    ),
  );
const asks = [
  askOf(),
  askOf({ gpu_count: 2 }),
  askOf({ gpu_memory_bytes: 20 * gib }),
  askOf({ share_device: true }),
  askOf({ gpu_memory_bytes: 40 * gib, share_device: true }),
];
const anyTurns = fc.array(
  fc.record({ ask: fc.constantFrom(...asks), creator: fc.constantFrom('ada', 'eve') }),
  { maxLength: 25 },
);

test('each choice of devices is what place would choose after those before', () => {
  const all = fc.property(anyMachines, anyTurns, (machines, turns) => {
    const index = createPlacementIndex(machines);
    const takers = new Map<string, string>();
    for (const [turn, { ask, creator }] of turns.entries()) {
      const group = index.group(ask, 'mine', creator);
      const expected = place(ask, 'mine', structuredClone(machines), creator);
      const chosen = index.choose(group);
      assert.deepEqual(chosen, expected.chosen);
      if (chosen === null) {
        assert.equal(index.reason(group).code, expected.code);
        continue;
      }
      assert.equal(chosen.devices?.length, ask.gpu_count);
      for (const uuid of chosen.devices ?? []) {
        const taker = ask.share_device ? creator : `turn ${turn}`;
        assert.equal(takers.get(uuid) ?? taker, taker, 'a device has one taker');
        takers.set(uuid, taker);
      }
      index.take(chosen, ask, creator);
    }
  });
  fc.assert(all, { seed: 53, numRuns: 1000 });
});

test('the machine whose GPU wastes the least is taken, however full the others are', () => {
  const large = machineOf('a', [gpu('GPU-a', 48)]);
  const small = machineOf('b', [gpu('GPU-b', 24)], 4);
  const { chosen } = place(askOf({ gpu_memory_bytes: 20 * gib }), 'mine', [large, small]);
  assert.deepEqual([chosen?.machine_id, chosen?.devices], ['b', ['GPU-b']]);
});

test('who has waited long for two GPUs has one kept free while the other is held', () => {
  const alone = { sharer: null, count: 1 };
  const machine = machineOf('a', [gpu('GPU-1', 24), gpu('GPU-2', 24, { held: alone })]);
  const index = createPlacementIndex([machine]);
  assert.equal(index.reserve(index.group(askOf({ gpu_count: 2 }), 'mine')), true);
  const next = index.group(askOf(), 'mine');
  assert.equal(index.choose(next), null);
  assert.equal(index.reason(next).code, 'reserved_for_head');
  assert.equal(index.reserve(next), false, 'none is left to keep');
});

test('of GPUs that nobody can have now the owner alone is told why', () => {
  const busy = gpu('GPU-1', 24, { usable_by: [], why: 'NVIDIA L40S is used by firefox.' });
  const machine = { ...machineOf('desk', [busy]), accelerators: ['cpu'] };
  const [own] = place(askOf(), 'mine', [machine]).refusals;
  assert.deepEqual(own?.code, 'gpus_unusable');
  assert.equal(own?.details.why, 'NVIDIA L40S is used by firefox');
  const shared = { ...machine, sharing: 'community' as const };
  const [theirs] = place(askOf(), 'yours', [shared]).refusals;
  assert.doesNotMatch(JSON.stringify(theirs), /firefox/);
  const bare = { ...machine, devices: [] };
  assert.equal(place(askOf(), 'mine', [bare]).refusals[0]?.code, 'accelerator_missing');
});

test('what asks for no GPU takes none, and waits for no GPU', () => {
  const machine = machineOf('a', [gpu('GPU-1', 24)]);
  const plain = askOf({ accelerator: null, gpu_class: null, gpu_count: 0 });
  const { chosen } = place(plain, 'mine', [machine]);
  assert.deepEqual([chosen?.driver, chosen?.devices], ['docker', undefined]);
  const cuda = askOf({ ...plain, image_id: 'llama-cpp-cuda' });
  assert.equal(place(cuda, 'mine', [machine]).chosen, null, 'its image runs on GPUs alone');
});
