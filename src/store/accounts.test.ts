/**
 * Accounts: proofs that work until they are used, revoked or too old, and never longer.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { openTestStore, type RigStore, seed, select, storeKinds } from '../../test/lib/rig.ts';
import { seededRandom } from '../lib/random.ts';
import { principalOfSession, principalOfToken, readIdentity, userNames } from './accounts.ts';

type Ids = Awaited<ReturnType<typeof seed>>;

for (const kind of storeKinds) {
  describe(`accounts on a store in ${kind}`, () => {
    const given = (name: string, body: (store: RigStore, ids: Ids) => Promise<void>) =>
      test(name, async () => {
        const { store, close } = await openTestStore(kind);
        try {
          await body(store, await seed(store, createFakeClock(), seededRandom(1)));
        } finally {
          await close();
        }
      });

    given('a deployment is set up once, whatever comes later', async (store, ids) => {
      const before = await store.read(readIdentity, {});
      const again = { tenant_id: 't', user_id: 'u', user_name: 'eve', store_uuid: 's', now: 9 };
      assert.deepEqual(await store.transact('setUp', again), { first: 0 });
      assert.deepEqual(await store.read(readIdentity, {}), before);
      assert.deepEqual([before.user_id, before.store_epoch], [ids.user_id, 1]);
    });

    given('of sixty-four uses of one link at once, one gives a session', async (store, ids) => {
      await addLink(store, ids.user_id);
      const tries = Array.from({ length: 64 }, (_, index) => open(store, `s${index}`));
      const opened = (await Promise.all(tries)).filter((one) => one !== null);
      assert.deepEqual(opened, [{ user_id: ids.user_id }]);
      const rows = await select(store, 'select id from sessions');
      assert.equal(rows.length, 1);
    });

    given('a link works until its time, and never after', async (store, ids) => {
      await addLink(store, ids.user_id);
      assert.equal(await open(store, 'late', 2000), null);
      assert.equal(await open(store, 'wrong', 1500, 'another-hash'), null);
      assert.notEqual(await open(store, 'in-time', 1999), null);
    });

    given('a session ends by its age, by rest, and by being closed', async (store, ids) => {
      await addLink(store, ids.user_id);
      await open(store, 'one');
      const find = (now: number, idle_before = 0) =>
        store.read(principalOfSession, { hash: 'hash-one', now, idle_before });
      assert.equal((await find(1500))?.user_id, ids.user_id);
      assert.equal(await find(9000), undefined, 'too old');
      assert.equal(await find(1500, 1500), undefined, 'not used for long');
      await store.transact('touchSession', { id: 'one', now: 1600 });
      await store.transact('touchSession', { id: 'one', now: 1400 });
      assert.equal((await find(1700, 1500))?.last_used_at, 1600, 'a use never counts backwards');
      await store.transact('closeSession', { id: 'one', now: 1700 });
      assert.equal(await find(1800), undefined, 'closed');
    });

    given('a new owner token takes the place of the one before', async (store, ids) => {
      const give = (id: string) =>
        store.transact('replaceOwnerToken', {
          id,
          user_id: ids.user_id,
          name: 'local owner',
          hash: `hash-${id}`,
          last_four: 'abcd',
          now: 5,
        });
      const find = (id: string) => store.read(principalOfToken, { hash: `hash-${id}`, now: 6 });
      await give('a');
      assert.equal((await find('a'))?.role, 'operator');
      await give('b');
      assert.equal(await find('a'), undefined);
      assert.equal((await find('b'))?.user_name, 'ada');
    });

    given('what a disabled user was given opens nothing', async (store, ids) => {
      await addLink(store, ids.user_id);
      await open(store, 'one');
      const text = 'update users set disabled_at = 3 where id = $1';
      await store.transact('write', { text, params: [ids.user_id] });
      const asked = { hash: 'hash-one', now: 1500, idle_before: 0 };
      assert.equal(await store.read(principalOfSession, asked), undefined);
    });

    given('names are read for the ids that are there', async (store, ids) => {
      assert.deepEqual(await store.read(userNames, { ids: [] }), []);
      const rows = await store.read(userNames, { ids: [ids.user_id, 'nobody'] });
      assert.deepEqual(
        rows.map(({ name }) => name),
        ['ada'],
      );
    });
  });
}

function addLink(store: RigStore, user_id: string): Promise<null> {
  return store.transact('addSignInLink', { hash: 'link', user_id, now: 1000, expires_at: 2000 });
}

function open(store: RigStore, session_id: string, now = 1000, link_hash = 'link') {
  const session_hash = `hash-${session_id}`;
  const args = { link_hash, session_id, session_hash, now, expires_at: 9000 };
  return store.transact('openSession', args);
}
