/**
 * The same tests on every store: in memory, in a file, on Postgres.
 *
 * Invariants: each test has an empty store of its own, closed after it; what must hold of any store
 * is checked at its end; where the machine has no Postgres its tests are skipped by name.
 */
import { describe, test } from 'node:test';
import { needs } from './parts.ts';
import { openTestStore, type StoreKind, storeKinds } from './rig.ts';
import { beginStory, checkAll, type Story } from './store-model.ts';

type StoryTest = (name: string, body: (story: Story) => Promise<void>) => void;

/** Calls `body` for each kind of store, inside of a suite of that name. */
export function onEveryStore(
  what: string,
  body: (inStory: StoryTest, kind: StoreKind) => void,
): void {
  const missing: StoreKind[] = storeKinds.length === 2 ? ['postgres'] : [];
  for (const kind of [...storeKinds, ...missing]) {
    const options = kind === 'postgres' ? needs('postgres') : {};
    describe(`${what} on a store in ${kind}`, options, () => {
      const inStory: StoryTest = (name, act) =>
        void test(name, async () => {
          const { store, close } = await openTestStore(kind);
          try {
            const story = await beginStory(store);
            await act(story);
            await checkAll(story);
          } finally {
            await close();
          }
        });
      body(inStory, kind);
    });
  }
}
