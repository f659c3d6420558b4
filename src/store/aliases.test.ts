/**
 * Further names of endpoints: each leads to one thing of its tenant; on every store.
 */
import assert from 'node:assert/strict';
import { addTenant } from '../../test/lib/rig.ts';
import { type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { limits } from '../contract/limits.ts';
import { listAliases } from './aliases.ts';
import { findAlias } from './endpoint-names.ts';

async function launched(story: Story, which: number) {
  await take(story, { do: 'launch', which, clock_ms: 1 });
  const row = (await workloadsOf(story.store)).at(-1);
  assert.ok(row);
  return row;
}

const change = (story: Story, workload: string, how: { add?: string[]; remove?: string[] }) =>
  story.store.transact('changeAliases', {
    ...{ tenant_id: story.ids.tenant_id, workload, add: [], remove: [], now: 1, ...how },
  });

onEveryStore('aliases', (inStory) => {
  inStory('an alias leads to its endpoint until it is taken away', async (story) => {
    const { id, name } = await launched(story, 0);
    const leads = (alias: string) =>
      story.store.read(findAlias, { tenant_id: story.ids.tenant_id, name: alias });
    const added = await change(story, name, { add: ['gpt-4o', 'Qwen/Qwen2.5', 'gpt-4o'] });
    assert.deepEqual(added.ok && added.aliases, ['Qwen/Qwen2.5', 'gpt-4o']);
    assert.deepEqual(await leads('gpt-4o'), { workload_id: id });
    const listed = await story.store.read(listAliases, { workload_ids: [id, 'none'] });
    assert.deepEqual(new Set(listed.map((one) => one.name)), new Set(['Qwen/Qwen2.5', 'gpt-4o']));
    const again = await change(story, id, { add: ['gpt-4o'], remove: ['Qwen/Qwen2.5', 'none'] });
    assert.deepEqual(again.ok && again.aliases, ['gpt-4o']);
    assert.equal(await leads('Qwen/Qwen2.5'), undefined);
  });

  inStory('a name leads to one thing: of a tenant, whichever came first', async (story) => {
    const { store, ids } = story;
    const first = await launched(story, 0);
    const second = await launched(story, 1);
    const taken = (alias: string) => ({ ok: false, code: 'alias_taken', alias });
    assert.deepEqual(await change(story, first.name, { add: [second.name] }), taken(second.name));
    assert.deepEqual(await change(story, first.name, { add: [first.name] }), taken(first.name));
    await change(story, first.name, { add: ['shared'] });
    assert.deepEqual(await change(story, second.name, { add: ['shared'] }), taken('shared'));
    await addTenant(store, 'away', 'away');
    const elsewhere = { tenant_id: 'away', name: 'shared' };
    assert.equal(await store.read(findAlias, elsewhere), undefined);
    const theirs = await store.transact('changeAliases', {
      ...{ tenant_id: 'away', workload: first.name, add: ['mine'], remove: [], now: 1 },
    });
    assert.deepEqual(theirs, { ok: false, code: 'not_found' });
    const names = Array.from({ length: limits.aliases + 1 }, (_, number) => `name-${number}`);
    assert.deepEqual(await change(story, second.name, { add: names }), {
      ...{ ok: false, code: 'aliases_full' },
    });
    await take(story, { do: 'delete', which: 0, clock_ms: 1 });
    assert.equal(
      await store.read(findAlias, { tenant_id: ids.tenant_id, name: 'shared' }),
      undefined,
    );
    const now_free = await change(story, second.name, { add: ['shared'] });
    assert.deepEqual(now_free.ok && now_free.aliases, ['shared']);
  });
});
