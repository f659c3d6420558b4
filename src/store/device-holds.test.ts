/**
 * GPUs in the store: each has one taker, whatever asks for it and however many ask at once, and is
 * free only once its runs are proven gone.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { addUser, endpointSpec, select } from '../../test/lib/rig.ts';
import { greet, reportRun, runsOf, type Story } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { sharers_limit } from '../core/devices.ts';
import { makeId } from '../core/ids.ts';
import { devicesOfMachine, heldDevices } from './device-holds.ts';
import { StoreError } from './sql.ts';

const roomy = { cpu_millis: 1e6, memory_bytes: 2 ** 50, disk_bytes: 2 ** 50 };

onEveryStore('GPUs', (inStory, kind) => {
  inStory('of sixty-four placements on eight GPUs eight are placed, each on its own', async (s) => {
    const story = await withRoom(s);
    const ids = await Promise.all(Array.from({ length: 64 }, () => launch(story)));
    // Each tries all of them, as eight control planes with stale snapshots would.
    const outcomes = await Promise.all(
      ids.map(async (id, index) => {
        for (let turn = 0; turn < 8; turn += 1) {
          const outcome = await place(story, id, [`GPU-${(index + turn) % 8}`]);
          if (outcome !== 'no_room') return outcome;
        }
        return 'no_room';
      }),
    );
    assert.equal(outcomes.filter((one) => one === 'placed').length, 8);
    assert.equal(outcomes.filter((one) => one === 'no_room').length, 56);
    const held = await openDevices(story);
    assert.deepEqual(
      held.map(({ device }) => device),
      [0, 1, 2, 3, 4, 5, 6, 7].map((number) => `GPU-${number}`),
    );
  });

  inStory('all GPUs of a workload are taken, or none', async (s) => {
    const story = await withRoom(s);
    assert.equal(await place(story, await launch(story), ['GPU-1']), 'placed');
    const two = await launch(story, { gpu_count: 2 });
    assert.equal(await place(story, two, ['GPU-0', 'GPU-1']), 'no_room');
    assert.equal(await place(story, two, ['GPU-0', 'GPU-0']), 'no_room', 'one is not two');
    assert.equal(await place(story, two, ['GPU-0']), 'no_room', 'one is too few');
    assert.equal(await place(story, two, []), 'no_room');
    assert.deepEqual(await openDevices(story), [{ device: 'GPU-1', holds: 1 }]);
    assert.equal(await place(story, two, ['GPU-0', 'GPU-2']), 'placed');
    const rows = await story.store.read(devicesOfMachine, { machine_id: story.ids.machine_id });
    assert.deepEqual(
      rows.filter(({ workload_id }) => workload_id === two).map(({ device }) => device),
      ['GPU-0', 'GPU-2'],
    );
  });

  inStory('a GPU is free by proof, never by a wish', async (s) => {
    const story = await withRoom(s);
    const first = await launch(story);
    await place(story, first, ['GPU-0']);
    const [run] = await runsOf(story.store);
    assert.ok(run);
    await stop(story, first);
    for (const says of ['unknown', 'preparing'] as const) await reportRun(story, run, says);
    const next = await launch(story);
    assert.equal(await place(story, next, ['GPU-0']), 'no_room');
    await reportRun(story, run, 'parked');
    assert.deepEqual(await openDevices(story), []);
    assert.equal(await place(story, next, ['GPU-0']), 'placed');
  });

  inStory('a creator shares a GPU among their own, and with nobody else', async (s) => {
    const story = await withRoom(s);
    const eve = await addUser(story.store, story.random, {
      ...{ tenant_id: story.ids.tenant_id, name: 'eve', role: 'member' as const },
    });
    const share = { share_device: true };
    const mine = await launch(story, share);
    assert.equal(await place(story, mine, ['GPU-0']), 'placed');
    assert.equal(await place(story, await launch(story, share), ['GPU-0']), 'placed');
    const theirs = await launch(story, share, eve.user_id);
    assert.equal(await place(story, theirs, ['GPU-0']), 'no_room', "another user's");
    assert.equal(await place(story, await launch(story), ['GPU-0']), 'no_room', 'alone');
    assert.deepEqual(await openDevices(story), [{ device: 'GPU-0', holds: 2 }]);
    const alone = await launch(story);
    assert.equal(await place(story, alone, ['GPU-1']), 'placed');
    assert.equal(await place(story, await launch(story, share), ['GPU-1']), 'no_room');
    const [run] = (await runsOf(story.store)).filter(({ workload_id }) => workload_id === mine);
    assert.ok(run);
    await reportRun(story, run, 'ended');
    assert.equal(await place(story, theirs, ['GPU-0']), 'no_room', 'one of mine is left');
    const held = await story.store.read(heldDevices, { ids: [story.ids.machine_id] });
    assert.deepEqual(
      held.map(({ device, sharer }) => [device, sharer]),
      [
        ['GPU-0', story.ids.user_id],
        ['GPU-1', ''],
      ],
    );
  });

  inStory('so many share a GPU and no more', async (s) => {
    const story = await withRoom(s);
    const ids = await Promise.all(
      Array.from({ length: sharers_limit + 3 }, () => launch(story, { share_device: true })),
    );
    const outcomes = await Promise.all(ids.map((id) => place(story, id, ['GPU-0'])));
    assert.equal(outcomes.filter((one) => one === 'placed').length, sharers_limit);
  });

  inStory("the database itself refuses another user's hold, and one without a taker", async (s) => {
    const story = await withRoom(s);
    for (const share_device of [false, true]) {
      const device = share_device ? 'GPU-1' : 'GPU-0';
      await place(story, await launch(story, { share_device }), [device]);
    }
    const other = await launch(story, { gpu_count: 0 });
    await place(story, other, []);
    const { machine_id } = story.ids;
    for (const device of ['GPU-0', 'GPU-1', 'GPU-2']) {
      for (const sharer of ['', 'eve', story.ids.user_id]) {
        const own = `${machine_id}/${device}/${sharer === '' ? `${other}.0.1` : sharer}`;
        for (const taken of [null, own, `${machine_id}/GPU-1/${story.ids.user_id}`]) {
          // Only who shares it already may join.
          if (device === 'GPU-1' && sharer === story.ids.user_id && taken !== null) continue;
          await refused(holdOf(story, { workload_id: other, device, sharer, taken }));
        }
      }
    }
    for (const [device, taker] of [
      ['GPU-0', `${other}.0.1`],
      ['GPU-1', 'eve'],
      ['GPU-1', `${other}.0.1`],
    ] as const) {
      await refused(takerOf(story, device, taker));
    }
    await refused(write(story, 'delete from taken_devices', []));
    await refused(write(story, "update taken_devices set taker = 'eve'", []));
  });

  inStory('whatever is placed and ends, no GPU has two users', async (s) => {
    const story = await withRoom(s);
    const eve = await addUser(story.store, story.random, {
      ...{ tenant_id: story.ids.tenant_id, name: 'eve', role: 'member' as const },
    });
    const creators = [story.ids.user_id, eve.user_id];
    const model = new Map<string, { taker: string; runs: Set<string> }>();
    const steps = fc.sample(anyStep, { seed: 20_261_130, numRuns: kind === 'memory' ? 120 : 40 });
    for (const step of steps) {
      const creator_id = creators[step.creator % 2] ?? '';
      if (step.ends) {
        const [device] = [...model.keys()].slice(step.device % Math.max(1, model.size));
        const found = device === undefined ? undefined : model.get(device);
        const [workload_id] = found?.runs ?? [];
        const run = (await runsOf(story.store)).find((one) => one.workload_id === workload_id);
        if (device === undefined || found === undefined || run === undefined) continue;
        await reportRun(story, run, 'ended');
        found.runs.delete(run.workload_id);
        if (found.runs.size === 0) model.delete(device);
        continue;
      }
      const id = await launch(story, { share_device: step.shares }, creator_id);
      const device = `GPU-${step.device}`;
      const found = model.get(device);
      const taker = step.shares ? creator_id : id;
      const may = found === undefined || (step.shares && found.taker === taker && !isFull(found));
      assert.equal(await place(story, id, [device]), may ? 'placed' : 'no_room');
      if (found === undefined) model.set(device, { taker, runs: new Set([id]) });
      else if (may) found.runs.add(id);
    }
    assert.deepEqual(
      await openDevices(story),
      [...model]
        .map(([device, { runs }]) => ({ device, holds: runs.size }))
        .sort((a, b) => (a.device < b.device ? -1 : 1)),
    );
  });
});

const anyStep = fc.record({
  ends: fc.constantFrom(false, false, true),
  shares: fc.boolean(),
  creator: fc.nat(1),
  device: fc.nat(2),
});

const isFull = ({ runs }: { runs: Set<string> }) => runs.size >= sharers_limit;

async function withRoom(story: Story): Promise<Story> {
  await greet(story.store, story.ids.machine_id, story.clock, { offered: roomy });
  return story;
}

async function launch(
  { store, clock, random, ids }: Story,
  spec: Parameters<typeof endpointSpec>[0] = {},
  creator_id = ids.user_id,
): Promise<string> {
  const id = makeId(clock.now(), random.bytes(10));
  const done = await store.transact('launchWorkload', {
    ...{ id, tenant_id: ids.tenant_id, creator_id },
    spec: endpointSpec({
      ...{ gpu_class: 'nvidia-any', accelerator: 'nvidia', gpu_count: 1, cpu_millis: 1 },
      ...{ memory_bytes: 1, ...spec },
    }),
    ...{ name_is_free: true, actor: 'user:ada', request_id: 'r', now: clock.now() },
    idempotency: null,
  });
  assert.ok(done.outcome === 'done' && done.result.ok);
  return id;
}

async function place({ store, clock, ids }: Story, id: string, devices: string[]) {
  const [row] = await select<{ revision: number }>(
    store,
    'select revision from workloads where id = $1',
    [id],
  );
  const { outcome } = await store.transact('placeWorkload', {
    ...{ workload_id: id, revision: row?.revision ?? 0 },
    placement: {
      ...{ machine_id: ids.machine_id, machine_name: 'desk', placed_class: 'nvidia-any' },
      ...{ driver: 'sim', isolation: 'weak', devices },
    },
    ...{ now: clock.now(), actor: 'controller', request_id: null },
  });
  return outcome;
}

async function stop({ store, clock, ids }: Story, workload: string) {
  await store.transact('stopWorkload', {
    ...{ tenant_id: ids.tenant_id, workload, actor: 'user:ada', request_id: 'r' },
    ...{ now: clock.now(), idempotency: null },
  });
}

const openDevices = ({ store }: Story) =>
  select<{ device: string; holds: number }>(
    store,
    `select t.device, (select cast(count(*) as bigint) from holds h where h.taken = t.id) as holds
     from taken_devices t order by t.device`,
  );

type HoldRow = { workload_id: string; device: string; sharer: string; taken: string | null };

/** A hold as no transaction writes it. */
function holdOf(story: Story, { workload_id, device, sharer, taken }: HoldRow) {
  const text = `insert into holds (workload_id, replica, run_epoch, machine_id, device, cpu_millis,
      memory_bytes, disk_bytes, created_at, sharer, taken)
    values ($1, 0, 1, $2, $3, 0, 0, 0, 0, $4, $5)`;
  return write(story, text, [workload_id, story.ids.machine_id, device, sharer, taken]);
}

function takerOf(story: Story, device: string, taker: string) {
  const { machine_id } = story.ids;
  const text = `insert into taken_devices (id, machine_id, device, taker, created_at)
    values ($1, $2, $3, $4, 0)`;
  return write(story, text, [`${machine_id}/${device}/${taker}`, machine_id, device, taker]);
}

const write = ({ store }: Story, text: string, params: (string | null)[]) =>
  store.transact('write', { text, params });

const refused = (work: Promise<unknown>) =>
  assert.rejects(
    work,
    (error) => error instanceof StoreError && /unique|foreign|check/.test(error.code),
  );
