/**
 * Idempotency: a repeat has the answer and the effect of one call, for one principal, for a while.
 */
import assert from 'node:assert/strict';
import { endpointSpec } from '../../test/lib/rig.ts';
import { eventsOf, type Story, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { makeId } from '../core/ids.ts';
import type { IdempotencyKey } from './idempotency.ts';

const key = { principal: 'ada', key: 'k', request_hash: 'h' };

onEveryStore('idempotency', (inStory) => {
  inStory('a repeat gives the same answer and has no second effect', async (story) => {
    const first = await launch(story, key);
    story.clock.stepWall(60_000);
    assert.deepEqual(await launch(story, key), first);
    assert.equal((await workloadsOf(story.store)).length, 1);
  });

  inStory('sixty-four repeats at once have one effect and one answer', async (story) => {
    const answers = await Promise.all(Array.from({ length: 64 }, () => launch(story, key)));
    assert.equal(new Set(answers.map((one) => JSON.stringify(one))).size, 1);
    assert.equal((await workloadsOf(story.store)).length, 1);
  });

  inStory('the same key for another request is refused, and does nothing', async (story) => {
    await launch(story, key);
    const other = await launch(story, { ...key, request_hash: 'another' });
    assert.deepEqual(other, { outcome: 'idempotency_key_reused' });
    assert.equal((await workloadsOf(story.store)).length, 1);
  });

  inStory('keys of two principals have nothing to do with each other', async (story) => {
    await launch(story, key);
    await launch(story, { ...key, principal: 'eve', request_hash: 'another' });
    assert.equal((await workloadsOf(story.store)).length, 2);
  });

  inStory('without a key, every call is a call', async (story) => {
    await launch(story, null);
    await launch(story, null);
    assert.equal((await workloadsOf(story.store)).length, 2);
  });

  inStory('a refusal is repeated as well', async (story) => {
    const change = { workload: 'chat', actor: 'user:ada', request_id: 'r', now: 1 };
    const stop = () =>
      story.store.transact('stopWorkload', {
        ...change,
        tenant_id: story.ids.tenant_id,
        idempotency: { ...key, key: 'stop' },
      });
    const refused = await stop();
    await launch(story, null);
    assert.deepEqual(await stop(), refused);
    const [row] = await workloadsOf(story.store);
    assert.equal((await eventsOf(story.store, row?.id ?? '')).length, 1);
  });

  inStory('old keys are forgotten, young ones kept', async (story) => {
    await launch(story, key);
    const round = () => story.store.transact('forgetIdempotencyKeys', { kept_rounds: 3 });
    story.clock.stepWall(400 * 24 * 3_600_000);
    for (const forgotten of [0, 0, 1, 0]) assert.deepEqual(await round(), { forgotten });
    await launch(story, key);
    assert.equal((await workloadsOf(story.store)).length, 2);
  });
});

function launch({ store, ids, clock, random }: Story, idempotency: IdempotencyKey) {
  return store.transact('launchWorkload', {
    id: makeId(clock.now(), random.bytes(10)),
    tenant_id: ids.tenant_id,
    creator_id: ids.user_id,
    spec: endpointSpec(),
    name_is_free: true,
    actor: 'user:ada',
    request_id: 'r',
    now: clock.now(),
    idempotency,
  });
}
