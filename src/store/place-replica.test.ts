/**
 * A run beside one that nobody has heard of: only of endpoints, and the old one says nothing any
 * more, but keeps what it holds until it is proven gone.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginReplicas, type ReplicaTale } from '../../test/lib/replica-tale.ts';
import { openTestStore, type RigStore, select } from '../../test/lib/rig.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { findTargets } from './keys.ts';
import { listSilentReplicas } from './replica-queue.ts';

const silent = (run_epoch: number) =>
  ({ why: 'silent', run_epoch, machine: 'desk', since: '12:04' }) as const;
const openHolds = async ({ store }: ReplicaTale) =>
  (
    await select<{ machine_id: string }>(
      store,
      'select machine_id from holds where released_at is null order by run_epoch',
    )
  ).map(({ machine_id }) => machine_id);
const answering = async ({ store, id }: ReplicaTale) =>
  (await store.read(findTargets, { workload_id: id })).flatMap(({ run_epoch }) => run_epoch ?? []);
const codes = async (tale: ReplicaTale) => (await tale.events()).map(({ code }) => code);

onEveryStore('a replacement', (_, kind) => {
  const inStore = (name: string, act: (store: RigStore) => Promise<void>) =>
    void test(name, async () => {
      const { store, close } = await openTestStore(kind);
      try {
        await act(store);
      } finally {
        await close();
      }
    });

  inStore('takes the place of a run that nobody has heard of', async (store) => {
    const tale = await beginReplicas(store, 1);
    await tale.place(tale.desk);
    const old = await tale.current(0);
    await tale.report(old, 'ready');
    assert.deepEqual(
      (await store.read(listSilentReplicas, { machine_ids: [tale.desk], limit: 9 })).length,
      1,
    );
    assert.equal(await tale.placeOne(0, tale.east, silent(1)), 'placed');
    assert.equal((await tale.workload()).state, 'provisioning');
    assert.ok((await codes(tale)).includes('replica_unheard'));
    assert.deepEqual(await openHolds(tale), [tale.desk, tale.east], 'both may run');
    assert.deepEqual(await answering(tale), [], 'the old one gets nothing any more');
    await tale.report(await tale.current(0), 'ready');
    assert.deepEqual(await answering(tale), [2]);
    assert.equal((await tale.workload()).claims, 1, 'the quota counts it once');
    assert.deepEqual(await tale.metered(), [
      [0, 1, true],
      [0, 2, false],
    ]);
  });

  inStore(
    'whatever the old one says moves nothing, and its end frees its machine',
    async (store) => {
      const tale = await beginReplicas(store, 1);
      await tale.place(tale.desk);
      const old = await tale.current(0);
      await tale.report(old, 'ready');
      await tale.placeOne(0, tale.east, silent(1));
      const before = await tale.workload();
      await tale.report(old, 'ready');
      await tale.report(old, 'ended');
      assert.deepEqual(await tale.workload(), before);
      assert.deepEqual(await openHolds(tale), [tale.east]);
      await tale.report(old, 'removed');
      assert.deepEqual(await tale.workload(), before);
    },
  );

  inStore(
    'is not made of what was heard of since, was stopped, or is no endpoint',
    async (store) => {
      const tale = await beginReplicas(store, 1);
      await tale.place(tale.desk);
      await tale.report(await tale.current(0), 'ready');
      assert.equal(await tale.placeOne(0, tale.east, silent(7)), 'changed_meanwhile');
      const kind = async (to: string) =>
        store.transact('write', { text: 'update workloads set kind = $1', params: [to] });
      await kind('notebook');
      assert.equal(await tale.placeOne(0, tale.east, silent(1)), 'changed_meanwhile');
      assert.deepEqual(
        await store.read(listSilentReplicas, { machine_ids: [tale.desk], limit: 9 }),
        [],
      );
      await kind('endpoint');
      await tale.change('stopWorkload');
      assert.equal(await tale.placeOne(0, tale.east, silent(1)), 'changed_meanwhile');
      assert.equal((await tale.runs()).length, 1);
    },
  );

  inStore('a stop waits for the run that counts, a deletion for all of them', async (store) => {
    const tale = await beginReplicas(store, 1);
    await tale.place(tale.desk);
    const old = await tale.current(0);
    await tale.placeOne(0, tale.east, silent(1));
    await tale.change('stopWorkload');
    await tale.report(await tale.current(0), 'parked');
    assert.equal((await tale.workload()).state, 'stopped');
    await tale.change('deleteWorkload');
    await tale.report(await tale.current(0), 'removed');
    assert.equal((await tale.workload()).state, 'deleting');
    await tale.report(old, 'removed');
    assert.equal((await tale.workload()).state, 'deleted');
  });

  inStore('of one of several is a note while another answers', async (store) => {
    const tale = await beginReplicas(store, 2);
    await tale.place(tale.desk);
    await tale.placeOne(1, tale.east);
    await tale.report(await tale.current(0), 'ready');
    await tale.report(await tale.current(1), 'ready');
    assert.equal(await tale.placeOne(0, tale.east, silent(1)), 'placed');
    assert.equal((await tale.workload()).state, 'running');
    assert.deepEqual(await answering(tale), [2]);
    assert.deepEqual((await codes(tale)).slice(-2), ['replica_unheard', 'replica_placed']);
    await tale.report(await tale.current(0), 'ready');
    assert.deepEqual(await answering(tale), [3, 2]);
  });

  inStore('what is taken off a machine goes elsewhere while the others go on', async (store) => {
    const tale = await beginReplicas(store, 2);
    await tale.place(tale.desk);
    await tale.placeOne(1, tale.east);
    await tale.report(await tale.current(0), 'ready');
    await tale.report(await tale.current(1), 'ready');
    const first = await tale.current(0);
    await store.transact('reclaimMachine', {
      ...{ ...tale.cause(), machine_id: tale.desk, tenant_id: tale.ids.tenant_id, by: 'ada' },
      ...{ scope: 'all', grace_ms: 0, start: { when: 'now' }, until: null, guard: null },
    });
    assert.equal((await tale.workload()).state, 'running');
    assert.equal((await tale.current(0)).wanted, 'park');
    assert.deepEqual(await answering(tale), [2]);
    assert.ok((await codes(tale)).includes('replica_preempted'));
    await tale.report(first, 'parked');
    const [row] = await tale.rows();
    assert.deepEqual([row?.state, row?.attempts], ['waiting', 0]);
    assert.equal(await tale.placeOne(0, tale.desk), 'not_allowed');
    assert.equal(await tale.placeOne(0, tale.east), 'placed');
  });
});
