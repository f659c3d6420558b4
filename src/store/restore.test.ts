/**
 * A restored store: nothing is placed again before every machine spoke, and no number comes twice.
 */
import assert from 'node:assert/strict';
import { select } from '../../test/lib/rig.ts';
import { runsOf, type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';

const place = (story: Story) => take(story, { do: 'place', which: 0, clock_ms: 1 });

/** What a machine says of its runs. */
async function say(story: Story, observed: 'nothing' | 'a stray' | 'what was placed') {
  const { store, ids, clock } = story;
  const [run] = await runsOf(store);
  const key = { workload_id: run?.workload_id ?? 'w', replica: 0, run_epoch: run?.run_epoch ?? 1 };
  const words = { state: 'ready' as const, stages: [], exit: null, reason: null };
  const one = { ...key, ...words, details: {}, log_tail: null };
  const stray = { ...one, workload_id: 'unknown' };
  const all = { nothing: [], 'a stray': [stray], 'what was placed': [one] };
  await store.transact('applyReport', {
    ...{ machine_id: ids.machine_id, machine_name: 'desk', observed: all[observed] },
    ...{ now: clock.now(), actor: 'machine:desk', request_id: null },
  });
}

onEveryStore('restore', (inStory) => {
  inStory('nothing is placed before every machine told all it runs', async (story) => {
    await take(story, { do: 'launch', which: 0, clock_ms: 1 });
    assert.deepEqual(await story.store.transact('restoreStore', {}), { store_epoch: 2 });
    await place(story);
    await say(story, 'a stray');
    await place(story);
    assert.deepEqual(await runsOf(story.store), []);
    await say(story, 'nothing');
    await place(story);
    const [run] = await runsOf(story.store);
    assert.equal(run?.run_epoch, 2_000_000);
  });

  inStory('what was launched since waits only for the machine it goes to', async (story) => {
    const { store, ids, clock } = story;
    const other = { id: 'other', tenant_id: ids.tenant_id, name: 'other', region: 'local' };
    await store.transact('addMachine', { ...other, now: clock.now() });
    await store.transact('restoreStore', {});
    await take(story, { do: 'launch', which: 0, clock_ms: 1 });
    await place(story);
    assert.deepEqual(await runsOf(store), [], 'what runs there may be unknown here');
    await say(story, 'nothing');
    await place(story);
    const [run] = await runsOf(store);
    assert.equal(run?.run_epoch, 1);
  });

  inStory('a fence stands for the word of a machine', async (story) => {
    const { store, ids, clock } = story;
    await take(story, { do: 'launch', which: 0, clock_ms: 1 });
    await store.transact('restoreStore', {});
    const cause = { now: clock.now(), actor: 'user:ada', request_id: null };
    await store.transact('fenceMachine', {
      ...cause,
      ...{ machine_id: ids.machine_id, agent_epoch: 1 },
    });
    await place(story);
    assert.equal((await runsOf(store)).length, 1);
  });

  inStory('what it believes to run is never begun anew', async (story) => {
    await take(story, { do: 'launch', which: 0, clock_ms: 1 });
    await place(story);
    await story.store.transact('restoreStore', {});
    const [run] = await runsOf(story.store);
    assert.notEqual(run?.proven_at, null);
    await say(story, 'what was placed');
    const [row] = await workloadsOf(story.store);
    assert.equal(row?.state, 'running', 'its own run is still the current one');
    const machines = await select(story.store, 'select reconciled_epoch from machines');
    assert.deepEqual(machines, [{ reconciled_epoch: 2 }]);
  });
});
