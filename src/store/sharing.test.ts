/**
 * Who may use a machine, and what stops when that becomes less; on every store.
 */
import assert from 'node:assert/strict';
import { addTenant, select } from '../../test/lib/rig.ts';
import { runsOf, type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { findMachine, listMachines } from './machines.ts';
import { runsOfMachine } from './runs.ts';
import type { ShareArgs } from './sharing.ts';

const causeOf = ({ clock }: Story) => ({
  ...{ now: clock.now(), mono: clock.monotonic(), actor: 'user:ada', request_id: 'r' },
});

function shareArgs(story: Story, how: Partial<ShareArgs>): ShareArgs {
  const { machine_id, tenant_id } = story.ids;
  return {
    ...{ ...causeOf(story), machine_id, tenant_id, is_operator: 0, sharing: null },
    ...{ invite: [], uninvite: [], guest_limit: 3, ...how },
  };
}

const share = (story: Story, how: Partial<ShareArgs>) =>
  story.store.transact('shareMachine', shareArgs(story, how));

const machineOf = async ({ store, ids }: Story) => {
  const row = await store.read(findMachine, { machine_id: ids.machine_id });
  assert.ok(row);
  return row;
};

/** Something of the story's tenant runs, by a driver that others may use, on a machine of bob's. */
async function runningAtBobs(story: Story): Promise<void> {
  const { store, ids } = story;
  await take(story, { do: 'launch', which: 0, clock_ms: 1 });
  await take(story, { do: 'place', which: 0, clock_ms: 1 });
  await take(story, { do: 'report', which: 0, says: 'ready', oom: false, clock_ms: 1 });
  await addTenant(store, 'bob', 'bob-id');
  const write = (text: string) => store.transact('write', { text, params: [] });
  await write("update runs set driver = 'libvirt', isolation = 'strong'");
  await write("update machines set tenant_id = 'bob-id', sharing = 'community'");
  await addTenant(store, 'cyd', 'cyd-id');
  story.ids = { ...ids };
}

const bob = { tenant_id: 'bob-id' };

onEveryStore('sharing', (inStory) => {
  inStory('an invitation makes a private machine invite-only, and is told once', async (story) => {
    const { store, ids } = story;
    await addTenant(store, 'bob', 'bob-id');
    assert.deepEqual(await share(story, { invite: ['bob', 'bob'] }), { ok: true, parked: 0 });
    const before = await machineOf(story);
    assert.equal(before.sharing, 'invite-only');
    assert.deepEqual(await share(story, { invite: ['bob'] }), { ok: true, parked: 0 });
    assert.deepEqual(await machineOf(story), before, 'what changes nothing writes nothing');
    const seen = async (tenant_id: string) => {
      const rows = await store.read(listMachines, { after: '', limit: 9, tenant_id });
      return rows.map(({ id, guests }) => [id, guests]);
    };
    const guests = [{ tenant_id: 'bob-id', slug: 'bob' }];
    assert.deepEqual(await seen('bob-id'), [[ids.machine_id, guests]]);
    assert.deepEqual(await seen('cyd-id'), []);
    await share(story, { uninvite: ['bob'] });
    assert.deepEqual(await seen('bob-id'), []);
    assert.equal((await machineOf(story)).sharing, 'invite-only');
  });

  inStory('a community machine keeps its guests, a private one has none', async (story) => {
    const { store } = story;
    await addTenant(store, 'bob', 'bob-id');
    await share(story, { sharing: 'community', invite: ['bob'] });
    assert.equal((await machineOf(story)).sharing, 'community');
    const guests = () => select(store, 'select tenant_id from machine_guests');
    assert.equal((await guests()).length, 1);
    await share(story, { sharing: 'private' });
    assert.deepEqual(await guests(), []);
    await share(story, { sharing: 'invite-only' });
    assert.deepEqual(await guests(), [], 'who was a guest before is none again');
  });

  inStory(
    'a tenant that is not there changes nothing, and the guests have a limit',
    async (story) => {
      const { store, ids } = story;
      const before = await machineOf(story);
      const none = await share(story, { sharing: 'community', invite: ['nobody'] });
      assert.deepEqual(none, { ok: false, code: 'not_found', tenant: 'nobody' });
      for (const slug of ['a', 'b', 'c', 'd']) await addTenant(store, slug, slug);
      const over = await share(story, { invite: ['a', 'b', 'c', 'd'] });
      assert.deepEqual(over, { ok: false, code: 'limit_reached' });
      const [{ slug = '' } = {}] = await select<{ slug: string }>(
        store,
        'select slug from tenants where id = $1',
        [ids.tenant_id],
      );
      assert.deepEqual(await machineOf(story), before);
      await share(story, { invite: [slug] });
      assert.deepEqual(
        await select(store, 'select * from machine_guests'),
        [],
        'an owner is no guest',
      );
    },
  );

  inStory('an operator of another tenant takes back, and shares nothing further', async (story) => {
    const { store } = story;
    await addTenant(store, 'bob', 'bob-id');
    await addTenant(store, 'cyd', 'cyd-id');
    const cyd = { tenant_id: 'cyd-id', is_operator: 1 };
    const hidden = { ok: false, code: 'not_found', tenant: null };
    assert.deepEqual(await share(story, { ...cyd, sharing: 'private' }), hidden, 'it is private');
    await share(story, { sharing: 'invite-only', invite: ['bob'] });
    for (const more of [{ sharing: 'community' as const }, { invite: ['cyd'] }]) {
      const refused = await share(story, { ...cyd, ...more });
      assert.deepEqual(refused, { ok: false, code: 'sharing_not_yours' });
    }
    assert.deepEqual(await share(story, { ...cyd, is_operator: 0, sharing: 'private' }), hidden);
    assert.deepEqual(await share(story, { ...cyd, uninvite: ['bob'] }), { ok: true, parked: 0 });
    assert.deepEqual(await share(story, { ...cyd, sharing: 'private' }), { ok: true, parked: 0 });
    assert.equal((await machineOf(story)).sharing, 'private');
  });

  inStory('what runs is stopped with the change that takes its right away', async (story) => {
    const { store, ids } = story;
    await runningAtBobs(story);
    const slug = (await select<{ slug: string }>(store, 'select slug from tenants')).map(
      (row) => row.slug,
    );
    const own = slug.find((one) => one !== 'bob' && one !== 'cyd') ?? '';
    const invited = await share(story, { ...bob, sharing: 'invite-only', invite: [own] });
    assert.deepEqual(invited, { ok: true, parked: 0 }, 'a guest goes on');
    const [desired] = await store.read(runsOfMachine, { machine_id: ids.machine_id });
    assert.equal(desired?.is_guest, 1);
    const before = await machineOf(story);
    assert.deepEqual(await share(story, { ...bob, uninvite: [own] }), { ok: true, parked: 1 });
    const [row] = await workloadsOf(store);
    assert.deepEqual([row?.state, row?.park_cause, row?.code], ['stopping', 'trust', 'trust_lost']);
    assert.equal((await runsOf(store))[0]?.wanted, 'park');
    assert.ok((await machineOf(story)).generation > before.generation);
  });

  inStory('nothing is placed where it may not run any more', async (story) => {
    const { store } = story;
    await take(story, { do: 'launch', which: 0, clock_ms: 1 });
    await addTenant(store, 'bob', 'bob-id');
    const text = "update machines set tenant_id = 'bob-id'";
    await store.transact('write', { text, params: [] });
    await take(story, { do: 'place', which: 0, clock_ms: 1 });
    assert.deepEqual(await runsOf(store), []);
    assert.equal((await workloadsOf(store))[0]?.state, 'pending');
  });
});

onEveryStore('giving a machine away', (inStory) => {
  inStory('it is private and drained there, under a name of its own', async (story) => {
    const { store, ids, clock } = story;
    await addTenant(store, 'bob', 'bob-id');
    const { name } = await machineOf(story);
    const other = { id: 'm-bob', tenant_id: 'bob-id', name, region: 'local', now: clock.now() };
    await store.transact('addMachine', other);
    await share(story, { sharing: 'community', invite: ['bob'] });
    const args = { ...causeOf(story), machine_id: ids.machine_id, tenant_id: ids.tenant_id };
    const given = await store.transact('giveMachine', { ...args, to: 'bob' });
    assert.deepEqual(given, { ok: true, parked: 0, name: `${name}-2` });
    const row = await machineOf(story);
    assert.deepEqual(
      [row.tenant_id, row.name, row.sharing, row.drained_at],
      ['bob-id', `${name}-2`, 'private', clock.now()],
    );
    assert.deepEqual(await select(store, 'select * from machine_guests'), []);
    const again = await store.transact('giveMachine', { ...args, to: 'bob' });
    assert.deepEqual(again, { ok: false, code: 'not_found', tenant: null });
  });

  inStory('what its owner ran there is stopped', async (story) => {
    const { store, ids } = story;
    await take(story, { do: 'launch', which: 0, clock_ms: 1 });
    await take(story, { do: 'place', which: 0, clock_ms: 1 });
    await take(story, { do: 'report', which: 0, says: 'ready', oom: false, clock_ms: 1 });
    await addTenant(store, 'bob', 'bob-id');
    const args = { ...causeOf(story), machine_id: ids.machine_id, tenant_id: ids.tenant_id };
    await addTenant(store, 'gone', 'gone-id');
    const off = "update tenants set disabled_at = 1 where id = 'gone-id'";
    await store.transact('write', { text: off, params: [] });
    for (const to of ['nobody', 'gone']) {
      const none = await store.transact('giveMachine', { ...args, to });
      assert.deepEqual(none, { ok: false, code: 'not_found', tenant: to });
    }
    const given = await store.transact('giveMachine', { ...args, to: 'bob' });
    assert.equal(given.ok && given.parked, 1);
    const [row] = await workloadsOf(store);
    assert.deepEqual([row?.state, row?.park_cause, row?.code], ['stopping', 'trust', 'trust_lost']);
  });
});
