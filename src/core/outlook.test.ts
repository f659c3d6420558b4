/**
 * The outlook: shared by tenants that stand alike, it says of each what `suitable` says.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ask } from './ask.ts';
import { builtin_catalog } from './catalog.ts';
import { createOutlooks } from './outlook.ts';
import { refuses_nothing } from './refusals.ts';
import { suitable } from './suitable.ts';
import { maySee, trustLevel } from './trust.ts';
import type { MachineView } from './workload.ts';

const ask: Ask = {
  ...{ kind: 'instance', image_id: null, region: 'local', accelerator: null, gpu_class: null },
  ...{ gpu_count: 0, cpu_millis: 1000, memory_bytes: 1, disk_bytes: 0 },
};
const none = { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 };
const machineOf = (id: string, over: Partial<MachineView>): MachineView => ({
  ...{ id, name: id, region: 'local', owner_tenant_id: 'a', invited_tenant_ids: [] },
  ...{ sharing: 'community', online: true, last_seen_at: 0, accelerators: ['cpu'] },
  drivers: [{ driver: 'macos-container', ready: true, why: null, kinds: ['instance'] }],
  offered: { cpu_millis: 4000, memory_bytes: 10, disk_bytes: 0 },
  ...{ held: { ...none }, reserved: { ...none }, holders: [] },
  ...over,
});
const slugs = new Map([
  ['b', 'bees'],
  ['c', 'cats'],
]);
const machines = [
  machineOf('m0', {}),
  machineOf('m1', { sharing: 'private' }),
  machineOf('m2', { sharing: 'invite-only', invited_tenant_ids: ['b'] }),
  machineOf('m3', { refuses: { ...refuses_nothing, tenants: ['bees'] }, slugs }),
  machineOf('m4', { refuses: { ...refuses_nothing, guests: false } }),
  machineOf('m5', { offered: { ...none } }),
  machineOf('m6', {
    drivers: [{ driver: 'docker', ready: true, why: null, kinds: ['instance'] }],
  }),
];
const places = new Map(machines.map(({ id }, at) => [id, at]));

const asks = [
  ask,
  { ...ask, machine: { id: 'm2', name: 'm2' } },
  { ...ask, home_machine_id: 'm9' },
];

test('it says to each tenant what suitable says, and nothing of what is not known to it', () => {
  const outlooks = createOutlooks(machines, places, builtin_catalog);
  for (const tenant of ['a', 'b', 'c', 'd', 'b', 'a']) {
    for (const one of asks) {
      const outlook = outlooks.of(one, tenant);
      const only = one.home_machine_id ?? one.machine?.id ?? null;
      for (const [at, machine] of machines.entries()) {
        const is_candidate = only === null || only === machine.id;
        const is_known = is_candidate && maySee(trustLevel(tenant, machine), machine);
        const expected = is_known ? suitable(one, tenant, machine) : null;
        assert.deepEqual(outlook.answer(at), expected, `${tenant} ${machine.id}`);
        assert.equal(outlook.driver(at), typeof expected === 'string' ? null : expected);
        if (is_known) assert.ok(at >= outlook.first && at < outlook.end);
      }
    }
  }
});
