/**
 * A disk that is full under each transaction of a story: it is refused as such, nothing of it
 * stays, and the same call succeeds once there is room.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { dumpOf, type RigStore } from '../../test/lib/rig.ts';
import { transactions } from '../../test/lib/rig-transactions.ts';
import { beginStory, checkAll, type Step, take } from '../../test/lib/store-model.ts';
import { StoreError } from './sql.ts';
import { openSqliteStore } from './sqlite.ts';

const transactions_url = new URL('../../test/lib/rig-transactions.ts', import.meta.url).href;
/** Pages of 4 KiB: the schema, a story, and some that ballast takes. */
const page_limit = 500;

/** Each event needs pages of its own. */
const long_actor = `user:${'a'.repeat(9000)}`;

const step = (what: 'launch' | 'stop' | 'start' | 'delete' | 'place', which = 0): Step => ({
  do: what,
  which,
  clock_ms: 1,
});
const says = (state: 'ready' | 'ended' | 'parked' | 'removed', which: number): Step => ({
  do: 'report',
  which,
  says: state,
  oom: false,
  clock_ms: 1,
});
const story: Step[] = [
  ...[step('launch'), step('launch'), step('place', 0), step('place', 1), says('ready', 0)],
  ...[says('ready', 1), step('stop', 0), says('parked', 0), step('start', 0), step('place', 0)],
  ...[says('ended', 1), step('delete', 1), says('removed', 1), step('delete', 0)],
];

test('on a full disk nothing of a transaction stays, and it succeeds once there is room', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-full-'));
  const store = await openSqliteStore({ folder, transactions_url, transactions, page_limit });
  const refused: string[] = [];
  try {
    const told = await beginStory(fullFirst(store, refused));
    for (const one of story) {
      await take(told, one);
      await checkAll({ ...told, store });
    }
    assert.ok(new Set(refused).size >= 4, `refused: ${refused.join(', ')}`);
    assert.ok(refused.length >= story.length / 2, `${refused.length} of ${story.length}`);
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Each transaction meets a full disk first. Some find room in pages that are not full. */
function fullFirst(store: RigStore, refused: string[]): RigStore {
  const transact = store.transact as (name: string, args: unknown) => Promise<never>;
  return {
    ...store,
    async transact(name: string, given: object) {
      const args = 'actor' in given ? { ...given, actor: long_actor } : given;
      await fill(store);
      const before = await dumpOf(store);
      try {
        return await transact(name, args);
      } catch (error) {
        assert.ok(error instanceof StoreError && error.code === 'store_full', String(error));
        refused.push(name);
        assert.deepEqual(await dumpOf(store), before, `${name} left something`);
      } finally {
        await makeRoom(store);
      }
      return transact(name, args);
    },
  } as RigStore;
}

/** Ballast of falling size, until not even the smallest row fits. */
async function fill(store: RigStore): Promise<void> {
  let number = 0;
  for (const size of [200_000, 20_000, 3000, 300, 10]) {
    for (;;) {
      number += 1;
      const text = 'insert into meta (key, value) values ($1, $2)';
      const params = [`ballast-${size}-${number}`, 'x'.repeat(size)];
      const full = await store.transact('write', { text, params }).then(
        () => false,
        (error) => error.code === 'store_full',
      );
      if (full) break;
    }
  }
}

async function makeRoom(store: RigStore): Promise<void> {
  const text = "delete from meta where substr(key, 1, 8) = 'ballast-'";
  await store.transact('write', { text, params: [] });
}
