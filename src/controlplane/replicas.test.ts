/**
 * Replicas from a launch to a run each: on machines of their own, beside what is silent, scaled.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, createRig, gib, inventoryOf, type Rig, select } from '../../test/lib/rig.ts';
import { limits } from '../contract/limits.ts';
import type { Workload } from '../contract/workloads.ts';
import type { RunRow } from '../store/runs.ts';

const endpoint = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
const inventory = inventoryOf({ cpu_millis: 4000, memory_bytes: 8 * gib });

type World = Awaited<ReturnType<typeof worldOf>>;

async function worldOf(rig: Rig, others: readonly string[]) {
  const { store, sync, ids, clock, presence, token } = rig;
  for (const name of others) {
    const machine = { id: `machine-${name}`, name, region: 'local', now: clock.now() };
    await store.transact('addMachine', { ...machine, tenant_id: ids.tenant_id });
  }
  const machines = [ids.machine_id, ...others.map((name) => `machine-${name}`)];
  const boot = { boot_id: 'b', known: null, inventory };
  for (const id of machines) await sync.hello(id, { ...boot, hello_id: id });
  const controller = rig.startController();
  const call = async (method: string, path: string, body: unknown = undefined) =>
    ask(rig, method, path, { token, ...(body === undefined ? {} : { body }) });
  const runs = () => select<RunRow>(store, 'select * from runs order by run_epoch');
  return {
    ...{ rig, machines, controller, call, runs },
    async launch(replicas: number): Promise<string> {
      const { body, text } = await call('POST', '/v1/workloads', { ...endpoint, replicas });
      assert.equal(typeof body.id, 'string', text);
      await settleAll(controller);
      return String(body.id);
    },
    async show(id: string): Promise<Workload> {
      return (await call('GET', `/v1/workloads/${id}`)).body as unknown as Workload;
    },
    async report(run: RunRow, state: 'ready' | 'ended' | 'removed' | 'parked') {
      const { workload_id, replica, run_epoch, machine_id } = run;
      const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
      const observed = [{ workload_id, replica, run_epoch, state, ...facts }];
      const cause = { now: clock.now(), mono: clock.monotonic(), actor: 'm', request_id: null };
      await store.transact('applyReport', { ...cause, machine_id, machine_name: 'm', observed });
    },
    /** Time passes, in which only these are heard of. */
    async hearing(ids_heard: readonly string[], ms: number) {
      for (let left = ms; left > 0; left -= 10_000) {
        await clock.advance(10_000);
        for (const id of ids_heard) presence.heard(id);
      }
    },
  };
}

/** As many passes as one decision leads to another. */
async function settleAll(controller: ReturnType<Rig['startController']>): Promise<void> {
  for (let count = 0; count < 4; count += 1) await controller.pass();
}

function given(name: string, others: readonly string[], body: (world: World) => Promise<void>) {
  test(name, async () => {
    const rig = await createRig();
    try {
      await body(await worldOf(rig, others));
    } finally {
      await rig.close();
    }
  });
}

given('each replica gets another machine while there is one', ['east', 'west'], async (world) => {
  const id = await world.launch(3);
  const places = (await world.runs()).map(({ replica, machine_id }) => [replica, machine_id]);
  assert.deepEqual(
    places.map(([replica]) => replica),
    [0, 1, 2],
  );
  assert.equal(new Set(places.map(([, machine]) => machine)).size, 3);
  assert.equal((await world.show(id)).replicas_ready, 0);
  for (const run of await world.runs()) await world.report(run, 'ready');
  const shown = await world.show(id);
  assert.deepEqual([shown.state, shown.replicas, shown.replicas_ready], ['running', 3, 3]);
  assert.deepEqual(
    shown.replica_states.map(({ state }) => state),
    ['ready', 'ready', 'ready'],
  );
});

given('without another machine they share one; what has no room says so', [], async (world) => {
  const id = await world.launch(6);
  assert.equal((await world.runs()).length, 4, 'as many as there is room for');
  const { replica_states, state, reason } = await world.show(id);
  assert.deepEqual([state, reason], ['provisioning', null]);
  const waiting = replica_states.filter((one) => one.state === 'waiting');
  assert.deepEqual(
    waiting.map(({ replica, reason: why }) => [replica, why?.code]),
    [
      [4, 'machine_busy'],
      [5, 'machine_busy'],
    ],
  );
  const { body } = await world.call('GET', `/v1/workloads/${id}/events`);
  const notes = (body.items as { code: string; message: string }[]).filter(
    ({ code }) => code === 'replica_waits',
  );
  assert.deepEqual(notes.length, 2, 'once for each reason');
  assert.match(notes[0]?.message ?? '', /^Replica 4 waits: /);
});

given(
  'a machine that is silent for long gets another run beside its own',
  ['east', 'west'],
  async (world) => {
    const id = await world.launch(1);
    const [first] = await world.runs();
    assert.ok(first);
    await world.report(first, 'ready');
    const others = world.machines.filter((machine) => machine !== first.machine_id);
    await world.hearing(others, limits.machine_lease_ms + 30_000);
    await settleAll(world.controller);
    assert.equal((await world.runs()).length, 1, 'a lease that ended is no reason yet');
    assert.equal((await world.show(id)).heard_of, false);
    await world.hearing(others, limits.machine_silent_ms);
    await settleAll(world.controller);
    const [old, next] = await world.runs();
    assert.ok(old && next);
    assert.notEqual(next.machine_id, first.machine_id);
    assert.deepEqual(
      [old.ended_at, old.wanted, old.superseded_at !== null],
      [null, 'remove', true],
    );
    const waits = await world.show(id);
    assert.deepEqual([waits.state, waits.placement?.run_epoch], ['provisioning', 2]);
    await world.report(next, 'ready');
    assert.equal((await world.show(id)).state, 'running');
    await world.hearing(world.machines, 60_000);
    await settleAll(world.controller);
    assert.equal((await world.runs()).length, 2);
  },
);

given(
  'where most machines are silent at once nothing is replaced',
  ['east', 'west'],
  async (world) => {
    await world.launch(1);
    const [first] = await world.runs();
    assert.ok(first);
    await world.report(first, 'ready');
    const other = world.machines.filter((machine) => machine !== first.machine_id).slice(0, 1);
    await world.hearing(other, 4 * limits.machine_silent_ms);
    await settleAll(world.controller);
    assert.equal((await world.runs()).length, 1);
  },
);

given('without another place, what is silent stays as it is', ['east', 'west'], async (world) => {
  const id = await world.launch(1);
  const [first] = await world.runs();
  assert.ok(first);
  await world.report(first, 'ready');
  const text = 'update machines set cpu_millis = 0 where id <> $1';
  await world.rig.store.transact('write', { text, params: [first.machine_id] });
  const others = world.machines.filter((machine) => machine !== first.machine_id);
  await world.hearing(others, 2 * limits.machine_silent_ms);
  await settleAll(world.controller);
  const { state, heard_of, replicas_ready } = await world.show(id);
  assert.deepEqual([state, heard_of, replicas_ready], ['running', false, 1]);
  await world.hearing(world.machines, 10_000);
  assert.equal((await world.show(id)).heard_of, true);
});

given('it is scaled over the API, and only an endpoint is', ['east'], async (world) => {
  const id = await world.launch(1);
  const [first] = await world.runs();
  assert.ok(first);
  await world.report(first, 'ready');
  const up = await world.call('POST', `/v1/workloads/${id}/scale`, { replicas: 2 });
  assert.equal(up.status, 202, up.text);
  await settleAll(world.controller);
  assert.equal((await world.runs()).length, 2);
  for (const replicas of [0, 17, 1.5]) {
    const bad = await world.call('POST', `/v1/workloads/${id}/scale`, { replicas });
    assert.equal(bad.status, 400);
  }
  const down = await world.call('POST', `/v1/workloads/${id}/scale`, { replicas: 1 });
  assert.equal((down.body as unknown as Workload).state, 'running');
  const notebook = await world.call('POST', '/v1/workloads', { kind: 'notebook' });
  const refused = await world.call('POST', `/v1/workloads/${notebook.body.id}/scale`, {
    replicas: 2,
  });
  assert.deepEqual([refused.status, refused.body.error?.code], [400, 'replicas_endpoints_only']);
  const asked = await world.call('POST', '/v1/workloads', { kind: 'notebook', replicas: 2 });
  assert.equal(asked.status, 400);
  const actions = await select<{ details: string }>(
    world.rig.store,
    "select details from activity where route = 'scaleEndpoint' and target = $1 order by id",
    [`workload:${id}`],
  );
  assert.deepEqual(
    actions.map(({ details }) => JSON.parse(details)),
    [
      { name: 'smollm2-135m', from: 1, to: 2 },
      { name: 'smollm2-135m', from: 2, to: 1 },
    ],
  );
});
