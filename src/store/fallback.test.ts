/**
 * Fallbacks where runs are placed: never outside the list, never before the wait, and counted as
 * what they are, on every store.
 */
import assert from 'node:assert/strict';
import { endpointSpec, gib, select } from '../../test/lib/rig.ts';
import {
  eventsOf,
  reportRun,
  runsOf,
  type Story,
  workloadsOf,
} from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { desiredRuns } from '../core/desired.ts';
import { readTaken } from '../core/fallback.ts';
import { makeId } from '../core/ids.ts';
import type { WorkloadSpec } from '../core/workload.ts';
import type { WorkloadRow } from './events.ts';
import { listReturning, return_after_ms } from './fallback-return.ts';
import { listModelUses } from './model-files.ts';
import { runsOfMachine } from './runs.ts';

const after_ms = 600_000;
const small = { gpu_class: 'cpu-1c-2g', cpu_millis: 1000, memory_bytes: 2 * gib };
const fallback = [{ step: 'class:cpu-1c-2g', set: small }];
const asked = { gpu_class: 'cpu-2c-4g', cpu_millis: 2000, memory_bytes: 4 * gib };
const falling = { ...asked, fallback, fallback_after_ms: after_ms };

onEveryStore('fallback', (inStory) => {
  inStory('a step is placed after its wait, and never before it', async (story) => {
    await launch(story, falling);
    assert.equal(await place(story, 1, 'cpu-1c-2g'), 'not_allowed');
    story.clock.stepWall(after_ms - 1);
    assert.equal(await place(story, 1, 'cpu-1c-2g'), 'not_allowed');
    story.clock.stepWall(1);
    assert.equal(await place(story, 1, 'cpu-1c-2g'), 'placed');
    const [row, run] = [await only(story), (await runsOf(story.store))[0]];
    assert.deepEqual([run?.placed_class, row.fallback_step], ['cpu-1c-2g', 1]);
    const taken = readTaken(run?.fallback);
    assert.deepEqual(
      [taken?.step, taken?.of, taken?.to, taken?.asked, taken?.placed, taken?.waited_ms],
      [1, 1, 'class:cpu-1c-2g', 'cpu-2c-4g', 'cpu-1c-2g', after_ms],
    );
    const events = await eventsOf(story.store, row.id);
    const [placed, note] = events.slice(-2);
    assert.equal(placed?.event, 'place');
    assert.deepEqual([note?.kind, note?.code], ['note', 'placed_by_fallback']);
    assert.match(note?.details ?? '', /"waited":"10m 0s"/);
  });

  inStory('nothing outside of the list is placed, whoever asks for it', async (story) => {
    await launch(story, { ...falling, machine: { id: story.ids.machine_id, name: 'desk' } });
    story.clock.stepWall(after_ms);
    for (const [step, placed_class] of [
      [0, 'cpu-1c-2g'],
      [1, 'cpu-2c-4g'],
      [2, 'cpu-1c-2g'],
      [-1, 'cpu-1c-2g'],
      [1.5, 'cpu-1c-2g'],
    ] as const) {
      assert.equal(
        await place(story, step, placed_class),
        'not_allowed',
        `${step} ${placed_class}`,
      );
    }
    const other = await story.store.transact('addMachine', {
      ...{ id: makeId(1, story.random.bytes(10)), tenant_id: story.ids.tenant_id, name: 'other' },
      ...{ region: 'local', now: story.clock.now() },
    });
    assert.notEqual(other, null);
    const [, second] = await select<{ id: string }>(
      ...[story.store, 'select id from machines order by created_at, name'],
    );
    assert.ok(second);
    const machine_id = second.id === story.ids.machine_id ? 'no such machine' : second.id;
    assert.equal(await place(story, 1, 'cpu-1c-2g', machine_id), 'not_allowed', 'it is pinned');
    assert.equal((await runsOf(story.store)).length, 0);
  });

  inStory('what has a home falls back to no machine and no region', async (story) => {
    const machine = { id: story.ids.machine_id, name: 'desk' };
    const steps = [
      { step: 'machine:desk', set: { ...small, machine } },
      { step: 'class:cpu-1c-2g', set: small },
    ];
    const { id } = await launch(story, { ...falling, fallback: steps });
    story.clock.stepWall(after_ms);
    const text = 'update workloads set home_machine_id = $1 where id = $2';
    await story.store.transact('write', { text, params: [machine.id, id] });
    assert.equal(await place(story, 1, 'cpu-1c-2g'), 'not_allowed');
    assert.equal(await place(story, 2, 'cpu-1c-2g'), 'placed');
  });

  inStory(
    'what stands in is what it claims and holds, and what its machine runs',
    async (story) => {
      await launch(story, falling);
      story.clock.stepWall(after_ms);
      assert.equal(await place(story, 1, 'cpu-1c-2g'), 'placed');
      const row = await only(story);
      assert.deepEqual([row.gpu_class, row.cpu_millis, row.memory_bytes], Object.values(small));
      const [hold] = await select<{ cpu_millis: number }>(story.store, 'select * from holds');
      assert.equal(hold?.cpu_millis, 1000);
      const { machine_id } = story.ids;
      const [desired] = desiredRuns(await story.store.read(runsOfMachine, { machine_id }));
      assert.equal(desired?.spec?.memory_bytes, 2 * gib);
      const [entry] = await select<{ placed_class: string; cpu_millis: number }>(
        ...[story.store, 'select placed_class, cpu_millis from ledger'],
      );
      assert.deepEqual({ ...entry }, { placed_class: 'cpu-1c-2g', cpu_millis: 1000 });
      await end(story);
      assert.equal(await place(story, 0, 'cpu-2c-4g'), 'placed');
      const again = await only(story);
      assert.deepEqual([again.gpu_class, again.fallback_step], ['cpu-2c-4g', 0]);
      assert.equal((await runsOf(story.store)).at(-1)?.fallback, '');
    },
  );

  inStory(
    'a step that its quota refuses is not placed, and neither is what it asked then',
    async (story) => {
      await launch(story, falling);
      story.clock.stepWall(after_ms);
      await quota(story, 'cpu-1c-2g', 0);
      assert.equal(await place(story, 1, 'cpu-1c-2g'), 'over_quota');
      await quota(story, 'cpu-1c-2g', 1);
      assert.equal(await place(story, 1, 'cpu-1c-2g'), 'placed');
      await quota(story, 'cpu-2c-4g', 0);
      await end(story);
      assert.equal(await place(story, 0, 'cpu-2c-4g'), 'over_quota');
      assert.equal((await runsOf(story.store)).length, 1);
    },
  );

  inStory('a home that a fallback led to is its only place, whatever it asked', async (story) => {
    const machine = { id: 'another machine', name: 'studio' };
    const { id } = await launch(story, { ...falling, machine });
    const text = 'update workloads set home_machine_id = $1 where id = $2';
    await story.store.transact('write', { text, params: [story.ids.machine_id, id] });
    assert.equal(await place(story, 0, 'cpu-2c-4g', 'another machine'), 'not_allowed');
    assert.equal(await place(story, 0, 'cpu-2c-4g'), 'placed');
  });

  inStory('a start asks for what was asked again, quota and all', async (story) => {
    const { id } = await launch(story, falling);
    story.clock.stepWall(after_ms);
    await place(story, 1, 'cpu-1c-2g');
    const change = (name: 'startWorkload' | 'stopWorkload') =>
      story.store.transact(name, {
        ...{ tenant_id: story.ids.tenant_id, workload: id, ...cause(story), idempotency: null },
      });
    await change('stopWorkload');
    const [run] = await runsOf(story.store);
    assert.ok(run);
    await reportRun(story, run, 'parked');
    await quota(story, 'cpu-2c-4g', 0);
    const refused = await change('startWorkload');
    assert.ok(refused.outcome === 'done' && !refused.result.ok);
    await quota(story, 'cpu-2c-4g', 1);
    await change('startWorkload');
    const row = await only(story);
    assert.deepEqual([row.state, row.gpu_class, row.fallback_step], ['pending', 'cpu-2c-4g', 0]);
    assert.equal(await place(story, 1, 'cpu-1c-2g'), 'not_allowed', 'its wait begins anew');
  });

  inStory('a model that stands in is the one that is run, and that is in use', async (story) => {
    const steps = [{ step: 'model:small', set: { model: 'small' } }];
    await launch(story, { ...falling, fallback: steps, fallback_after_ms: 0 });
    assert.equal(await place(story, 1, 'cpu-2c-4g'), 'placed');
    const { machine_id, tenant_id } = story.ids;
    const [desired] = desiredRuns(await story.store.read(runsOfMachine, { machine_id }));
    assert.equal(desired?.spec?.kind === 'endpoint' && desired.spec.model, 'small');
    const uses = await story.store.read(listModelUses, { tenant_id, machine_ids: [machine_id] });
    assert.deepEqual(
      uses.map(({ model }) => model),
      ['small'],
    );
  });

  inStory('replicas stand in together: more of them are of the same step', async (story) => {
    const { id } = await launch(story, { ...falling, replicas: 2 });
    story.clock.stepWall(after_ms);
    assert.equal(await place(story, 1, 'cpu-1c-2g'), 'placed');
    await story.store.transact('scaleEndpoint', {
      ...{ tenant_id: story.ids.tenant_id, workload: id, replicas: 3 },
      ...{ ...cause(story), idempotency: null },
    });
    const row = await only(story);
    assert.deepEqual([row.fallback_step, row.gpu_class, row.claims], [1, 'cpu-1c-2g', 3]);
  });

  inStory('its list is another one while it waits, and not while it runs', async (story) => {
    const row = await launch(story, falling);
    assert.equal(await set(story, row, []), 'ok');
    story.clock.stepWall(after_ms);
    assert.equal(await place(story, 1, 'cpu-1c-2g'), 'not_allowed', 'it is off');
    assert.equal(await set(story, row, fallback), 'changed_meanwhile', 'of an older revision');
    assert.equal(await set(story, await only(story), fallback), 'ok');
    assert.deepEqual(JSON.parse((await only(story)).spec).fallback, fallback);
    const last = (await eventsOf(story.store, row.id)).at(-1);
    assert.equal(last?.code, 'fallback_set');
    assert.equal(await place(story, 1, 'cpu-1c-2g'), 'placed', 'it waited before, and that counts');
    assert.equal(await set(story, await only(story), []), 'fallback_not_now');
  });

  inStory('it goes back once, after half an hour, and need not wait then', async (story) => {
    await launch(story, { ...falling, fallback_return: true });
    story.clock.stepWall(after_ms);
    await place(story, 1, 'cpu-1c-2g');
    const [run] = await runsOf(story.store);
    assert.ok(run);
    assert.deepEqual(
      await story.store.read(listReturning, { limit: 9 }),
      [],
      'not while it starts',
    );
    await reportRun(story, run, 'ready');
    const [found] = await story.store.read(listReturning, { limit: 9 });
    assert.equal(found?.placed_at, run.created_at);
    assert.equal(await goBack(story), 'changed_meanwhile', 'too early');
    story.clock.stepWall(return_after_ms);
    await quota(story, 'cpu-2c-4g', 0);
    assert.equal(await goBack(story), 'over_quota');
    await quota(story, 'cpu-2c-4g', 1);
    assert.equal(await goBack(story), 'returning');
    assert.equal(await goBack(story), 'changed_meanwhile', 'once');
    const stopping = await only(story);
    assert.deepEqual([stopping.state, stopping.intent], ['stopping', 'running']);
    assert.deepEqual([stopping.gpu_class, stopping.fallback_due], ['cpu-2c-4g', 1]);
    await reportRun(story, run, 'parked');
    assert.equal((await only(story)).state, 'pending');
    assert.equal(await place(story, 1, 'cpu-1c-2g'), 'placed', 'the room went meanwhile');
    assert.equal((await only(story)).fallback_due, 0);
  });
});

const cause = ({ clock }: Story) => ({ now: clock.now(), actor: 'user:ada', request_id: 'r' });

async function only({ store }: Story): Promise<WorkloadRow> {
  const [row] = await workloadsOf(store);
  assert.ok(row);
  return row;
}

async function launch(story: Story, over: Partial<WorkloadSpec>): Promise<WorkloadRow> {
  const { store, ids, clock, random } = story;
  await store.transact('launchWorkload', {
    ...{ id: makeId(clock.now(), random.bytes(10)), tenant_id: ids.tenant_id },
    ...{ creator_id: ids.user_id, spec: endpointSpec(over), name_is_free: true },
    ...{ ...cause(story), idempotency: null },
  });
  return only(story);
}

async function place(
  story: Story,
  fallback_step: number,
  placed_class: string,
  machine_id = story.ids.machine_id,
): Promise<string> {
  const { id, revision } = await only(story);
  const placement = {
    ...{ machine_id, machine_name: 'desk', placed_class },
    ...{ driver: 'sim' as const, isolation: 'weak' as const },
  };
  const args = { ...cause(story), workload_id: id, revision, placement, fallback_step };
  return (await story.store.transact('placeWorkload', args)).outcome;
}

/** The run ends by itself, and the back-off is over. */
async function end(story: Story): Promise<void> {
  const run = (await runsOf(story.store)).at(-1);
  assert.ok(run);
  await reportRun(story, run, 'ended');
  story.clock.stepWall(60_000);
}

async function quota({ store, ids, clock }: Story, gpu_class: string, workloads: number) {
  const scope = { tenant_id: ids.tenant_id, user: null, gpu_class };
  const done = await store.transact('setQuota', {
    ...scope,
    limits: { workloads },
    now: clock.now(),
  });
  assert.ok(done.ok);
}

async function set(story: Story, row: WorkloadRow, steps: WorkloadSpec['fallback']) {
  const done = await story.store.transact('setFallback', {
    ...{ tenant_id: story.ids.tenant_id, workload: row.id, revision: row.revision },
    ...{ fallback: steps, fallback_after_ms: after_ms, fallback_return: false, ...cause(story) },
  });
  return done.ok ? 'ok' : done.code;
}

async function goBack(story: Story): Promise<string> {
  const { id, revision } = await only(story);
  const args = { ...cause(story), workload_id: id, revision };
  return (await story.store.transact('returnToAsked', args)).outcome;
}
