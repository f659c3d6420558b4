/**
 * A plan: each machine with its answer, the place in the queue, and that nothing is written by it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  dumpOf,
  gib,
  inventoryOf,
  type Rig,
} from '../../test/lib/rig.ts';
import type { Plan } from '../contract/workloads.ts';

const model = { kind: 'endpoint', model: 'smollm2-135m' };

async function withRig(body: (rig: Rig) => Promise<void>): Promise<void> {
  const rig = await createRig();
  try {
    await body(rig);
  } finally {
    await rig.close();
  }
}

async function addMachine(rig: Rig, id: string, cpu_millis: number): Promise<void> {
  const { tenant_id } = rig.ids;
  const now = rig.clock.now();
  await rig.store.transact('addMachine', { id, tenant_id, name: id, region: 'local', now });
  await greet(rig, id, cpu_millis);
}

const greet = (rig: Rig, id: string, cpu_millis: number) =>
  rig.sync.hello(id, {
    ...{ boot_id: 'b', hello_id: id, known: null },
    inventory: { ...inventoryOf({ cpu_millis, memory_bytes: 8 * gib }), name: id },
  });

async function plan(rig: Rig, token = rig.token): Promise<Plan> {
  const { status, body, text } = await ask(rig, 'POST', '/v1/plan', { token, body: model });
  assert.equal(status, 200, text);
  return body as unknown as Plan;
}

test('a plan shows the chosen machine, those that would do too, and why not the others', () =>
  withRig(async (rig) => {
    await greet(rig, rig.ids.machine_id, 1000);
    await addMachine(rig, 'spare', 8000);
    await addMachine(rig, 'tiny', 100);
    const { candidates } = await plan(rig);
    assert.deepEqual(
      candidates.map(({ machine_name, answer, driver, reason }) => [
        ...[machine_name, answer, driver, reason?.code ?? null],
      ]),
      [
        [rig.ids.machine_id, 'chosen', 'sim', null],
        ['spare', 'fits', 'sim', null],
        ['tiny', 'no', null, 'cpu_short'],
      ],
    );
  }));

test('a plan writes nothing, whatever it says', () =>
  withRig(async (rig) => {
    await greet(rig, rig.ids.machine_id, 1000);
    await plan(rig); // that the token was used is noted once
    const before = await dumpOf(rig.store);
    await plan(rig);
    await ask(rig, 'POST', '/v1/plan', { body: { ...model, gpu_class: 'none' } });
    assert.deepEqual(await dumpOf(rig.store), before);
  }));

test('a plan says which place it would get, its own before it by name and others by number', () =>
  withRig(async (rig) => {
    await greet(rig, rig.ids.machine_id, 1000);
    const controller = rig.startController();
    for (const name of ['first', 'second', 'third']) {
      await ask(rig, 'POST', '/v1/workloads', { body: { ...model, name } });
      rig.clock.stepWall(1000);
      await controller.pass();
    }
    const own = await plan(rig);
    assert.equal(own.reason?.code, 'machine_busy');
    assert.deepEqual(own.queue, { place: 3, own: ['second', 'third'], own_more: 0, others: 0 });
    await addTenant(rig.store, 'bob', 'tenant-bob');
    const bob = { tenant_id: 'tenant-bob', name: 'bob', role: 'member' } as const;
    const { token } = await addUser(rig.store, rig.random, bob);
    const others = await plan(rig, token);
    // Who used nothing and asked for nothing comes before who asked for more.
    assert.deepEqual(others.queue, { place: 2, own: [], own_more: 0, others: 1 });
    assert.doesNotMatch(JSON.stringify(others), /second|third/);
  }));
