/**
 * The queue: the first wait is on the timeline, its changing figures are not.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openTestStore, storeKinds } from '../../test/lib/rig.ts';
import {
  beginStory,
  eventsOf,
  greet,
  type Story,
  take,
  workloadsOf,
} from '../../test/lib/store-model.ts';
import type { ReasonCode } from '../core/reasons.ts';
import { listWaiting, nextAttempt, queueFingerprint, readWaiting, waitingText } from './queue.ts';

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
      assert.deepEqual(await queue(story, 'machine_busy', { free: '0 GiB' }), { queued: 1 });
      for (let round = 1; round < 20; round += 1) {
        assert.deepEqual(await queue(story, 'machine_busy', { free: `${round} GiB` }), {
          queued: 0,
        });
      }
      const [row] = await workloadsOf(story.store);
      assert.equal(row?.state, 'queued');
      assert.deepEqual(JSON.parse(row?.details ?? ''), { free: '0 GiB' });
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
        (await story.store.read(listWaiting, { now, after: '', upto: '~', limit: 10 })).length;
      assert.deepEqual([await waiting(4999), await waiting(5000)], [0, 1]);
      assert.equal(await story.store.read(nextAttempt, { now: 4999 }), 5000);
      assert.equal(await story.store.read(nextAttempt, { now: 5000 }), null);
    });

    inStory('one that changed meanwhile is passed over, the others are queued', async (story) => {
      await take(story, { do: 'launch', which: 0, clock_ms: 1 });
      const [first, second] = await workloadsOf(story.store);
      await take(story, { do: 'stop', which: 0, clock_ms: 1 });
      const members = [first, second].map((row) => ({
        workload_id: row?.id ?? '',
        revision: row?.revision ?? 0,
      }));
      const cause = { now: story.clock.now(), actor: 'controller', request_id: null };
      const why = { code: 'machine_busy' as const, details: {} };
      const done = await story.store.transact('queueWorkloads', { members, ...why, ...cause });
      assert.deepEqual(done, { queued: 1 });
      const states = (await workloadsOf(story.store)).map((row) => row.state);
      assert.deepEqual(states, ['stopped', 'queued']);
    });

    inStory('a further reason keeps the moment since when it waits', async (story) => {
      await queue(story, 'machine_busy', {});
      const [before] = await workloadsOf(story.store);
      story.clock.stepWall(1000);
      await queue(story, 'machine_offline', {});
      const [row] = await workloadsOf(story.store);
      assert.equal(row?.state_since, before?.state_since);
    });

    inStory('what waits is read in pages, each once, with what it asks', async (story) => {
      const { store, clock } = story;
      for (let count = 0; count < 4; count += 1) {
        await take(story, { do: 'launch', which: 0, clock_ms: count % 2 });
      }
      const seen: string[] = [];
      for (let after = ''; ; after = seen.at(-1) ?? '') {
        const rows = await store.read(listWaiting, {
          now: clock.now(),
          after,
          upto: '~',
          limit: 2,
        });
        if (rows.length === 0) break;
        seen.push(...rows.map((row) => row.id));
      }
      const all = await workloadsOf(store);
      assert.deepEqual(seen, all.map((row) => row.id).toSorted());
      const rows = await store.read(readWaiting, { ids: seen });
      assert.equal(rows.length, 5);
      assert.ok(rows.every((row) => JSON.parse(row.ask).cpu_millis === 1000));
    });

    inStory('a range reads as the versions that wait there', async (story) => {
      const { store, clock } = story;
      await take(story, { do: 'launch', which: 0, clock_ms: 1 });
      const range = { now: clock.now(), after: '', upto: '~' };
      const text = async () => store.read(waitingText, range);
      const [first, second] = await store.read(listWaiting, { ...range, limit: 9 });
      const reads = (revision: number) => `${first?.id}${revision}${second?.id}${second?.revision}`;
      assert.equal(await text(), reads(first?.revision ?? 0));
      await queue(story, 'machine_busy', {}, first?.revision);
      assert.equal(await text(), reads((first?.revision ?? 0) + 1));
      assert.equal(await store.read(waitingText, { ...range, upto: '' }), '');
    });

    inStory('of a row from before asks were kept, the spec says what it asks', async (story) => {
      await story.store.transact('write', { text: "update workloads set ask = ''", params: [] });
      const ids = (await workloadsOf(story.store)).map((one) => one.id);
      const [row] = await story.store.read(readWaiting, { ids });
      assert.equal(JSON.parse(row?.ask ?? '{}').cpu_millis, 1000);
    });

    inStory(
      'the fingerprint is another one after each change that admission cares for',
      async (story) => {
        const now = story.clock.now();
        const print = () => story.store.read(queueFingerprint, { now });
        const prints = [await print()];
        assert.equal(await print(), prints[0]);
        for (const what of ['launch', 'place', 'launch', 'stop'] as const) {
          await take(story, { do: what, which: 1, clock_ms: 1 });
          prints.push(await print());
        }
        await greet(story.store, story.ids.machine_id, story.clock);
        prints.push(await print());
        assert.equal(new Set(prints).size, prints.length);
      },
    );
  });
}

async function queue(
  { store, clock }: Story,
  code: ReasonCode,
  details: Record<string, string>,
  revision?: number,
) {
  const [row] = await workloadsOf(store);
  return store.transact('queueWorkloads', {
    members: [{ workload_id: row?.id ?? '', revision: revision ?? row?.revision ?? 0 }],
    code,
    details,
    now: clock.now(),
    actor: 'controller',
    request_id: null,
  });
}
