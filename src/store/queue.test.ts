/**
 * The queue: the first wait is on the timeline, its changing figures are not.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openTestStore, storeKinds } from '../../test/lib/rig.ts';
import { beginStory, eventsOf, type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import type { ReasonCode } from '../core/reasons.ts';
import { listWaiting, nextAttempt } from './machines.ts';

for (const kind of storeKinds) {
  describe(`the queue on a store in ${kind}`, () => {
    const inStory = (name: string, body: (story: Story) => Promise<void>) =>
      test(name, async () => {
        const { store, close } = await openTestStore(kind);
        try {
          const story = await beginStory(store);
          await take(story, { do: 'launch', which: 0, clock_ms: 0 });
          await body(story);
        } finally {
          await close();
        }
      });

    inStory('figures that change all the time do not flood the timeline', async (story) => {
      for (let round = 0; round < 20; round += 1) {
        assert.deepEqual(await queue(story, 'machine_busy', { free: `${round} GiB` }), {
          queued: 1,
        });
      }
      const [row] = await workloadsOf(story.store);
      assert.equal(row?.state, 'queued');
      assert.deepEqual(JSON.parse(row?.details ?? ''), { free: '19 GiB' });
      assert.equal((await eventsOf(story.store, row?.id ?? '')).length, 2);
    });

    inStory('another reason is an event of its own', async (story) => {
      await queue(story, 'machine_busy', {});
      await queue(story, 'machine_offline', {});
      const [row] = await workloadsOf(story.store);
      const events = await eventsOf(story.store, row?.id ?? '');
      assert.deepEqual(
        events.map((event) => event.code),
        ['asked_by_user', 'machine_busy', 'machine_offline'],
      );
    });

    inStory('a decision about what changed meanwhile does nothing', async (story) => {
      const [before] = await workloadsOf(story.store);
      await take(story, { do: 'stop', which: 0, clock_ms: 1 });
      assert.deepEqual(await queue(story, 'machine_busy', {}, before?.revision), { queued: 0 });
      const [row] = await workloadsOf(story.store);
      assert.equal(row?.state, 'stopped');
    });

    inStory('what backs off is not decided before its time', async (story) => {
      const [row] = await workloadsOf(story.store);
      const text = 'update workloads set not_before = $1 where id = $2';
      await story.store.transact('write', { text, params: [5000, row?.id ?? ''] });
      const waiting = async (now: number) =>
        (await story.store.read(listWaiting, { now, limit: 10 })).length;
      assert.deepEqual([await waiting(4999), await waiting(5000)], [0, 1]);
      assert.equal(await story.store.read(nextAttempt, { now: 4999 }), 5000);
      assert.equal(await story.store.read(nextAttempt, { now: 5000 }), null);
    });
  });
}

async function queue(
  { store, clock }: Story,
  code: ReasonCode,
  details: Record<string, string>,
  revision?: number,
) {
  const [row] = await workloadsOf(store);
  return store.transact('queueWorkload', {
    workload_id: row?.id ?? '',
    revision: revision ?? row?.revision ?? 0,
    code,
    details,
    now: clock.now(),
    actor: 'controller',
    request_id: null,
  });
}
