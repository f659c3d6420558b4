/**
 * The catalog and regions in the store: revisions that every control plane sees, and what may not
 * go while something needs it, whoever comes at the same moment.
 */
import assert from 'node:assert/strict';
import { endpointSpec } from '../../test/lib/rig.ts';
import { type Story, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import type { Placement } from '../core/workload.ts';
import { catalogRevision, listCatalogEntries } from './catalog.ts';
import { listRegions } from './regions.ts';

const args = ({ clock }: Story, name: string) => ({
  ...{ sort: 'class' as const, name, actor: 'user:ada', now: clock.now() },
});
const revision = ({ store }: Story) => store.read(catalogRevision, {});

async function launch({ store, clock, ids }: Story, gpu_class: string): Promise<void> {
  await store.transact('launchWorkload', {
    ...{ id: 'w1', tenant_id: ids.tenant_id, creator_id: ids.user_id, name_is_free: true },
    ...{ spec: endpointSpec({ gpu_class }), actor: 'user:ada', request_id: 'r' },
    ...{ now: clock.now(), idempotency: null },
  });
}

onEveryStore('the catalog', (inStory) => {
  inStory('each change is another revision, and saying it again is none', async (story) => {
    const { store } = story;
    assert.equal(await revision(story), 0);
    await store.transact('setCatalogEntry', { ...args(story, 'tiny'), entry: '{"a":1}' });
    await store.transact('setCatalogEntry', { ...args(story, 'tiny'), entry: '{"a":1}' });
    assert.equal(await revision(story), 1);
    await store.transact('setCatalogEntry', { ...args(story, 'tiny'), entry: '{"a":2}' });
    await store.transact('dropCatalogEntry', { ...args(story, 'tiny'), gone: true });
    await store.transact('dropCatalogEntry', { ...args(story, 'tiny'), gone: true });
    assert.equal(await revision(story), 3);
    assert.deepEqual(await store.read(listCatalogEntries, {}), []);
  });

  inStory('a class goes only once nothing waits for it, retired or removed', async (story) => {
    const { store } = story;
    await launch(story, 'tiny');
    const retired = await store.transact('setCatalogEntry', {
      ...args(story, 'tiny'),
      entry: null,
    });
    const in_use = { ok: false, code: 'class_in_use', details: { class: 'tiny', count: 1 } };
    assert.deepEqual(retired, in_use);
    await store.transact('setCatalogEntry', { ...args(story, 'tiny'), entry: '{}' });
    const gone = { ...args(story, 'tiny'), gone: true };
    assert.deepEqual(await store.transact('dropCatalogEntry', gone), in_use);
    // As it came is as good as any other.
    const reset = await store.transact('dropCatalogEntry', { ...gone, gone: false });
    assert.deepEqual(reset, { ok: true });
  });
});

onEveryStore('the region of a machine', (inStory) => {
  inStory('a machine moves or takes a run, never both, however close', async (story) => {
    const { store, ids, clock } = story;
    await launch(story, 'cpu-1c-2g');
    const [row] = await workloadsOf(store);
    const placement: Placement = {
      ...{ machine_id: ids.machine_id, machine_name: 'desk', driver: 'sim', isolation: 'weak' },
      placed_class: 'cpu-1c-2g',
    };
    const cause = { now: clock.now(), actor: 'controller', request_id: null };
    const which = { workload_id: row?.id ?? '', revision: row?.revision ?? 0 };
    const [placed, moved] = await Promise.all([
      store.transact('placeWorkload', { ...cause, ...which, placement }),
      store.transact('setMachineRegion', {
        ...{ machine_id: ids.machine_id, region: 'attic', now: clock.now() },
      }),
    ]);
    const regions = await store.read(listRegions, { tenant_id: ids.tenant_id });
    if (placed.outcome === 'placed') {
      assert.deepEqual(moved, { outcome: 'in_use', runs: 1, homes: 0 });
      assert.deepEqual(regions, ['local']);
    } else {
      assert.deepEqual([placed.outcome, moved.outcome], ['not_allowed', 'moved']);
      assert.deepEqual(regions, ['attic']);
    }
  });
});
