/**
 * Homes in the store: set once, by the first placement of what has a disk, and held to.
 */
import assert from 'node:assert/strict';
import { endpointSpec, gib } from '../../test/lib/rig.ts';
import { greet, reportRun, runsOf, type Story, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { parseAsk } from '../core/ask.ts';
import { makeId } from '../core/ids.ts';
import type { Placement, WorkloadSpec } from '../core/workload.ts';

const notebook: Partial<WorkloadSpec> = {
  ...{ kind: 'notebook', name: 'nb', model: null, disk_bytes: gib, image_id: 'jupyter' },
};

async function addOther(story: Story): Promise<string> {
  const { store } = story;
  const other = makeId(story.clock.now(), story.random.bytes(10));
  await store.transact('addMachine', {
    ...{ id: other, tenant_id: story.ids.tenant_id, name: 'attic', region: 'local' },
    now: story.clock.now(),
  });
  await greet(store, other, story.clock, { name: 'attic' });
  return other;
}

async function launch({ store, clock, random, ids }: Story, spec: Partial<WorkloadSpec>) {
  const now = clock.now();
  await store.transact('launchWorkload', {
    ...{ id: makeId(now, random.bytes(10)), tenant_id: ids.tenant_id, creator_id: ids.user_id },
    ...{ spec: endpointSpec(spec), name_is_free: true, actor: 'user:ada', request_id: 'r', now },
    idempotency: null,
  });
  const [row] = await workloadsOf(store);
  assert.ok(row);
  return row;
}

const on = (machine_id: string): Placement => ({
  ...{ machine_id, machine_name: 'somewhere', driver: 'sim', isolation: 'weak' },
  placed_class: 'cpu-1c-2g',
});

async function place({ store, clock }: Story, machine_id: string) {
  const [row] = await workloadsOf(store);
  assert.ok(row);
  const cause = { now: clock.now(), actor: 'controller', request_id: null };
  const args = { workload_id: row.id, revision: row.revision, placement: on(machine_id) };
  return (await store.transact('placeWorkload', { ...cause, ...args })).outcome;
}

async function again(story: Story): Promise<void> {
  const { store, clock, ids } = story;
  const [row] = await workloadsOf(store);
  const change = {
    ...{ tenant_id: ids.tenant_id, workload: row?.id ?? '', actor: 'user:ada', request_id: 'r' },
    ...{ now: clock.now(), idempotency: null },
  };
  await store.transact('stopWorkload', change);
  const run = (await runsOf(store)).at(-1);
  assert.ok(run);
  await reportRun(story, run, 'parked');
  await store.transact('startWorkload', change);
}

onEveryStore('homes', (inStory) => {
  inStory('what has a disk lives where it first ran, and runs nowhere else', async (story) => {
    const other = await addOther(story);
    const before = await launch(story, notebook);
    assert.equal(before.home_machine_id, null);
    assert.equal(await place(story, story.ids.machine_id), 'placed');
    const [row] = await workloadsOf(story.store);
    assert.equal(row?.home_machine_id, story.ids.machine_id);
    assert.equal(row?.home_region, 'local');
    assert.equal(parseAsk(row?.ask ?? '').home_machine_id, story.ids.machine_id);
    await again(story);
    assert.equal(await place(story, other), 'not_allowed');
    assert.equal(await place(story, story.ids.machine_id), 'placed');
  });

  inStory('an endpoint has no home, nor has what keeps no disk', async (story) => {
    const other = await addOther(story);
    await launch(story, { disk_bytes: 0 });
    assert.equal(await place(story, story.ids.machine_id), 'placed');
    await again(story);
    assert.equal(await place(story, other), 'placed');
    assert.equal((await workloadsOf(story.store))[0]?.home_machine_id, null);
  });

  inStory('a machine that let nothing of it begin is no home', async (story) => {
    const other = await addOther(story);
    await launch(story, notebook);
    assert.equal(await place(story, story.ids.machine_id), 'placed');
    const [run] = await runsOf(story.store);
    assert.ok(run);
    await reportRun(story, run, 'ended', false, { reason: 'refused_by_machine', exit: null });
    const [row] = await workloadsOf(story.store);
    assert.equal(row?.home_machine_id, null);
    assert.equal(row?.avoid_machine_id, story.ids.machine_id);
    assert.equal(await place(story, other), 'placed');
  });

  inStory('a start that failed there may have left something: it stays its home', async (story) => {
    await launch(story, notebook);
    assert.equal(await place(story, story.ids.machine_id), 'placed');
    const [run] = await runsOf(story.store);
    assert.ok(run);
    await reportRun(story, run, 'ended', false, { reason: 'start_failed', exit: null });
    const [row] = await workloadsOf(story.store);
    assert.equal(row?.home_machine_id, story.ids.machine_id);
  });

  inStory('no run is placed outside the region that was asked for', async (story) => {
    await launch(story, { region: 'elsewhere' });
    assert.equal(await place(story, story.ids.machine_id), 'not_allowed');
  });
});
