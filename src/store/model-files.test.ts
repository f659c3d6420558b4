/**
 * Model files: wishes that are told until they are done, and what machines say of them.
 */
import assert from 'node:assert/strict';
import { addTenant, select } from '../../test/lib/rig.ts';
import type { Story } from '../../test/lib/store-model.ts';
import { take } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import {
  findModelFile,
  listModelFiles,
  listModelUses,
  type ReportedModelFile,
  type WishArgs,
  wishesOfMachine,
} from './model-files.ts';

const source = 'hf://o/r@0/m.gguf';
const wish = (story: Story, over: Partial<WishArgs> = {}) =>
  story.store.transact('wishModelFile', {
    ...{ machine_id: story.ids.machine_id, tenant_id: story.ids.tenant_id, source },
    ...{ id: 'f1', wish: 'fetch', now: 5, idempotency: null },
    ...over,
  });

const says = (over: Partial<ReportedModelFile> = {}): ReportedModelFile => ({
  ...{ id: 'f1', tenant_id: null, source, state: 'ready', format: 'gguf', revision: '0' },
  ...{ sha256: 'aa', bytes: 7, done_bytes: null, total_bytes: null, code: null, details: {} },
  ...{ checked: null, done_wish: 0 },
  ...over,
});

const report = (story: Story, files: ReportedModelFile[], machine_id = story.ids.machine_id) =>
  story.store.transact('applyModelFiles', { machine_id, files, now: 9 });

const find = (story: Story, id = 'f1') =>
  story.store.read(findModelFile, { tenant_id: story.ids.tenant_id, id });

const wished = async (story: Story) =>
  (await story.store.read(wishesOfMachine, { machine_id: story.ids.machine_id })).map(
    (row) => `${row.id} ${row.wish} ${row.wish_number}`,
  );

const generation = async (story: Story) => {
  const rows = await select<{ generation: number }>(
    story.store,
    'select generation from machines where id = $1',
    [story.ids.machine_id],
  );
  return rows[0]?.generation ?? 0;
};

onEveryStore('model files', (inStory) => {
  inStory('a wish is told to its machine until it is said to be done', async (story) => {
    const before = await generation(story);
    const first = await wish(story);
    assert.ok(first.outcome === 'done' && first.result.ok);
    assert.equal(first.result.row.state, 'queued');
    assert.ok((await generation(story)) > before, 'the machine hears of it');
    assert.deepEqual(await wished(story), ['f1 fetch 1']);
    await report(story, [says({ state: 'fetching', tenant_id: story.ids.tenant_id })]);
    assert.equal((await find(story))?.state, 'fetching');
    assert.deepEqual(await wished(story), ['f1 fetch 1']);
    await report(story, [says({ done_wish: 1 })]);
    assert.deepEqual(await wished(story), []);
    const row = await find(story);
    assert.deepEqual([row?.state, row?.sha256, row?.bytes], ['ready', 'aa', 7]);
  });

  inStory('a repeat of a report changes nothing, and tells nobody', async (story) => {
    await wish(story);
    assert.deepEqual(await report(story, [says({ done_wish: 1 })]), { changed: 1 });
    const before = await generation(story);
    assert.deepEqual(await report(story, [says({ done_wish: 1 })]), { changed: 0 });
    assert.equal(await generation(story), before);
  });

  inStory('what is said of an older wish does not end a newer one', async (story) => {
    await wish(story);
    await report(story, [says({ done_wish: 1 })]);
    await wish(story, { wish: 'remove' });
    assert.equal((await find(story))?.state, 'removing');
    await report(story, [says({ done_wish: 1 })]);
    assert.equal((await find(story))?.state, 'removing');
    await wish(story);
    await report(story, [says({ state: 'removed', done_wish: 2 })]);
    assert.deepEqual(await wished(story), ['f1 fetch 3']);
    await report(story, [says({ done_wish: 3 })]);
    assert.equal((await find(story))?.state, 'ready');
  });

  inStory('what was removed is gone, and so is what a machine has no more', async (story) => {
    await wish(story);
    await wish(story, { id: 'f2' });
    await report(story, [says({ done_wish: 1 }), says({ id: 'f2', done_wish: 1 })]);
    await wish(story, { wish: 'remove' });
    await report(story, [
      says({ state: 'removed', done_wish: 2 }),
      says({ id: 'f2', done_wish: 1 }),
    ]);
    assert.equal(await find(story), undefined);
    await wish(story, { id: 'f3' });
    await report(story, []);
    assert.equal(await find(story, 'f2'), undefined);
    assert.equal((await find(story, 'f3'))?.state, 'queued', 'it is still to be fetched');
  });

  inStory('what a machine fetched by itself is its owner’s, and nobody else’s', async (story) => {
    await addTenant(story.store, 'other', 'other');
    const files = [says(), says({ id: 'f2', tenant_id: story.ids.tenant_id })];
    await report(story, [...files, says({ id: 'f3', tenant_id: 'other' })]);
    const all = await select<{ id: string }>(story.store, 'select id from model_files order by id');
    assert.deepEqual(
      all.map(({ id }) => id),
      ['f1', 'f2'],
    );
    await report(story, [says({ state: 'removed', id: 'f9' })]);
    assert.equal(await find(story, 'f9'), undefined);
    assert.deepEqual(await report(story, [says()], 'no machine'), { changed: 0 });
  });

  inStory('another tenant’s looks like none, to each wish', async (story) => {
    await wish(story);
    for (const what of ['check', 'remove'] as const) {
      const answer = await wish(story, { tenant_id: 'other', wish: what });
      assert.deepEqual(answer, { outcome: 'done', result: { ok: false, code: 'not_found' } });
    }
    assert.equal(
      await story.store.read(findModelFile, { tenant_id: 'other', id: 'f1' }),
      undefined,
    );
  });

  inStory('a model that a run is on is not removed, until the run has ended', async (story) => {
    await take(story, { do: 'launch', which: 0, clock_ms: 0 });
    await take(story, { do: 'place', which: 0, clock_ms: 1 });
    const { machine_id, tenant_id } = story.ids;
    const uses = await story.store.read(listModelUses, { tenant_id, machine_ids: [machine_id] });
    assert.equal(uses.length, 1);
    const model = uses[0]?.model ?? '';
    await wish(story, { source: model });
    const refused = await wish(story, { wish: 'remove' });
    assert.ok(refused.outcome === 'done' && !refused.result.ok);
    assert.equal(refused.result.code, 'model_in_use');
    const elsewhere = await story.store.read(listModelUses, { tenant_id, machine_ids: ['m9'] });
    assert.deepEqual(elsewhere, []);
    const foreign = { tenant_id: 'other', machine_ids: [machine_id] };
    assert.deepEqual(await story.store.read(listModelUses, foreign), []);
  });

  inStory('a repeat with the same key is one wish', async (story) => {
    const idempotency = { principal: 'u', key: 'k', request_hash: 'h' };
    await wish(story, { idempotency });
    await wish(story, { idempotency });
    assert.deepEqual(await wished(story), ['f1 fetch 1']);
  });

  inStory('a list goes on after a place, in one order', async (story) => {
    for (const id of ['b', 'a', 'c']) await wish(story, { id, source: `${source}?${id}` });
    const { tenant_id } = story.ids;
    const page = await story.store.read(listModelFiles, { tenant_id, after: null, limit: 2 });
    assert.deepEqual(
      page.map(({ id }) => id),
      ['a', 'b'],
    );
    const after = page.at(-1) ?? null;
    const rest = await story.store.read(listModelFiles, { tenant_id, after, limit: 2 });
    assert.deepEqual(
      rest.map(({ id }) => id),
      ['c'],
    );
  });
});
