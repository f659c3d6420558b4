/**
 * Who may prompt whose endpoint, the keys for that, and what becomes of both; on every store.
 */
import assert from 'node:assert/strict';
import { addTenant, addUser } from '../../test/lib/rig.ts';
import { type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { findOpenEndpoint, findOpenModel, listOpenEndpoints } from './endpoint-guests.ts';
import { findKey, findTargets, listKeys } from './keys.ts';
import { listModelKeys } from './model-keys.ts';

const bob = 'bob-id';

/** An endpoint of the story's tenant that runs, on a machine that bob is invited to. */
async function lent(story: Story): Promise<{ id: string; name: string; user_id: string }> {
  const { store, random } = story;
  await take(story, { do: 'launch', which: 0, clock_ms: 1 });
  await take(story, { do: 'place', which: 0, clock_ms: 1 });
  await take(story, { do: 'report', which: 0, says: 'ready', oom: false, clock_ms: 1 });
  await addTenant(store, 'bob', bob);
  const { user_id } = await addUser(store, random, { tenant_id: bob, name: 'b', role: 'member' });
  const write = (text: string, params: string[] = []) => store.transact('write', { text, params });
  await write("update machines set sharing = 'invite-only'");
  await write('insert into machine_guests (machine_id, tenant_id, created_at) values ($1, $2, 1)', [
    story.ids.machine_id,
    bob,
  ]);
  const [row] = await workloadsOf(store);
  assert.ok(row);
  return { id: row.id, name: row.name, user_id };
}

const none = { invite: [], uninvite: [], community: null };
const shareWith = (story: Story, workload: string, how: Partial<typeof none> | object) =>
  story.store.transact('shareEndpoint', {
    ...{ tenant_id: story.ids.tenant_id, workload, ...none, now: story.clock.now(), ...how },
  });

onEveryStore('endpoints that are open to others', (inStory) => {
  inStory('it is open to whom it was opened, by the name that guests use', async (story) => {
    const { store } = story;
    const { id, name } = await lent(story);
    const seen = () => store.read(listOpenEndpoints, { tenant_id: bob, limit: 9 });
    assert.deepEqual(await seen(), []);
    const opened = await shareWith(story, name, { invite: ['bob'] });
    assert.deepEqual(opened.ok && opened.sharing, { community: 0, tenants: ['bob'] });
    const [open] = await seen();
    assert.deepEqual([open?.workload_id, open?.machine_ids], [id, [story.ids.machine_id]]);
    const model = open?.model ?? '';
    assert.match(model, new RegExp(`^[a-z0-9-]+/${name}$`));
    assert.deepEqual(await store.read(findOpenModel, { tenant_id: bob, model }), open);
    assert.deepEqual(await store.read(findOpenEndpoint, { tenant_id: bob, workload_id: id }), open);
    const nobody = { tenant_id: 'cyd-id', workload_id: id };
    assert.equal(await store.read(findOpenEndpoint, nobody), undefined);
    await shareWith(story, name, { uninvite: ['bob'] });
    assert.deepEqual(await seen(), []);
    await shareWith(story, name, { community: 1 });
    assert.equal((await seen()).length, 1);
    await store.transact('write', { text: 'delete from machine_guests', params: [] });
    assert.deepEqual(await seen(), []);
  });

  inStory('nobody is let in whom no machine lets in, and unknown names are told', async (story) => {
    const { name } = await lent(story);
    await addTenant(story.store, 'cyd', 'cyd-id');
    const refused = await shareWith(story, name, { invite: ['cyd'] });
    assert.deepEqual([refused.ok, !refused.ok && refused.code], [false, 'machine_not_shared']);
    const unknown = await shareWith(story, name, { invite: ['nobody'] });
    assert.deepEqual(unknown, { ok: false, code: 'not_found', tenant: 'nobody' });
    const none = await shareWith(story, 'no-such', { invite: ['bob'] });
    assert.deepEqual(none, { ok: false, code: 'not_found', tenant: null });
  });

  inStory(
    "a guest's key is the guest's alone, and an engine is apart from then on",
    async (story) => {
      const { store } = story;
      const { id, name, user_id } = await lent(story);
      const apart = async () => (await store.read(findTargets, { workload_id: id }))[0]?.is_apart;
      assert.equal(await apart(), 0);
      await shareWith(story, name, { invite: ['bob'] });
      assert.equal(await apart(), 1);
      const [open] = await store.read(listOpenEndpoints, { tenant_id: bob, limit: 9 });
      const made = await store.transact('createModelKey', {
        ...{ id: 'k1', tenant_id: bob, user_id, models: [open?.model ?? ''], hash: 'h', now: 5 },
        ...{ last_four: 'abcd', expires_at: null, idempotency: null },
      });
      assert.ok(made.outcome === 'done' && made.result.ok, JSON.stringify(made));
      assert.equal((await store.read(findKey, { hash: 'h' }))?.workload_id, id);
      assert.deepEqual(await store.read(listKeys, { workload_id: id, limit: 9 }), []);
      const owner = { workload_id: id, key_id: 'k1', now: 6 };
      assert.deepEqual(await store.transact('revokeKey', owner), { found: 0 });
      const [listed] = await store.read(listModelKeys, { tenant_id: bob, limit: 9 });
      assert.deepEqual([listed?.row.id, listed?.models], ['k1', [open?.model]]);
      await shareWith(story, name, { uninvite: ['bob'] });
      assert.equal(await apart(), 1, 'its engine may remember');
      const args = { tenant_id: bob, key_id: 'k1', now: 7 };
      assert.deepEqual(await store.transact('revokeModelKey', args), { found: 1 });
      const other = { ...args, tenant_id: story.ids.tenant_id };
      assert.deepEqual(await store.transact('revokeModelKey', other), { found: 0 });
    },
  );

  inStory('made-up machines are added once, with tenants that are not there yet', async (story) => {
    const args = {
      ...{ id: 'm-sim', name: 'rack', region: 'lab', sharing: 'community' as const, now: 1 },
      owner: { slug: 'acme', new_id: 'acme-id' },
      guests: [{ slug: 'bolt', new_id: 'bolt-id' }],
    };
    assert.deepEqual(await story.store.transact('addSimMachine', args), { added: 1 });
    assert.deepEqual(await story.store.transact('addSimMachine', args), { added: 0 });
  });
});
