/**
 * The controller: what waits is placed where there is room, and says why where there is none.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settle } from '../../test/lib/fake-clock.ts';
import { createRig, endpointSpec, gib, inventoryOf, type Rig, select } from '../../test/lib/rig.ts';
import { makeId } from '../core/ids.ts';
import type { WorkloadSpec } from '../core/workload.ts';

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

const roomForOne = inventoryOf({ cpu_millis: 1000, memory_bytes: 2 * gib });

async function greet({ sync, ids }: Rig, inventory = roomForOne): Promise<void> {
  await sync.hello(ids.machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });
}

async function launch(rig: Rig, over: Partial<WorkloadSpec> = {}): Promise<string> {
  const { store, clock, random, ids } = rig;
  const id = makeId(clock.now(), random.bytes(10));
  await store.transact('launchWorkload', {
    ...{ id, tenant_id: ids.tenant_id, creator_id: ids.user_id, spec: endpointSpec(over) },
    ...{ name_is_free: true, actor: 'user:ada', request_id: 'r', now: clock.now() },
    idempotency: null,
  });
  return id;
}

type Row = { id: string; state: string; code: string | null; event_number: number };
const rowsOf = (rig: Rig) =>
  select<Row>(rig.store, 'select id, state, code, event_number from workloads order by id');
const statesOf = async (rig: Rig) => (await rowsOf(rig)).map((row) => row.state);

/** The run of what is placed ends by itself. */
async function endRun({ store, clock, ids }: Rig, run_epoch = 1): Promise<void> {
  const [row] = await select<{ id: string }>(
    store,
    "select id from workloads where state in ('provisioning', 'running')",
  );
  const run = { workload_id: row?.id ?? '', replica: 0, run_epoch, state: 'ended' as const };
  const exit = { code: 1, signal: null, out_of_memory: false };
  const observed = [{ ...run, stages: [], exit, reason: null, details: {}, log_tail: null }];
  const cause = { now: clock.now(), actor: 'machine:desk', request_id: null };
  const machine = { machine_id: ids.machine_id, machine_name: 'desk' };
  await store.transact('applyReport', { ...machine, observed, ...cause });
}

given('of sixty-four that wait for room for one, exactly one is placed', async (rig) => {
  await greet(rig);
  await Promise.all(Array.from({ length: 64 }, () => launch(rig)));
  await rig.startController().pass();
  const states = await statesOf(rig);
  assert.equal(states.filter((state) => state === 'provisioning').length, 1);
  assert.equal(states.filter((state) => state === 'queued').length, 63);
  const [holds] = await select<{ count: number }>(rig.store, 'select count(*) as count from holds');
  assert.equal(holds?.count, 1);
});

given('two passes at once promise nothing twice', async (rig) => {
  await greet(rig);
  await Promise.all(Array.from({ length: 8 }, () => launch(rig)));
  const controller = rig.startController();
  await Promise.all([controller.pass(), controller.pass(), controller.pass()]);
  assert.equal((await statesOf(rig)).filter((state) => state === 'provisioning').length, 1);
});

given('the one that came first is placed first', async (rig) => {
  await greet(rig);
  const first = await launch(rig);
  rig.clock.stepWall(1);
  await launch(rig);
  await rig.startController().pass();
  const placed = (await rowsOf(rig)).find((row) => row.state === 'provisioning');
  assert.equal(placed?.id, first);
});

given('what waits says why, once, however often it is looked at', async (rig) => {
  await greet(rig);
  await launch(rig);
  rig.clock.stepWall(1);
  await launch(rig);
  const controller = rig.startController();
  for (let round = 0; round < 5; round += 1) await controller.pass();
  const waiting = (await rowsOf(rig)).find((row) => row.state === 'queued');
  assert.deepEqual([waiting?.code, waiting?.event_number], ['machine_busy', 2]);
});

given('what waits is placed as soon as the hold before it is released', async (rig) => {
  await greet(rig);
  await launch(rig);
  rig.clock.stepWall(1);
  await launch(rig);
  const controller = rig.startController();
  await controller.pass();
  await endRun(rig);
  await controller.pass();
  assert.deepEqual(await statesOf(rig), ['pending', 'provisioning']);
});

given('a run that ended is placed again only after its back-off', async (rig) => {
  await greet(rig);
  await launch(rig);
  const controller = rig.startController();
  await controller.pass();
  await endRun(rig);
  await controller.pass();
  assert.deepEqual(await statesOf(rig), ['pending'], 'not yet');
  rig.clock.stepWall(999);
  await controller.pass();
  assert.deepEqual(await statesOf(rig), ['pending'], 'still not');
  rig.clock.stepWall(1);
  await controller.pass();
  assert.deepEqual(await statesOf(rig), ['provisioning']);
});

given('the loop wakes by itself when a back-off is over', async (rig) => {
  await greet(rig);
  await launch(rig);
  rig.startController();
  await settle();
  assert.deepEqual(await statesOf(rig), ['provisioning']);
  await endRun(rig);
  rig.woken.controller = 0;
  rig.sync.wake();
  await rig.clock.advance(5000);
  await rig.clock.advance(1000);
  assert.deepEqual(await statesOf(rig), ['provisioning']);
});

given('what backs off alone is tried soon though the wall clock was set back', async (rig) => {
  await greet(rig);
  await launch(rig);
  const controller = rig.startController();
  await settle();
  await endRun(rig);
  controller.wake();
  await settle();
  assert.deepEqual(await statesOf(rig), ['pending']);
  rig.clock.stepWall(-3_600_000);
  await rig.clock.advance(5000);
  await rig.clock.advance(5000);
  assert.deepEqual(await statesOf(rig), ['provisioning']);
});

given('what falls due between a look and the timer after it is not missed', async (rig) => {
  await greet(rig);
  await launch(rig);
  let [writes, asks_left] = [0, 0];
  const controller = rig.startController(undefined, {
    // Once: between the look and the timer a millisecond passes, in which something is written.
    written() {
      if (asks_left === 1) rig.clock.stepWall(1);
      if (asks_left === 1) writes += 1;
      asks_left = Math.max(0, asks_left - 1);
      return writes;
    },
  });
  await settle();
  await endRun(rig);
  controller.wake();
  await settle();
  rig.clock.stepWall(-1);
  asks_left = 2;
  await rig.clock.advance(1000);
  assert.equal(asks_left, 0, 'the timer of the back-off came, a millisecond early');
  assert.deepEqual(await statesOf(rig), ['pending']);
  await rig.clock.advance(1);
  assert.deepEqual(await statesOf(rig), ['provisioning']);
});

given('a wake is enough, no time has to pass', async (rig) => {
  await greet(rig);
  const controller = rig.startController();
  await settle();
  await launch(rig);
  controller.wake();
  await settle();
  assert.deepEqual(await statesOf(rig), ['provisioning']);
});

given('a machine that was not heard of for a lease gets nothing new', async (rig) => {
  await greet(rig);
  await rig.clock.advance(61_000);
  await launch(rig);
  await rig.startController().pass();
  const [row] = await rowsOf(rig);
  assert.deepEqual([row?.state, row?.code], ['queued', 'machine_offline']);
});

given('one transaction that fails keeps no other from being tried', async (rig) => {
  await greet(rig, inventoryOf({ cpu_millis: 4000, memory_bytes: 8 * gib }));
  await launch(rig);
  rig.clock.stepWall(1);
  await launch(rig);
  const { transact } = rig.store;
  let count = 0;
  rig.store.transact = (name, args) => {
    count += 1;
    if (count === 1) return Promise.reject(new Error('the disk is full'));
    return transact(name, args);
  };
  const controller = rig.startController();
  await settle();
  assert.deepEqual(await statesOf(rig), ['pending', 'provisioning']);
  assert.match(JSON.stringify(rig.lines), /the disk is full/);
  await controller.pass();
  assert.deepEqual(await statesOf(rig), ['provisioning', 'provisioning']);
});

/** Counts what is read; the names are those of the queries. */
function readsOf(rig: Rig): string[] {
  const names: string[] = [];
  const { read } = rig.store;
  rig.store.read = (query, args) => {
    names.push(query.name);
    return read(query, args);
  };
  return names;
}

given('where nothing changed, a period costs a look, not a pass', async (rig) => {
  await greet(rig);
  await launch(rig);
  await launch(rig);
  rig.startController();
  await settle();
  await rig.clock.advance(5000);
  const names = readsOf(rig);
  await rig.clock.advance(10_000);
  assert.deepEqual(new Set(names), new Set(['queueFingerprint', 'nextAttempt']));
  await rig.clock.advance(120_000);
  assert.ok(names.includes('listWaiting'), 'in the end it looks anyway');
});

given('a machine that goes offline is noticed though nobody said a word', async (rig) => {
  await greet(rig);
  await launch(rig);
  rig.clock.stepWall(1);
  await launch(rig);
  rig.startController();
  await settle();
  await rig.clock.advance(70_000);
  const waiting = (await rowsOf(rig)).find((row) => row.state === 'queued');
  assert.equal(waiting?.code, 'machine_offline');
});

given('a pass reads in full only what is new to it', async (rig) => {
  await greet(rig);
  for (let count = 0; count < 5; count += 1) await launch(rig);
  const controller = rig.startController();
  await controller.pass();
  await controller.pass();
  const { read } = rig.store;
  const full: number[] = [];
  rig.store.read = (query, args) => {
    if (query.name === 'readWaiting') full.push((args as { ids: string[] }).ids.length);
    return read(query, args);
  };
  await controller.pass();
  await launch(rig);
  await controller.pass();
  assert.deepEqual(full, [1]);
});

given('stopping the controller ends its loop', async (rig) => {
  const controller = rig.startController();
  await settle();
  await controller.stop();
  await greet(rig);
  await launch(rig);
  controller.wake();
  await rig.clock.advance(20_000);
  assert.deepEqual(await statesOf(rig), ['pending']);
});
