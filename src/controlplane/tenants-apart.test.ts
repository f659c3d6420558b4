/**
 * Plans, reasons and lists never name another tenant's machines or workloads, for each way in which
 * a machine can be shared and each way in which it may refuse.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settle } from '../../test/lib/fake-clock.ts';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  gib,
  inventoryOf,
  type Rig,
} from '../../test/lib/rig.ts';
import type { Inventory } from '../contract/machines.ts';
import { type DriverName, driverIsolation, mayRun, type Sharing } from '../core/trust.ts';

const endpoint = { kind: 'endpoint', model: 'smollm2-135m' };
const machine = { kind: 'vm' };
/** What a driver may be asked for: whole machines by those of virtual machines. */
const askedOf = (words: Inventory) =>
  words.drivers[0]?.kinds.includes('vm') === true ? machine : endpoint;
const room = { cpu_millis: 2000, memory_bytes: 4 * gib };
const drivers = Object.keys(driverIsolation) as DriverName[];
const sharings: Sharing[] = ['private', 'invite-only', 'community'];

function inventory(driver: DriverName, offered = room): Inventory {
  const is_vm = driver === 'libvirt' || driver === 'macos-vz';
  const kinds = [is_vm ? ('vm' as const) : ('endpoint' as const)];
  const one = { driver, ready: true, why: null, kinds, findings: [] };
  return { ...inventoryOf(offered), name: 'their-desk', drivers: [one] };
}

/** The rig's own tenant has the machine and a workload on it; eve is of another tenant. */
async function given(
  words: Inventory,
  sharing: Sharing,
  body: (rig: Rig, eve: string, asked: object) => Promise<void>,
): Promise<void> {
  const rig = await createRig();
  try {
    await addTenant(rig.store, 'other', 'other');
    const { token } = await addUser(rig.store, rig.random, {
      ...{ tenant_id: 'other', name: 'eve', role: 'tenant-admin' },
    });
    const machine_id = rig.ids.machine_id;
    await rig.sync.hello(machine_id, {
      boot_id: 'b',
      hello_id: 'h',
      known: null,
      inventory: words,
    });
    const text = 'update machines set sharing = $1 where id = $2';
    await rig.store.transact('write', { text, params: [sharing, machine_id] });
    rig.startController();
    const named = { ...askedOf(words), name: 'their-secret' };
    await ask(rig, 'POST', '/v1/workloads', { body: named });
    await settle();
    await body(rig, token, askedOf(words));
  } finally {
    await rig.close();
  }
}

/** Everything that eve can ask for, after she launched one of her own. */
async function eveSees(
  rig: Rig,
  token: string,
  body: object,
): Promise<{ text: string; state: unknown }> {
  const launched = await ask(rig, 'POST', '/v1/workloads', { token, body });
  assert.equal(launched.status, 201);
  await settle();
  const paths = ['/v1/machines', '/v1/catalog', '/v1/workloads'];
  const own = `/v1/workloads/${launched.body.id}`;
  const answers = [
    await ask(rig, 'POST', '/v1/plan', { token, body }),
    ...(await Promise.all(
      [...paths, own, `${own}/events`].map((path) => ask(rig, 'GET', path, { token })),
    )),
  ];
  assert.ok(answers.every((answer) => answer.status === 200));
  const state = (await ask(rig, 'GET', own, { token })).body.state;
  return { text: answers.map((answer) => answer.text).join('\n'), state };
}

for (const sharing of sharings) {
  for (const driver of drivers) {
    const may = mayRun('community', driver, sharing);
    const what = may ? 'runs' : 'does not run';
    test(`${sharing} with ${driver}: another tenant ${what} there`, () =>
      given(inventory(driver), sharing, async (rig, eve, asked) => {
        const { text, state } = await eveSees(rig, eve, asked);
        assert.equal(state, may ? 'provisioning' : 'queued');
        assert.equal(text.includes('their-secret'), false);
        if (sharing !== 'community') {
          assert.equal(text.includes('their-desk'), false);
          assert.equal(text.includes(rig.ids.machine_id), false);
          assert.match(text, /"no_machine_shared"/);
        }
      }));
  }
}

test('a shared machine that is busy is busy by others, not by name', () =>
  given(
    inventory('libvirt', { ...room, cpu_millis: 1000 }),
    'community',
    async (rig, eve, asked) => {
      const { text, state } = await eveSees(rig, eve, asked);
      assert.equal(state, 'queued');
      assert.match(text, /their-desk has 0 CPU and 2 GiB free[^"]*; the rest is held by others/);
      assert.equal(text.includes('their-secret'), false);
    },
  ));

test('the owner is told who holds it, by name', () =>
  given(inventory('libvirt', { ...room, cpu_millis: 1000 }), 'community', async (rig, _, asked) => {
    const launched = await ask(rig, 'POST', '/v1/workloads', { body: asked });
    await settle();
    const { text } = await ask(rig, 'GET', `/v1/workloads/${launched.body.id}`);
    assert.match(text, /the rest is held by their-secret/);
    const plan = await ask(rig, 'POST', '/v1/plan', { body: asked });
    assert.match(plan.text, /the rest is held by their-secret/);
  }));

test('where a machine that nobody may know of goes away, nothing changes for others', () =>
  given(inventory('libvirt'), 'private', async (rig, eve, asked) => {
    const before = await eveSees(rig, eve, asked);
    await rig.clock.advance(120_000);
    const plan = await ask(rig, 'POST', '/v1/plan', { token: eve, body: asked });
    assert.match(plan.text, /no_machine_shared/);
    assert.equal(before.text.includes('all_matching_offline'), false);
  }));
