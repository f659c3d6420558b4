/**
 * Which idle endpoints to stop for what waits: as few as possible.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endpointSpec, gib } from '../../test/lib/rig.ts';
import { builtin_catalog } from './catalog.ts';
import { chooseToStop, type Idler } from './make-room.ts';
import type { MachineView } from './workload.ts';

const none = { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 };

function machine(id: string, cores: number, held_cores: number): MachineView {
  return {
    ...{ id, name: id, region: 'local', owner_tenant_id: 'mine', invited_tenant_ids: [] },
    ...{ sharing: 'private', online: true, last_seen_at: 0, accelerators: ['cpu'] },
    drivers: [{ driver: 'sim', ready: true, why: null, kinds: ['endpoint'] }],
    offered: { cpu_millis: cores * 1000, memory_bytes: 64 * gib, disk_bytes: 0 },
    held: { ...none, cpu_millis: held_cores * 1000 },
    ...{ reserved: { ...none }, holders: [] },
  };
}

function idler(name: string, machine_id: string, cores: number, idle_min: number): Idler {
  const hold = { ...none, machine_id, device: '', cpu_millis: cores * 1000 };
  return {
    ...{ workload_id: name, name, run_epoch: 1, idle_ms: idle_min * 60_000, holds: [hold] },
  };
}

function chosen(cores: number, machines: MachineView[], idlers: Idler[]): string[] | null {
  const size = { gpu_class: null, cpu_millis: cores * 1000, memory_bytes: gib };
  const wanted = { tenant_id: 'mine', creator_id: 'me', catalog: builtin_catalog };
  const found = chooseToStop({ ...wanted, ask: endpointSpec(size) }, machines, idlers);
  return found?.map(({ name }) => name) ?? null;
}

test('one that is enough is chosen over two, and of those the longest unused', () => {
  const idlers = [
    idler('small', 'm', 1, 90),
    idler('late', 'm', 2, 10),
    idler('early', 'm', 2, 60),
    idler('tiny', 'm', 1, 80),
  ];
  assert.deepEqual(chosen(2, [machine('m', 6, 6)], idlers), ['early']);
  assert.deepEqual(chosen(1, [machine('m', 6, 6)], idlers), ['small']);
});

test('two where no one is enough, and more without any that does not matter', () => {
  const two = [idler('a', 'm', 1, 30), idler('b', 'm', 1, 20), idler('c', 'm', 2, 10)];
  assert.deepEqual(chosen(3, [machine('m', 4, 4)], two), ['a', 'c']);
  const many = ['a', 'b', 'c', 'd', 'e'].map((name, index) => idler(name, 'm', 1, 60 - index));
  assert.deepEqual(chosen(3, [machine('m', 5, 5)], many), ['a', 'b', 'c']);
});

test('none where all of them together would not do, or are elsewhere', () => {
  const idlers = [idler('a', 'm', 1, 30), idler('b', 'm', 1, 20)];
  assert.equal(chosen(3, [machine('m', 4, 4)], idlers), null);
  assert.equal(chosen(1, [machine('other', 4, 4)], idlers), null);
  assert.equal(chosen(8, [machine('m', 4, 4)], idlers), null, 'it would fit nowhere');
});

test('the machine with the fewest to stop is taken', () => {
  const idlers = [idler('a', 'm', 1, 90), idler('b', 'm', 1, 80), idler('c', 'n', 2, 10)];
  assert.deepEqual(chosen(2, [machine('m', 2, 2), machine('n', 2, 2)], idlers), ['c']);
});

test('a GPU that an idle endpoint has counts as free without it, a shared one by its last', () => {
  const held = { sharer: 'me', count: 2 };
  const gpu = {
    ...{
      uuid: 'GPU-1',
      model: 'NVIDIA L4',
      memory_bytes: 24 * gib,
      usable_by: ['docker'] as const,
    },
    ...{ is_part: false, only_all: false, held, reserved: false, holders: [] },
  };
  const view = { ...machine('m', 8, 2), accelerators: ['cpu', 'nvidia'], devices: [gpu] };
  const on = (name: string, idle_min: number): Idler => {
    const base = idler(name, 'm', 1, idle_min);
    return { ...base, holds: [...base.holds, { ...none, machine_id: 'm', device: 'GPU-1' }] };
  };
  const ask = endpointSpec({ gpu_class: null, accelerator: 'nvidia', gpu_count: 1 });
  const wanted = { ask, tenant_id: 'mine', creator_id: 'me', catalog: builtin_catalog };
  const found = chooseToStop(wanted, [view], [on('a', 30), on('b', 20)]);
  assert.deepEqual(
    found?.map(({ name }) => name),
    ['a', 'b'],
  );
  assert.equal(chooseToStop(wanted, [view], [on('a', 30)]), null);
});
