/**
 * Endpoint keys: for one endpoint, revoked with it, stored as what cannot be turned back.
 */
import assert from 'node:assert/strict';
import { reportRun, runsOf, type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { findKey, findTarget, listKeys } from './keys.ts';

onEveryStore('keys', (inStory) => {
  const given = (name: string, body: (story: Story, workload_id: string) => Promise<void>) =>
    inStory(name, async (story) => {
      await take(story, { do: 'launch', which: 0, clock_ms: 0 });
      await body(story, (await workloadsOf(story.store))[0]?.id ?? '');
    });

  given('a key is found by its hash and opens its endpoint', async (story, workload_id) => {
    await create(story, 'k1');
    const key = await story.store.read(findKey, { hash: 'hash-k1' });
    assert.deepEqual([key?.workload_id, key?.revoked_at], [workload_id, null]);
    assert.equal(await story.store.read(findKey, { hash: 'hash-k2' }), undefined);
  });

  given('deleting the endpoint revokes its keys at once', async (story) => {
    await create(story, 'k1');
    await take(story, { do: 'place', which: 0, clock_ms: 1 });
    await take(story, { do: 'delete', which: 0, clock_ms: 1 });
    assert.equal((await workloadsOf(story.store))[0]?.state, 'deleting');
    assert.notEqual((await story.store.read(findKey, { hash: 'hash-k1' }))?.revoked_at, null);
  });

  given('a key of several endpoints is revoked with the last of them', async (story, id) => {
    await take(story, { do: 'launch', which: 0, clock_ms: 1 });
    const second = (await workloadsOf(story.store)).find((one) => one.id !== id)?.id ?? '';
    await createOfMany(story, [id, second, id]);
    const found = () => story.store.read(findKey, { hash: 'hash-many' });
    assert.deepEqual([(await found())?.workload_id, (await found())?.more], [id, second]);
    for (const workload_id of [id, second]) {
      const [listed] = await story.store.read(listKeys, { workload_id, limit: 10 });
      assert.equal(listed?.id, 'many');
    }
    const remove = (workload: string) =>
      story.store.transact('deleteWorkload', {
        ...{ tenant_id: story.ids.tenant_id, workload, idempotency: null },
        ...{ actor: `user:${story.ids.user_id}`, request_id: 'r', now: story.clock.now() },
      });
    await remove(id);
    assert.equal((await found())?.revoked_at, null);
    await remove(second);
    assert.notEqual((await found())?.revoked_at, null);
  });

  given('a key has limits from its making on, and changed ones at once', async (story) => {
    await create(story, 'k1', { limits: { rpm: 60, concurrency: 4 } });
    const limits = async () => {
      const key = await story.store.read(findKey, { hash: 'hash-k1' });
      return [key?.rpm, key?.tpm, key?.concurrency];
    };
    assert.deepEqual(await limits(), [60, null, 4]);
    const { tenant_id } = story.ids;
    const change = { tenant_id, key_id: 'k1', limits: { rpm: null, tpm: 9 } };
    const changed = await story.store.transact('limitKey', change);
    assert.deepEqual([changed?.rpm, changed?.tpm, changed?.concurrency], [null, 9, 4]);
    assert.deepEqual(await limits(), [null, 9, 4]);
    const of_another = await story.store.transact('limitKey', { ...change, tenant_id: 'other' });
    assert.equal(of_another, null);
  });

  given('a deleted endpoint, another tenant and no endpoint get no key', async (story) => {
    assert.equal(await create(story, 'k1', { tenant_id: 'other' }), 'not_found');
    assert.equal(await create(story, 'k1', { workload: 'nothing' }), 'not_found');
    await take(story, { do: 'delete', which: 0, clock_ms: 1 });
    assert.equal(await create(story, 'k1'), 'not_found');
  });

  given('a key is revoked once, and only through its own workload', async (story, id) => {
    await create(story, 'k1');
    const revoke = (workload_id: string, now: number) =>
      story.store.transact('revokeKey', { workload_id, key_id: 'k1', now });
    assert.deepEqual(await revoke('another', 5), { found: 0 });
    assert.deepEqual(await revoke(id, 6), { found: 1 });
    assert.deepEqual(await revoke(id, 7), { found: 1 });
    const [key] = await story.store.read(listKeys, { workload_id: id, limit: 10 });
    assert.equal(key?.revoked_at, 6);
  });

  given('a target has a run only while one is ready and not ended', async (story, id) => {
    const epoch = async () => (await story.store.read(findTarget, { workload_id: id }))?.run_epoch;
    assert.equal(await epoch(), null);
    await take(story, { do: 'place', which: 0, clock_ms: 1 });
    assert.equal(await epoch(), null, 'not ready yet');
    const [run] = await runsOf(story.store);
    assert.ok(run);
    await reportRun(story, run, 'ready');
    assert.equal(await epoch(), 1);
    await reportRun(story, run, 'ended');
    assert.equal(await epoch(), null, 'ended');
    await take(story, { do: 'delete', which: 0, clock_ms: 1 });
    await reportRun(story, run, 'removed');
    assert.equal(await story.store.read(findTarget, { workload_id: id }), undefined);
  });
});

async function create(story: Story, id: string, over: object = {}): Promise<string> {
  const done = await story.store.transact('createKey', {
    id,
    tenant_id: story.ids.tenant_id,
    user_id: story.ids.user_id,
    workload: 'chat',
    hash: `hash-${id}`,
    last_four: 'abcd',
    now: story.clock.now(),
    expires_at: null,
    idempotency: null,
    ...over,
  });
  if (done.outcome !== 'done') return done.outcome;
  return done.result.ok ? done.result.row.id : done.result.code;
}

async function createOfMany(story: Story, models: string[]): Promise<void> {
  const { tenant_id, user_id } = story.ids;
  const done = await story.store.transact('createModelKey', {
    ...{ id: 'many', tenant_id, user_id, models, hash: 'hash-many', last_four: 'abcd' },
    ...{ now: story.clock.now(), expires_at: null, idempotency: null },
  });
  assert.ok(done.outcome === 'done' && done.result.ok, JSON.stringify(done));
}
