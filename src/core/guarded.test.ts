import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ask } from './ask.ts';
import type { GuardView } from './guard.ts';
import { place } from './placement.ts';
import { type Refusals, refuses_nothing } from './refusals.ts';
import type { MachineView } from './workload.ts';

const gib = 2 ** 30;
const amounts = { cpu_millis: 4000, memory_bytes: 8 * gib, disk_bytes: 100e9 };
const none = { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 };

function machine(over: Partial<MachineView> = {}): MachineView {
  return {
    ...{ id: 'm1', name: 'desk', region: 'local', owner_tenant_id: 'ada', invited_tenant_ids: [] },
    ...{ sharing: 'community', online: true, last_seen_at: 0, accelerators: ['cpu'] },
    drivers: [{ driver: 'sim', as: 'libvirt', ready: true, why: null, kinds: ['instance'] }],
    ...{ offered: amounts, held: none, reserved: none, holders: [] },
    drained: false,
    ...over,
  };
}

const ask = {
  ...{ kind: 'instance', image_id: 'ghcr.io/lab/x:1', region: 'local', accelerator: null },
  ...{ gpu_class: null, gpu_count: 0, cpu_millis: 1000, memory_bytes: gib, disk_bytes: 0 },
} as unknown as Ask;

/** Why it waits and why not there, with what its sentence names; or where it goes. */
function decided(tenant: string, over: Partial<MachineView>) {
  const { chosen, code, refusals } = place(ask, tenant, [machine(over)]);
  const [refusal] = refusals;
  return chosen?.machine_id ?? [code, refusal?.code, refusal?.details.why ?? refusal?.details.rule];
}

const active: GuardView = { level: 1, why: ['owner_active'], own_why: [] };
const full: GuardView = { level: 1, why: ['disk_floor'], own_why: ['disk_floor'] };

test('a guarded machine takes nothing new of guests, and its owner’s as always', () => {
  assert.equal(decided('ben', { guard: { level: 0, why: [], own_why: [] } }), 'm1');
  assert.equal(decided('ben', {}), 'm1');
  assert.deepEqual(decided('ben', { guard: active }), [
    ...['machine_guarded', 'machine_guarded', 'it is in use by its owner'],
  ]);
  assert.equal(decided('ada', { guard: active }), 'm1');
  const two = [machine({ guard: active }), machine({ id: 'm2', guard: active })];
  assert.equal(place(ask, 'ben', two).code, 'all_matching_guarded');
});

test('a machine that is nearly full starts nothing of anybody', () => {
  assert.deepEqual(decided('ada', { guard: full }), [
    ...['machine_low', 'machine_low', 'it has little disk left'],
  ]);
  const [, code] = decided('ben', { guard: full });
  assert.equal(code, 'machine_guarded');
});

test("what the machine's own policy forbids guests is refused there, by its rule", () => {
  const refuses = (over: Partial<Refusals>) => ({ refuses: { ...refuses_nothing, ...over } });
  const [code, refusal, rule] = decided('ben', refuses({ max_cpu_millis: 500 }));
  assert.deepEqual([refusal, rule], ['refused_by_machine', 'guests.max_cpu']);
  assert.notEqual(code, 'all_matching_guarded', 'waiting would not help');
  assert.equal(decided('ada', refuses({ guests: false })), 'm1');
  assert.equal(decided('ben', refuses({ drivers: ['sim'] })), 'm1');
  assert.deepEqual(decided('ben', refuses({ drivers: ['libvirt'] })).slice(2), ['guests.drivers']);
  const named = { ...refuses({ tenants: ['bens'] }), slugs: new Map([['ben', 'bens']]) };
  assert.equal(decided('ben', named), 'm1');
  assert.deepEqual(decided('cy', named).slice(1), ['refused_by_machine', 'guests.tenants']);
});
