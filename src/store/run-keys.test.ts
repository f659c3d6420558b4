/**
 * Keys of runs on every store: worth as much as the run, and as who made its workload.
 */
import assert from 'node:assert/strict';
import { reportRun, runsOf, type Story, take } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { findTargetsNamed, listAnswering } from './keys.ts';
import { findRunKey } from './run-keys.ts';

onEveryStore('run keys', (inStory) => {
  const given = (name: string, body: (story: Story) => Promise<void>) =>
    inStory(name, async (story) => {
      await take(story, { do: 'launch', which: 0, clock_ms: 0 });
      await take(story, { do: 'place', which: 0, clock_ms: 1 });
      assert.deepEqual(await keep(story, 'h1'), { kept: 1 });
      await body(story);
    });

  given('it leads to the tenant of who made the workload, from the first moment', async (story) => {
    const found = await find(story, 'h1');
    assert.equal(found?.tenant_id, story.ids.tenant_id);
    assert.equal(await find(story, 'h2'), undefined);
    await reportRun(story, await lastRun(story), 'ready');
    assert.notEqual(await find(story, 'h1'), undefined);
  });

  given('it counts for who made the workload, under their limits', async (story) => {
    const { user_id } = story.ids;
    const of = { kind: 'user', user: user_id, tenant_id: null } as const;
    await story.store.transact('setRequestLimits', { of, limits: { tpm: 100 }, now: 5 });
    const found = await find(story, 'h1');
    assert.deepEqual([found?.user_id, found?.user_tpm, found?.user_rpm], [user_id, 100, null]);
  });

  given('it ends with a wish to stop, before the run does', async (story) => {
    await take(story, { do: 'stop', which: 0, clock_ms: 1 });
    assert.equal((await lastRun(story)).ended_at, null);
    assert.equal(await find(story, 'h1'), undefined);
  });

  given('it ends with a wish to delete', async (story) => {
    await take(story, { do: 'delete', which: 0, clock_ms: 1 });
    assert.equal(await find(story, 'h1'), undefined);
  });

  given('a new run has a new one; the old is forgotten in time', async (story) => {
    await reportRun(story, await lastRun(story), 'ended');
    assert.equal(await find(story, 'h1'), undefined);
    assert.deepEqual(await keep(story, 'late'), { kept: 0 }, 'a run that has ended gets none');
    story.clock.stepWall(60_000);
    await take(story, { do: 'place', which: 0, clock_ms: 1 });
    assert.equal((await runsOf(story.store)).length, 2);
    assert.deepEqual(await keep(story, 'h2'), { kept: 1 });
    assert.equal(await find(story, 'h1'), undefined);
    assert.notEqual(await find(story, 'h2'), undefined);
    assert.deepEqual(await story.store.transact('forgetRunKeys', {}), { forgotten: 1 });
    assert.deepEqual(await story.store.transact('forgetRunKeys', {}), { forgotten: 0 });
    assert.notEqual(await find(story, 'h2'), undefined);
  });

  given('it ends with the user, their role, their tenant', async (story) => {
    const ends: [string, string][] = [
      ['update users set disabled_at = 1', 'update users set disabled_at = null'],
      ['update tenants set disabled_at = 1', 'update tenants set disabled_at = null'],
      ["update users set role = 'viewer'", "update users set role = 'operator'"],
    ];
    for (const [end, undo] of ends) {
      await story.store.transact('write', { text: end, params: [] });
      assert.equal(await find(story, 'h1'), undefined, end);
      await story.store.transact('write', { text: undo, params: [] });
      assert.notEqual(await find(story, 'h1'), undefined, undo);
    }
  });

  given('kept again it is one; under another deployment key the old one is none', async (story) => {
    assert.deepEqual(await keep(story, 'h1'), { kept: 1 });
    assert.deepEqual(await keep(story, 'other'), { kept: 1 });
    assert.equal(await find(story, 'h1'), undefined);
    assert.notEqual(await find(story, 'other'), undefined);
  });

  given(
    'endpoints are found by name within their tenant, listed while they answer',
    async (story) => {
      const { tenant_id } = story.ids;
      const listed = () => story.store.read(listAnswering, { tenant_id, limit: 10 });
      assert.deepEqual(await listed(), []);
      await reportRun(story, await lastRun(story), 'ready');
      const [row] = await listed();
      assert.ok(row);
      const named = (of: string, name: string) =>
        story.store.read(findTargetsNamed, { tenant_id: of, name });
      const [own] = await named(tenant_id, row.name);
      assert.equal(own?.workload_id, row.workload_id);
      assert.deepEqual(await named('other', row.name), []);
      assert.deepEqual(await named(tenant_id, 'nothing'), []);
      const others = await story.store.read(listAnswering, { tenant_id: 'other', limit: 10 });
      assert.deepEqual(others, []);
    },
  );
});

async function lastRun(story: Story) {
  const run = (await runsOf(story.store)).at(-1);
  assert.ok(run);
  return run;
}

async function keep(story: Story, hash: string) {
  const { workload_id, replica, run_epoch } = await lastRun(story);
  const run = { workload_id, replica, run_epoch };
  return story.store.transact('keepRunKey', { ...run, hash, now: story.clock.now() });
}

function find(story: Story, hash: string) {
  return story.store.read(findRunKey, { hash });
}
