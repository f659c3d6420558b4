/**
 * Workloads: launched, stopped, started and deleted, on both stores, in any order.
 */
import assert from 'node:assert/strict';
import { addTenant, endpointSpec, select } from '../../test/lib/rig.ts';
import { reportRun, runsOf, type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { makeId } from '../core/ids.ts';
import type { WorkloadSpec } from '../core/workload.ts';
import type { WorkloadRow } from './events.ts';
import { findWorkload, listWorkloads, type PageArgs } from './workloads.ts';

onEveryStore('workloads', (inStory) => {
  inStory('a name is taken once, and free again after its deletion', async (story) => {
    assert.equal(await launch(story, 'chat'), 'chat');
    assert.equal(await launch(story, 'chat'), 'name_taken');
    await change(story, 'deleteWorkload', 'chat');
    assert.equal(await launch(story, 'chat'), 'chat');
  });

  inStory('names that nobody gave get the next free number', async (story) => {
    assert.equal(await launch(story, null), 'chat');
    assert.equal(await launch(story, null), 'chat-2');
    assert.equal(await launch(story, 'chat-3'), 'chat-3');
    assert.equal(await launch(story, null), 'chat-4');
    await change(story, 'deleteWorkload', 'chat-2');
    assert.equal(await launch(story, null), 'chat-2');
  });

  inStory('however many there are without a name, each gets one of its own', async (story) => {
    const names = [];
    for (let count = 0; count < 40; count += 1) names.push(await launch(story, null));
    assert.equal(new Set(names).size, 40);
    assert.deepEqual(names.slice(0, 12), [
      'chat',
      ...Array.from({ length: 11 }, (_, index) => `chat-${index + 2}`),
    ]);
  });
});

onEveryStore('the life of workloads', (inStory) => {
  inStory('names of another tenant are none of ours', async (story) => {
    await addTenant(story.store, 'other', 'other-tenant');
    assert.equal(await launch(story, 'chat'), 'chat');
    assert.equal(await launch(story, 'chat', { tenant_id: 'other-tenant' }), 'chat');
    assert.equal(await launch(story, 'mine', { tenant_id: 'other-tenant' }), 'mine');
    for (const name of ['stopWorkload', 'startWorkload', 'deleteWorkload'] as const) {
      assert.equal(await change(story, name, 'mine'), 'not_found');
    }
    const [theirs] = await select<{ id: string; revision: number }>(
      story.store,
      "select id, revision from workloads where name = 'mine'",
    );
    const asked = { tenant_id: story.ids.tenant_id, workload: theirs?.id ?? '' };
    assert.equal(await story.store.read(findWorkload, asked), undefined);
    assert.equal(theirs?.revision, 1);
  });

  inStory('what was deleted is found by its id alone, and refuses everything', async (story) => {
    await launch(story, 'chat');
    const [row] = await workloadsOf(story.store);
    await change(story, 'deleteWorkload', 'chat');
    const { tenant_id } = story.ids;
    const find = (workload: string) => story.store.read(findWorkload, { tenant_id, workload });
    assert.equal(await find('chat'), undefined);
    assert.equal((await find(row?.id ?? ''))?.state, 'deleted');
    for (const name of ['stopWorkload', 'startWorkload', 'deleteWorkload'] as const) {
      assert.equal(await change(story, name, row?.id ?? ''), 'already_deleted');
    }
  });

  inStory('deleting what has a parked run waits until nothing of it is left', async (story) => {
    await launch(story, 'chat');
    await take(story, { do: 'place', which: 0, clock_ms: 0 });
    const [run] = await runsOf(story.store);
    assert.ok(run);
    assert.equal(await change(story, 'stopWorkload', 'chat'), 'stopping');
    await reportRun(story, run, 'parked');
    assert.equal((await workloadsOf(story.store))[0]?.state, 'stopped');
    assert.equal(await change(story, 'deleteWorkload', 'chat'), 'deleting');
    await reportRun(story, run, 'parked');
    assert.equal((await workloadsOf(story.store))[0]?.state, 'deleting');
    await reportRun(story, run, 'removed');
    assert.equal((await workloadsOf(story.store))[0]?.state, 'deleted');
  });
});

onEveryStore('stops, starts and pages', (inStory) => {
  inStory('a stop of what never ran needs no proof', async (story) => {
    await launch(story, 'chat');
    assert.equal(await change(story, 'stopWorkload', 'chat'), 'stopped');
    assert.equal(await change(story, 'startWorkload', 'chat'), 'pending');
    assert.equal(await change(story, 'deleteWorkload', 'chat'), 'deleted');
  });

  inStory('a start while stopping is kept until the stop is proven', async (story) => {
    await launch(story, 'chat');
    await take(story, { do: 'place', which: 0, clock_ms: 0 });
    await change(story, 'stopWorkload', 'chat');
    assert.equal(await change(story, 'startWorkload', 'chat'), 'stopping');
    const [run] = await runsOf(story.store);
    assert.ok(run);
    await reportRun(story, run, 'parked');
    const [row] = await workloadsOf(story.store);
    assert.deepEqual([row?.state, row?.intent], ['pending', 'running']);
  });

  inStory('pages show every workload once, newest first, while more arrive', async (story) => {
    for (let count = 0; count < 7; count += 1) await launch(story, null);
    const before = (await workloadsOf(story.store)).map((row) => row.id);
    const seen: string[] = [];
    let cursor: { created_at: number; id: string } | null = null;
    for (let page = 0; page < 10; page += 1) {
      const { tenant_id } = story.ids;
      const asked: PageArgs = { tenant_id, before: cursor, limit: 2, deleted: false };
      const rows: WorkloadRow[] = await story.store.read(listWorkloads, asked);
      seen.push(...rows.map((row) => row.id));
      cursor = rows.at(-1) ?? null;
      if (rows.length < 2) break;
      story.clock.stepWall(1000);
      await launch(story, null);
    }
    assert.equal(new Set(seen).size, seen.length);
    assert.deepEqual(seen, before.toReversed());
  });
});

async function launch(
  story: Story,
  name: string | null,
  over: { tenant_id?: string } = {},
): Promise<string> {
  const { store, ids, clock, random } = story;
  const spec: WorkloadSpec = endpointSpec(name === null ? {} : { name });
  const done = await store.transact('launchWorkload', {
    id: makeId(clock.now(), random.bytes(10)),
    tenant_id: ids.tenant_id,
    creator_id: ids.user_id,
    spec,
    name_is_free: name === null,
    actor: 'user:ada',
    request_id: 'r',
    now: clock.now(),
    idempotency: null,
    ...over,
  });
  if (done.outcome !== 'done') return done.outcome;
  return done.result.ok ? done.result.row.name : done.result.code;
}

async function change(
  { store, ids, clock }: Story,
  name: 'stopWorkload' | 'startWorkload' | 'deleteWorkload',
  workload: string,
): Promise<string> {
  const done = await store.transact(name, {
    tenant_id: ids.tenant_id,
    workload,
    actor: 'user:ada',
    request_id: 'r',
    now: clock.now(),
    idempotency: null,
  });
  if (done.outcome !== 'done') return done.outcome;
  return done.result.ok ? done.result.row.state : done.result.code;
}
