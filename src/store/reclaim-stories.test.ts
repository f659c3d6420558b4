/**
 * Machines taken back and let go in stories of chance, with launches, stops, starts, deletions,
 * placements, reports, quotas and a wall clock that steps: what must hold of any store holds after
 * every step.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { openTestStore, type StoreKind, select, storeKinds } from '../../test/lib/rig.ts';
import { anyStory, beginStory, checkAll, take, workloadsOf } from '../../test/lib/store-model.ts';

const runs: Record<StoreKind, number> = { memory: 60, file: 3, postgres: 4 };
const seed = 20_261_130;

for (const kind of storeKinds) {
  describe(`reclaim on a store in ${kind}`, () => {
    test('in any order with anything else, nothing is lost and nobody is left behind', async () => {
      await fc.assert(
        fc.asyncProperty(anyStory, async (steps) => {
          const { store, close } = await openTestStore(kind);
          try {
            const story = await beginStory(store);
            const ages = new Map<string, number>();
            for (const step of steps) {
              await take(story, step);
              await checkAll(story);
              for (const { id, created_at } of await workloadsOf(store)) {
                assert.equal(created_at, ages.get(id) ?? created_at, 'its age stays');
                ages.set(id, created_at);
              }
            }
            const barred = "select id from machines where reclaim = '' and reclaim_bars <> ''";
            assert.deepEqual(await select(store, barred), []);
          } finally {
            await close();
          }
        }),
        { seed, numRuns: runs[kind] },
      );
    });
  });
}
