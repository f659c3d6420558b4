/**
 * Fallbacks over HTTP: refused where they can never work, planned, taken after the wait, shown.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addUser, ask, createRig, gib, inventoryOf, type Rig } from '../../../test/lib/rig.ts';

function given(name: string, body: (rig: Rig) => Promise<void>): void {
  test(name, async () => {
    const rig = await createRig();
    try {
      await body(rig);
    } finally {
      await rig.close();
    }
  });
}

const endpoint = { kind: 'endpoint', model: 'smollm2-135m', name: 'chat' };
const on_gpu = { ...endpoint, accelerator: 'nvidia' };

async function greet({ sync, ids }: Rig): Promise<void> {
  const inventory = inventoryOf({ cpu_millis: 2000, memory_bytes: 8 * gib });
  const words = { boot_id: 'b', hello_id: 'h', known: null, inventory };
  await sync.hello(ids.machine_id, words);
}

const launch = (rig: Rig, body: object) => ask(rig, 'POST', '/v1/workloads', { body });
const show = async (rig: Rig) => (await ask(rig, 'GET', '/v1/workloads/chat')).body;

given('a fallback that can never work is refused, with the reason', async (rig) => {
  await greet(rig);
  const refused: [object, string, RegExp][] = [
    [{ ...on_gpu, fallback: ['cpus'] }, 'fallback_unusable', /none of class:NAME, cpu/],
    [{ ...on_gpu, fallback: ['class:none'] }, 'fallback_unusable', /there is no class none/],
    [{ ...on_gpu, fallback: ['model:none'] }, 'fallback_unusable', /there is no model none/],
    [{ ...on_gpu, fallback: ['cpu', 'cpu'] }, 'fallback_unusable', /there twice/],
    [{ ...endpoint, fallback: ['cpu'] }, 'fallback_unusable', /no GPU is asked for/],
    [{ ...on_gpu, fallback: ['machine:desk'] }, 'fallback_unusable', /no machine is asked for/],
    [{ ...on_gpu, machine: 'none' }, 'unknown_machine', /no machine none/],
    [
      { ...on_gpu, machine: 'desk', fallback: ['machine:desk'] },
      ...(['fallback_unusable', /asked for already/] as const),
    ],
    [{ ...on_gpu, fallback: ['replica'] }, 'fallback_unusable', /one replica only/],
    [
      { kind: 'instance', accelerator: 'nvidia', fallback: ['model:smollm2-135m'] },
      ...(['fallback_unusable', /an? instance has no model/] as const),
    ],
    [{ ...on_gpu, image_id: 'llama-cpp-cuda', fallback: ['cpu'] }, 'fallback_unusable', /no form/],
    [{ ...on_gpu, fallback_return: true }, 'bad_request', /no fallback to return/],
    [{ ...on_gpu, fallback: Array.from({ length: 9 }, () => 'cpu') }, 'bad_request', /fallback/],
    [{ ...on_gpu, fallback: ['cpu'], fallback_after: -1 }, 'bad_request', /fallback_after/],
  ];
  for (const [body, code, says] of refused) {
    for (const path of ['/v1/plan', '/v1/workloads']) {
      const answer = await ask(rig, 'POST', path, { body });
      assert.equal(answer.body.error?.code, code, answer.text);
      assert.match(answer.body.error?.message ?? '', says);
    }
  }
  assert.equal((await ask(rig, 'GET', '/v1/workloads')).body.items?.length, 0);
});

given('a machine of another tenant is no machine, in the pin and in a step', async (rig) => {
  await greet(rig);
  const tenant = { tenant_id: 'tenant-b', name: 'bob', role: 'member' } as const;
  const text = "insert into tenants (id, slug, name, created_at) values ('tenant-b', 'b', 'b', 0)";
  await rig.store.transact('write', { text, params: [] });
  const { token } = await addUser(rig.store, rig.random, tenant);
  for (const name of ['desk', rig.ids.machine_id, 'none']) {
    const body = { ...endpoint, machine: name };
    const { status, body: said } = await ask(rig, 'POST', '/v1/workloads', { body, token });
    assert.deepEqual([status, said.error?.code], [400, 'unknown_machine']);
  }
});

given('the plan says where each step would lead, and the wait before it', async (rig) => {
  await greet(rig);
  const body = { ...on_gpu, fallback: ['class:l40s-48gb', 'cpu'], fallback_after: 300_000 };
  const { body: plan } = await ask(rig, 'POST', '/v1/plan', { body });
  assert.equal(plan.chosen, null, JSON.stringify(plan));
  const [other, cpu] = plan.fallbacks as {
    step: string;
    chosen: { placed_class: string } | null;
  }[];
  assert.deepEqual([other?.step, other?.chosen], ['class:l40s-48gb', null]);
  assert.deepEqual([cpu?.step, cpu?.chosen?.placed_class], ['cpu', 'cpu-1c-2g']);
  const asked = plan.asked as { fallback: string[]; fallback_after: number };
  assert.deepEqual([asked.fallback, asked.fallback_after], [body.fallback, 300_000]);
});

given('it waits, falls back when its wait is over, and everybody sees that it did', async (rig) => {
  await greet(rig);
  const { body } = await launch(rig, { ...on_gpu, fallback: ['cpu'], fallback_after: 300_000 });
  assert.deepEqual([body.fallback, body.fallback_taken], [['cpu'], null]);
  rig.startController();
  await rig.clock.advance(299_000);
  await greet(rig);
  assert.equal((await show(rig)).state, 'queued');
  await rig.clock.advance(2000);
  const placed = await show(rig);
  assert.equal(placed.state, 'provisioning');
  assert.deepEqual((placed.placement as { placed_class: string }).placed_class, 'cpu-1c-2g');
  const taken = placed.fallback_taken as Record<string, unknown>;
  assert.deepEqual([taken.step, taken.of, taken.to], [1, 1, 'cpu']);
  assert.match(String(taken.asked), /nvidia/);
  const { items = [] } = (await ask(rig, 'GET', '/v1/workloads/chat/events')).body;
  assert.match(String(items.at(-1)?.message), /^It asked for .* waited 5m .* fallback 1 of 1/);
  const exported = await ask(rig, 'GET', '/v1/workloads/chat/export');
  assert.match(exported.text, /"fallback":/);
  const [listed] = (await ask(rig, 'GET', '/v1/workloads')).body.items ?? [];
  assert.deepEqual(listed?.fallback_taken, placed.fallback_taken);
});

given('without a wait it falls back in the very first pass', async (rig) => {
  await greet(rig);
  await launch(rig, { ...on_gpu, fallback: ['cpu'], fallback_after: 0 });
  await rig.startController().pass();
  assert.equal((await show(rig)).state, 'provisioning');
});

given('while it waits its fallbacks are set, and taken off', async (rig) => {
  await greet(rig);
  await launch(rig, on_gpu);
  const controller = rig.startController();
  await controller.pass();
  assert.equal((await show(rig)).state, 'queued');
  const path = '/v1/workloads/chat/fallback';
  const none = { fallback: ['class:none'] };
  assert.equal((await ask(rig, 'PUT', path, { body: none })).body.error?.code, 'fallback_unusable');
  const set = await ask(rig, 'PUT', path, { body: { fallback: ['cpu'], fallback_after: 60_000 } });
  assert.deepEqual([set.status, set.body.fallback], [200, ['cpu']]);
  const off = await ask(rig, 'PUT', path, { body: { fallback: [] } });
  assert.deepEqual(off.body.fallback, []);
  await rig.clock.advance(61_000);
  await greet(rig);
  await controller.pass();
  assert.equal((await show(rig)).state, 'queued', 'it is off');
  await ask(rig, 'PUT', path, { body: { fallback: ['cpu'], fallback_after: 60_000 } });
  await controller.pass();
  assert.equal((await show(rig)).state, 'provisioning', 'it waited long enough already');
  const late = await ask(rig, 'PUT', path, { body: { fallback: [] } });
  assert.deepEqual([late.status, late.body.error?.code], [409, 'fallback_not_now']);
  const { items = [] } = (await ask(rig, 'GET', '/v1/activity?limit=50')).body;
  const actions = items.filter((one) => one.route === 'setFallback' && one.outcome === 'done');
  assert.equal(actions.length, 3);
});

given('what has its disk on a machine takes no step to another one', async (rig) => {
  await greet(rig);
  const { body } = await launch(rig, { kind: 'notebook', name: 'lab' });
  const text = 'update workloads set home_machine_id = $1 where id = $2';
  await rig.store.transact('write', { text, params: [rig.ids.machine_id, String(body.id)] });
  for (const step of ['machine:desk', 'region:local']) {
    const answer = await ask(rig, 'PUT', '/v1/workloads/lab/fallback', {
      body: { fallback: [step] },
    });
    assert.equal(answer.body.error?.code, 'fallback_unusable');
    assert.match(answer.body.error?.message ?? '', /its disk is on a machine already/);
  }
});
