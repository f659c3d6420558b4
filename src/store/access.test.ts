/**
 * Tickets and access sessions on every store: exchanged once, and worth what they come from.
 */
import assert from 'node:assert/strict';
import {
  reportRun,
  runsOf,
  type Story,
  take,
  takeReady,
  workloadsOf,
} from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { findAccess, isTicketKnown, runsNow } from './access.ts';

const host = 'w-x.localhost:4600';
const idle_before = 0;

onEveryStore('access', (inStory) => {
  /** A workload whose first run runs, and a session of its user. */
  const given = (name: string, body: (story: Story, workload_id: string) => Promise<void>) =>
    inStory(name, async (story) => {
      await takeReady(story);
      await signIn(story);
      await body(story, (await workloadsOf(story.store))[0]?.id ?? '');
    });

  given('of many at once, one exchange happens', async (story, workload_id) => {
    await addTicket(story, workload_id);
    assert.equal(await story.store.read(isTicketKnown, { hash: 'ticket' }), true);
    const all = await Promise.all(
      Array.from({ length: 64 }, (_, at) => redeem(story, { session_id: `a${at}` })),
    );
    assert.equal(all.filter((one) => one !== null).length, 1);
    assert.equal(await redeem(story), null);
  });

  given('an access session leads to the run it was given for', async (story, workload_id) => {
    await addTicket(story, workload_id);
    await redeem(story);
    const row = await find(story);
    assert.deepEqual([row?.run_epoch, row?.current_epoch, row?.workload_id], [1, 1, workload_id]);
    assert.equal(await find(story, { host: 'w-y.localhost:4600' }), undefined);
    assert.equal(await find(story, { now: story.clock.now() + 3600_000 }), undefined);
    const now = await story.store.read(runsNow, { ids: [workload_id, 'none'] });
    assert.deepEqual(
      now.map(({ id, state, run_epoch }) => [id, state, run_epoch]),
      [[workload_id, 'running', 1]],
    );
  });

  given('it ends with its session, its user, or their tenant', async (story, workload_id) => {
    await addTicket(story, workload_id);
    await redeem(story);
    const ends: [string, string][] = [
      ['update sessions set revoked_at = 1', 'update sessions set revoked_at = null'],
      ['update users set disabled_at = 1', 'update users set disabled_at = null'],
      ['update tenants set disabled_at = 1', 'update tenants set disabled_at = null'],
      ["update users set role = 'viewer'", "update users set role = 'operator'"],
    ];
    for (const [end, undo] of ends) {
      await story.store.transact('write', { text: end, params: [] });
      assert.equal(await find(story), undefined, end);
      await story.store.transact('write', { text: undo, params: [] });
      assert.notEqual(await find(story), undefined, undo);
    }
    assert.equal(await find(story, { idle_before: story.clock.now() }), undefined, 'idle');
  });

  given(
    'after a stop it leads nowhere, and follows only when asked',
    async (story, workload_id) => {
      await addTicket(story, workload_id);
      await redeem(story);
      await take(story, { do: 'stop', which: 0, clock_ms: 1 });
      assert.equal((await find(story))?.current_epoch, null);
      assert.deepEqual(await renew(story, 1), { ok: 0 }, 'it does not run');
      const [run] = await runsOf(story.store);
      assert.ok(run);
      await reportRun(story, run, 'ended');
      await take(story, { do: 'start', which: 0, clock_ms: 1 });
      await take(story, { do: 'place', which: 0, clock_ms: 1 });
      const next = (await runsOf(story.store)).find((one) => one.run_epoch === 2);
      assert.ok(next);
      await reportRun(story, next, 'ready');
      const waiting = await find(story);
      assert.deepEqual([waiting?.run_epoch, waiting?.current_epoch], [1, 2]);
      assert.deepEqual(await renew(story, 1), { ok: 0 }, 'not to a run of before');
      assert.deepEqual(await renew(story, 2), { ok: 1 });
      assert.equal((await find(story))?.run_epoch, 2);
    },
  );
});

async function signIn(story: Story): Promise<void> {
  const now = story.clock.now();
  await story.store.transact('write', {
    text: `insert into sessions (id, user_id, hash, created_at, last_used_at, expires_at)
      values ('s1', $1, 'h1', $2, $2, $3)`,
    params: [story.ids.user_id, now, now + 7 * 24 * 3600_000],
  });
}

async function addTicket(story: Story, workload_id: string): Promise<void> {
  const now = story.clock.now();
  const { user_id } = story.ids;
  const made = await story.store.transact('addAccessTicket', {
    ...{ hash: 'ticket', workload_id, run_epoch: 1, host, user_id, proof_id: 's1' },
    ...{ now, expires_at: now + 60_000 },
  });
  assert.deepEqual(made, { ok: 1 });
}

function redeem(story: Story, over: { session_id?: string } = {}) {
  const now = story.clock.now();
  return story.store.transact('redeemAccessTicket', {
    ...{ hash: 'ticket', host, session_id: 'a', session_hash: 'cookie', now, idle_before },
    ...{ expires_at: now + 3600_000, ...over },
  });
}

function renew(story: Story, run_epoch: number) {
  const now = story.clock.now();
  const args = { hash: 'cookie', host, run_epoch, now, idle_before };
  return story.store.transact('renewAccessSession', args);
}

function find(story: Story, over: { host?: string; now?: number; idle_before?: number } = {}) {
  const now = story.clock.now();
  return story.store.read(findAccess, { hash: 'cookie', host, now, idle_before, ...over });
}
