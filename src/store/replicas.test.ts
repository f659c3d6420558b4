/**
 * Replicas: each is tried by itself, and the workload runs while one of them answers.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginReplicas, type ReplicaTale } from '../../test/lib/replica-tale.ts';
import { openTestStore, type RigStore, select } from '../../test/lib/rig.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { findTargets, listAnswering } from './keys.ts';
import { listWaitingReplicas } from './replica-queue.ts';

const crash = { exit: { code: 1, signal: null, out_of_memory: false } };

async function bothReady(tale: ReplicaTale): Promise<void> {
  assert.equal(await tale.place(tale.desk), 'placed');
  assert.equal(await tale.placeOne(1, tale.east), 'placed');
  await tale.report(await tale.current(0), 'ready');
  await tale.report(await tale.current(1), 'ready');
}

const stateOf = async (tale: ReplicaTale) => (await tale.workload()).state;
const statesOf = async (tale: ReplicaTale) => (await tale.rows()).map(({ state }) => state);
const answering = async ({ store, id }: ReplicaTale) =>
  (await store.read(findTargets, { workload_id: id })).map(({ replica }) => replica);

onEveryStore('replicas', (_, kind) => {
  const inStore = (name: string, act: (store: RigStore) => Promise<void>) =>
    void test(name, async () => {
      const { store, close } = await openTestStore(kind);
      try {
        await act(store);
      } finally {
        await close();
      }
    });

  inStore(
    'it runs once the first is ready, and each is metered while it answers',
    async (store) => {
      const tale = await beginReplicas(store);
      assert.equal(await tale.place(tale.desk), 'placed');
      assert.deepEqual(await statesOf(tale), ['placed', 'waiting']);
      const waiting = await store.read(listWaitingReplicas, { now: tale.clock.now(), limit: 9 });
      assert.deepEqual(
        waiting.map(({ replica }) => replica),
        [1],
      );
      await tale.report(await tale.current(0), 'ready');
      assert.equal(await stateOf(tale), 'running');
      assert.equal(await tale.placeOne(1, tale.east), 'placed');
      assert.deepEqual(await answering(tale), [0]);
      await tale.report(await tale.current(1), 'ready');
      assert.deepEqual(await answering(tale), [0, 1]);
      assert.deepEqual(await tale.metered(), [
        [0, 1, false],
        [1, 2, false],
      ]);
      const { tenant_id } = tale.ids;
      assert.equal((await store.read(listAnswering, { tenant_id, limit: 9 })).length, 1);
    },
  );

  inStore('why a replica waits is noted once, and of who waits alone', async (store) => {
    const tale = await beginReplicas(store);
    assert.equal(await tale.place(tale.desk), 'placed');
    const [waiting] = await store.read(listWaitingReplicas, { now: tale.clock.now(), limit: 9 });
    assert.ok(waiting);
    const member = { workload_id: tale.id, replica: 1, revision: waiting.revision };
    const say = (members: (typeof member)[]) =>
      store.transact('queueReplicas', {
        ...{ members, code: 'all_matching_busy', details: { machines: 2, counts: '2 busy' } },
        ...{ now: tale.clock.now(), mono: tale.clock.monotonic() },
        ...{ actor: 'controller', request_id: null },
      });
    const others = [
      { ...member, replica: 0 },
      { ...member, revision: member.revision + 9 },
    ];
    assert.deepEqual(await say([...others, member]), { queued: 1 });
    assert.deepEqual(await say([member]), { queued: 0 }, 'it changed meanwhile');
    const notes = (await tale.events()).filter(({ code }) => code === 'replica_waits');
    assert.equal(notes.length, 1);
    assert.match(String(notes[0]?.details), /"replica":1,"why":"Every machine/);
  });

  inStore('one that crashes moves nothing while another answers', async (store) => {
    const tale = await beginReplicas(store);
    await bothReady(tale);
    await tale.report(await tale.current(0), 'ended', crash);
    assert.equal(await stateOf(tale), 'running');
    assert.deepEqual(await statesOf(tale), ['waiting', 'placed']);
    assert.deepEqual(await answering(tale), [1]);
    assert.deepEqual(await tale.metered(), [
      [0, 1, true],
      [1, 2, false],
    ]);
    const last = (await tale.events()).at(-1);
    assert.deepEqual([last?.kind, last?.code], ['note', 'replica_lost']);
    assert.match(String(last?.details), /"replica":0/);
    await tale.clock.advance(60_000);
    assert.equal(await tale.placeOne(0, tale.desk), 'placed');
    await tale.report(await tale.current(0), 'ready');
    assert.deepEqual(await answering(tale), [0, 1]);
    const [row] = await tale.rows();
    assert.deepEqual([row?.state, row?.attempts], ['placed', 1]);
  });

  inStore('with the last one that answered, the workload moves', async (store) => {
    const tale = await beginReplicas(store);
    await bothReady(tale);
    await tale.report(await tale.current(0), 'ended', crash);
    await tale.clock.advance(60_000);
    await tale.placeOne(0, tale.desk);
    await tale.report(await tale.current(1), 'ended', crash);
    assert.equal(await stateOf(tale), 'provisioning', 'another is on its way');
    await tale.report(await tale.current(0), 'ended', crash);
    assert.equal(await stateOf(tale), 'pending');
    await tale.clock.advance(60_000);
    assert.equal(await tale.place(tale.desk), 'placed');
    await tale.report((await tale.runs()).at(-1) ?? assert.fail(), 'ready');
    assert.equal(await stateOf(tale), 'running');
  });

  inStore('one that failed for good leaves the others; with the last it fails', async (store) => {
    const tale = await beginReplicas(store);
    await bothReady(tale);
    await tale.report(await tale.current(0), 'ended', { reason: 'model_file_invalid' });
    assert.equal(await stateOf(tale), 'running');
    assert.deepEqual(await statesOf(tale), ['failed', 'placed']);
    await tale.report(await tale.current(1), 'ended', { reason: 'model_file_invalid' });
    assert.equal(await stateOf(tale), 'failed');
    await tale.change('startWorkload');
    assert.equal(await stateOf(tale), 'pending');
    assert.deepEqual(await statesOf(tale), ['waiting', 'waiting']);
  });

  inStore('a person has what failed tried again while the others go on', async (store) => {
    const tale = await beginReplicas(store);
    await bothReady(tale);
    await tale.report(await tale.current(0), 'ended', { reason: 'model_file_invalid' });
    await tale.change('startWorkload');
    assert.deepEqual(await statesOf(tale), ['waiting', 'placed']);
    assert.equal(await stateOf(tale), 'running');
  });

  inStore('a stop is confirmed once all of them are proven gone', async (store) => {
    const tale = await beginReplicas(store);
    await bothReady(tale);
    await tale.change('stopWorkload');
    await tale.report(await tale.current(0), 'parked');
    assert.equal(await stateOf(tale), 'stopping');
    await tale.report(await tale.current(1), 'parked');
    assert.equal(await stateOf(tale), 'stopped');
    assert.equal((await tale.metered()).filter(([, , is_over]) => !is_over).length, 0);
    await tale.change('startWorkload');
    assert.equal(await tale.place(tale.desk), 'placed');
    assert.equal((await tale.current(0)).run_epoch, 3);
  });

  inStore('two that end at the same moment both count for a stop', async (store) => {
    const tale = await beginReplicas(store);
    await bothReady(tale);
    for (let round = 0; round < 8; round += 1) {
      await tale.change('stopWorkload');
      const both = [await tale.current(0), await tale.current(1)];
      await Promise.all(both.map((run) => tale.report(run, 'parked')));
      assert.equal(await stateOf(tale), 'stopped', `round ${round}`);
      await tale.change('startWorkload');
      await bothReady(tale);
    }
  });

  inStore('a deletion is confirmed once nothing of any of them is left', async (store) => {
    const tale = await beginReplicas(store);
    await bothReady(tale);
    await tale.change('deleteWorkload');
    await tale.report(await tale.current(0), 'removed');
    assert.equal(await stateOf(tale), 'deleting');
    await tale.report(await tale.current(1), 'removed');
    assert.equal(await stateOf(tale), 'deleted');
    assert.deepEqual(await statesOf(tale), []);
  });

  inStore('scaled down, the highest go, and count until they are proven gone', async (store) => {
    const tale = await beginReplicas(store, 3);
    await bothReady(tale);
    await tale.placeOne(2, tale.desk);
    const third = await tale.current(2);
    await tale.report(third, 'ready');
    assert.ok((await tale.scale(1)).ok);
    assert.deepEqual(await answering(tale), [0]);
    assert.deepEqual(await statesOf(tale), [], 'of one alone the workload says it all');
    assert.equal((await tale.workload()).claims, 3);
    assert.deepEqual(
      [(await tale.current(2)).wanted, (await tale.current(0)).wanted],
      ['remove', 'run'],
    );
    await tale.report(third, 'removed');
    assert.equal((await tale.workload()).claims, 2);
    await tale.report(await tale.current(1), 'removed');
    assert.equal((await tale.workload()).claims, 1);
    assert.equal(await stateOf(tale), 'running');
    await tale.report(await tale.current(0), 'ended', crash);
    assert.equal(await stateOf(tale), 'pending');
  });

  inStore('scaled down to one that does not answer, it runs no longer', async (store) => {
    const tale = await beginReplicas(store);
    await bothReady(tale);
    await tale.report(await tale.current(0), 'ended', crash);
    await tale.scale(1);
    assert.equal(await stateOf(tale), 'pending');
    await tale.clock.advance(60_000);
    assert.equal(await tale.place(tale.desk), 'placed');
  });

  inStore('scaled up, what runs goes on; a quota counts each replica', async (store) => {
    const tale = await beginReplicas(store, 1);
    await tale.place(tale.desk);
    await tale.report(await tale.current(0), 'ready');
    const { tenant_id } = tale.ids;
    const text = `insert into quotas (tenant_id, user_id, gpu_class, cpu_millis, changed_at)
      values ($1, '', '', 2000, 0)`;
    await store.transact('write', { text, params: [tenant_id] });
    const over = await tale.scale(3);
    assert.equal(!over.ok && over.code, 'quota_exceeded');
    assert.ok((await tale.scale(2)).ok);
    assert.deepEqual(await statesOf(tale), ['placed', 'waiting']);
    assert.equal(await stateOf(tale), 'running');
    assert.equal(await tale.placeOne(1, tale.east), 'placed');
  });

  inStore('two decisions about one replica make one run', async (store) => {
    const tale = await beginReplicas(store);
    await tale.place(tale.desk);
    const outcomes = await Promise.all([tale.placeOne(1, tale.east), tale.placeOne(1, tale.desk)]);
    assert.deepEqual(outcomes.sort(), ['changed_meanwhile', 'placed']);
  });

  inStore('a replica takes a place beside the others only while they go on', async (store) => {
    const tale = await beginReplicas(store);
    await tale.place(tale.desk);
    await tale.change('stopWorkload');
    assert.equal(await tale.placeOne(1, tale.east), 'changed_meanwhile');
    const holds = await select(store, 'select * from holds where released_at is null');
    assert.equal(holds.length, 1);
  });
});
