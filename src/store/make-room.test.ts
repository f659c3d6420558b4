/**
 * Making room: all of what was chosen is stopped, or nothing, on every store.
 */
import assert from 'node:assert/strict';
import {
  eventsOf,
  reportRun,
  runsOf,
  type Story,
  take,
  takeReady,
  workloadsOf,
} from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import type { WorkloadRow } from './events.ts';
import { listHeldByEndpoints } from './make-room.ts';

onEveryStore('making room', (inStory) => {
  /** One that runs, and one that waits. */
  const given = (
    name: string,
    body: (story: Story, runs: WorkloadRow, waits: WorkloadRow) => Promise<void>,
  ) =>
    inStory(name, async (story) => {
      await takeReady(story);
      await take(story, { do: 'launch', which: 0, clock_ms: 1 });
      const rows = await workloadsOf(story.store);
      const [running, waiting] = ['running', 'pending'].map((state) =>
        rows.find((row) => row.state === state),
      );
      assert.ok(running && waiting);
      await body(story, running, waiting);
    });

  given('what runs and what it holds is found, by its creator or all of it', async (story, row) => {
    const { store, ids } = story;
    const asked = { tenant_id: ids.tenant_id, limit: 10 };
    for (const creator_id of [null, ids.user_id]) {
      const [held, ...more] = await store.read(listHeldByEndpoints, { ...asked, creator_id });
      assert.deepEqual([held?.workload_id, held?.run_epoch, more.length], [row.id, 1, 0]);
      assert.deepEqual([held?.cpu_millis, held?.device], [row.cpu_millis, '']);
    }
    const others = { ...asked, creator_id: 'somebody else' };
    assert.deepEqual(await store.read(listHeldByEndpoints, others), []);
  });

  given('it is stopped as idle ones are, and both timelines say so', async (story, row, waits) => {
    assert.equal(await makeRoom(story, waits, [row]), 'ok');
    const [run] = await runsOf(story.store);
    assert.ok(run);
    assert.equal(run.wanted, 'park');
    await reportRun(story, run, 'parked');
    const parked = (await workloadsOf(story.store)).find(({ id }) => id === row.id);
    assert.deepEqual(
      [parked?.state, parked?.intent, parked?.park_cause, parked?.code],
      ['stopped', 'running', 'idle', 'parked_for_room'],
    );
    assert.equal((await eventsOf(story.store, waits.id)).at(-1)?.code, 'room_made');
  });

  given('where one of them is another by now, nothing is stopped', async (story, row, waits) => {
    const other = { ...row, run_epoch: row.run_epoch + 1 };
    assert.equal(await makeRoom(story, waits, [row, other]), 'room_changed');
    assert.equal(await makeRoom(story, waits, [row], 'somebody else'), 'room_changed');
    assert.equal(await makeRoom(story, waits, [row, waits]), 'room_changed', 'it does not run');
    assert.equal(await makeRoom(story, row, [row]), 'not_waiting');
    assert.equal(await makeRoom(story, { ...waits, id: 'none' }, [row]), 'not_found');
    const still = (await workloadsOf(story.store)).find(({ id }) => id === row.id);
    assert.deepEqual([still?.state, still?.revision], ['running', row.revision]);
  });
});

async function makeRoom(
  { store, ids, clock }: Story,
  waits: WorkloadRow,
  stop: WorkloadRow[],
  creator_id: string | null = null,
): Promise<string> {
  const done = await store.transact('makeRoom', {
    ...{ tenant_id: ids.tenant_id, workload: waits.id, creator_id },
    stop: stop.map(({ id, run_epoch }) => ({ workload_id: id, run_epoch, idle_ms: 600_000 })),
    ...{ now: clock.now(), actor: 'user:ada', request_id: 'r' },
  });
  return done.ok ? 'ok' : done.code;
}
