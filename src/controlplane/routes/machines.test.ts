/**
 * Machines and the catalog over HTTP.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addTenant, addUser, ask, createRig, gib, inventoryOf } from '../../../test/lib/rig.ts';

const inventory = inventoryOf({ cpu_millis: 2000, memory_bytes: 4 * gib });

test('a machine shows what it has, and whether it was heard of lately', async () => {
  const rig = await createRig();
  await rig.sync.hello(rig.ids.machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });
  const list = async () => (await ask(rig, 'GET', '/v1/machines')).body.items?.[0] ?? {};
  const machine = await list();
  assert.deepEqual([machine.name, machine.owner, machine.online], ['desk', 'local', true]);
  assert.deepEqual(machine.inventory, inventory);
  await rig.clock.advance(60_000);
  assert.equal((await list()).online, false);
  await rig.close();
});

test("a stranger's private machine is not listed, a shared one without its insides", async () => {
  const rig = await createRig();
  await rig.sync.hello(rig.ids.machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });
  await addTenant(rig.store, 'other', 'other');
  const eve = { tenant_id: 'other', name: 'eve', role: 'operator' as const };
  const { token } = await addUser(rig.store, rig.random, eve);
  const list = async () => (await ask(rig, 'GET', '/v1/machines', { token })).body.items;
  assert.deepEqual(await list(), []);
  const text = "update machines set sharing = 'community'";
  await rig.store.transact('write', { text, params: [] });
  const [shared] = (await list()) ?? [];
  assert.deepEqual([shared?.name, shared?.inventory], ['desk', null]);
  await rig.close();
});

test('the catalog says which class fits a model, and which machine offers a class', async () => {
  const rig = await createRig();
  await rig.sync.hello(rig.ids.machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });
  const { body } = await ask(rig, 'GET', '/v1/catalog');
  const classes = body.classes as { name: string; machines: string[] }[];
  const offered = classes.filter((entry) => entry.machines.includes('desk'));
  assert.deepEqual(
    offered.map((entry) => entry.name),
    ['cpu-1c-2g', 'cpu-2c-4g'],
  );
  const [model] = body.models as { name: string; smallest_class: string }[];
  assert.deepEqual([model?.name, model?.smallest_class], ['smollm2-135m', 'cpu-1c-2g']);
  await rig.close();
});
