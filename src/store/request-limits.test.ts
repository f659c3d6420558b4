/**
 * Limits of users and of endpoints on every store: set, lifted, found with a key and an endpoint.
 */
import assert from 'node:assert/strict';
import { type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import type { RequestLimits } from '../core/request-limits.ts';
import { findKey, findTarget } from './keys.ts';
import { type LimitedName, listRequestLimits } from './request-limits.ts';

onEveryStore('request limits', (inStory) => {
  const given = (name: string, body: (story: Story, workload_id: string) => Promise<void>) =>
    inStory(name, async (story) => {
      await take(story, { do: 'launch', which: 0, clock_ms: 0 });
      await body(story, (await workloadsOf(story.store))[0]?.id ?? '');
    });

  given(
    'those of a user come with each of their keys, those of an endpoint with it',
    async (story, id) => {
      const { store, ids } = story;
      const { tenant_id, user_id } = ids;
      await store.transact('createKey', {
        ...{ id: 'k1', tenant_id, user_id, workload: id, hash: 'h', last_four: 'abcd' },
        ...{ now: 1, expires_at: null, idempotency: null },
      });
      const found = async () => {
        const key = await store.read(findKey, { hash: 'h' });
        const target = await store.read(findTarget, { workload_id: id });
        return [key?.user_rpm, key?.user_tpm, target?.model_rpm, target?.model_concurrency];
      };
      assert.deepEqual(await found(), [null, null, null, null]);
      await set(story, userOf(story), { rpm: 7 });
      await set(story, { kind: 'model', workload: id, tenant_id }, { concurrency: 2 });
      assert.deepEqual(await found(), [7, null, null, 2]);
      await set(story, userOf(story), { rpm: null, tpm: 5 });
      assert.deepEqual(await found(), [null, 5, null, 2]);
    },
  );

  given('what is not named stays; what limits nothing is no row', async (story, id) => {
    const { tenant_id } = story.ids;
    const of: LimitedName = { kind: 'model', workload: id, tenant_id };
    await set(story, of, { rpm: 10, tpm: 100 });
    await set(story, of, { tpm: 200 });
    const all = { tenant_id, only_user: null };
    const read = () => story.store.read(listRequestLimits, all);
    assert.deepEqual((await read())[0]?.limits, { rpm: 10, tpm: 200, concurrency: null });
    await set(story, of, { rpm: null, tpm: null });
    assert.deepEqual(await read(), []);
  });

  given('others are not found, and not listed', async (story, id) => {
    const { tenant_id, user_id } = story.ids;
    const theirs = { kind: 'user', user: user_id, tenant_id: 'other' } as const;
    assert.equal((await set(story, theirs, { rpm: 1 })).ok, false);
    const none = { kind: 'model', workload: 'nothing', tenant_id } as const;
    assert.equal((await set(story, none, { rpm: 1 })).ok, false);
    await set(story, userOf(story), { rpm: 1 });
    await set(story, { kind: 'model', workload: id, tenant_id }, { rpm: 2 });
    const list = async (only_user: string | null) =>
      (await story.store.read(listRequestLimits, { tenant_id, only_user })).map(
        ({ kind, limits }) => [kind, limits.rpm],
      );
    assert.deepEqual(await list(null), [
      ['user', 1],
      ['model', 2],
    ]);
    assert.deepEqual(await list(user_id), [
      ['user', 1],
      ['model', 2],
    ]);
    assert.deepEqual(await list('another'), [['model', 2]]);
    await take(story, { do: 'delete', which: 0, clock_ms: 1 });
    assert.deepEqual(await list('another'), []);
  });
});

function userOf({ ids }: Story): LimitedName {
  return { kind: 'user', user: ids.user_id, tenant_id: null };
}

function set({ store }: Story, of: LimitedName, limits: Partial<RequestLimits>) {
  return store.transact('setRequestLimits', { of, limits, now: 5 });
}
