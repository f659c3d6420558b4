/**
 * Users, invitations and passwords on each store: crowds that want the same thing at once.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import {
  addTenant,
  addUser,
  openTestStore,
  type RigStore,
  seed,
  select,
  storeKinds,
} from '../../test/lib/rig.ts';
import { seededRandom } from '../lib/random.ts';
import { principalOfSession } from './accounts.ts';
import { findRedeemable } from './invitations.ts';
import { findCredentials } from './passwords.ts';
import { findTenant } from './tenants.ts';
import { findUser, listUsers } from './users.ts';

type Ids = Awaited<ReturnType<typeof seed>>;
const all = { tenant_id: null };

for (const kind of storeKinds) {
  describe(`users on a store in ${kind}`, () => {
    const given = (name: string, body: (store: RigStore, ids: Ids) => Promise<void>) =>
      test(name, async () => {
        const { store, close } = await openTestStore(kind);
        try {
          await body(store, await seed(store, createFakeClock(), seededRandom(1)));
        } finally {
          await close();
        }
      });

    given('of sixty-four redemptions of one invitation, one makes a user', async (store, ids) => {
      await invite(store, ids);
      const tries = Array.from({ length: 64 }, (_, index) => redeem(store, `user${index}`));
      const results = await Promise.all(tries);
      assert.equal(results.filter(({ ok }) => ok).length, 1);
      for (const result of results) {
        assert.ok(result.ok || result.code === 'invitation_spent', JSON.stringify(result));
      }
      assert.equal((await select(store, 'select id from users')).length, 2);
      const [used] = await select(store, 'select used_by, used_at from invitations');
      assert.ok(used?.used_by !== null && used?.used_at === 10);
    });

    given(
      'one name that many want at once is one user, and the rest can go on',
      async (store, ids) => {
        for (let index = 0; index < 8; index += 1) await invite(store, ids, `i${index}`);
        const tries = Array.from({ length: 8 }, (_, index) => redeem(store, 'grace', `i${index}`));
        const results = await Promise.all(tries);
        const taken = results.filter((one) => !one.ok && one.code === 'user_name_taken');
        assert.deepEqual([results.filter(({ ok }) => ok).length, taken.length], [1, 7]);
        const open = await select(store, 'select id from invitations where used_at is null');
        assert.equal(open.length, 7);
      },
    );

    given('operators who disable and demote each other leave one', async (store, ids) => {
      const random = seededRandom(2);
      const { tenant_id } = ids;
      for (const name of ['bob', 'cleo', 'dan']) {
        await addUser(store, random, { tenant_id, name, role: 'operator' });
      }
      const change = { ...all, most: 'operator' as const, now: 5 };
      const results = await Promise.all(
        ['ada', 'bob', 'cleo', 'dan'].flatMap((user) => [
          store.transact('disableUser', { ...change, user }),
          store.transact('setUserRole', { ...change, user, role: 'viewer' }),
        ]),
      );
      const left = await select(
        store,
        "select name from users where role = 'operator' and disabled_at is null",
      );
      assert.equal(left.length, 1);
      assert.ok(results.some((one) => !one.ok && one.code === 'last_operator'));
    });

    given('operators of two tenants that are closed at once leave one open', async (store, ids) => {
      await addTenant(store, 'lab', 'lab-tenant');
      const eve = { tenant_id: 'lab-tenant', name: 'eve', role: 'operator' as const };
      await addUser(store, seededRandom(3), eve);
      const close = (tenant: string) =>
        store.transact('setTenantDisabled', { tenant, disabled: 1, now: 5 });
      const results = await Promise.all([close(ids.tenant_id), close('lab')]);
      assert.equal(results.filter(({ ok }) => ok).length, 1);
    });

    given('a disabled tenant has no credentials, invitations or sessions', async (store, ids) => {
      await addTenant(store, 'lab', 'lab-tenant');
      const { user_id } = await addUser(store, seededRandom(3), {
        tenant_id: 'lab-tenant',
        name: 'eve',
        role: 'member',
      });
      await store.transact('setPassword', { user_id, password: 'phc', kept_session: null, now: 1 });
      await signIn(store, { user_id, user_name: 'eve', tenant_id: 'lab-tenant' }, 's1');
      await invite(store, { ...ids, tenant_id: 'lab-tenant' });
      const seen = async () => [
        await store.read(findCredentials, { name: 'eve' }),
        await store.read(findRedeemable, { hash: 'link', now: 5 }),
        await store.read(principalOfSession, { hash: 'hash-s1', now: 5, idle_before: 0 }),
      ];
      assert.equal((await seen()).includes(undefined), false);
      await store.transact('setTenantDisabled', { tenant: 'lab', disabled: 1, now: 5 });
      assert.deepEqual(await seen(), [undefined, undefined, undefined]);
      const row = await store.read(findTenant, { tenant: 'lab' });
      assert.deepEqual([row?.users, row?.disabled_at], [1, 5]);
    });

    given('of sixty-four resets by one link, one sets its password', async (store, ids) => {
      const change = { ...all, most: 'operator' as const, now: 5 };
      const maker_id = ids.user_id;
      const link = { ...change, user: 'ada', maker_id, hash: 'reset', expires_at: 100 };
      await store.transact('addResetLink', link);
      const results = await Promise.all(
        Array.from({ length: 64 }, (_, index) =>
          store.transact('resetPassword', { hash: 'reset', password: `phc${index}`, now: 10 }),
        ),
      );
      assert.deepEqual(
        results.filter((one) => one !== null),
        [{ user_id: ids.user_id }],
      );
      const set = results.findIndex((one) => one !== null);
      const row = await store.read(findCredentials, { name: 'ada' });
      assert.equal(row?.password, `phc${set}`);
    });

    given(
      'who was proven by a password that is changed meanwhile is not let in',
      async (store, ids) => {
        const { user_id, tenant_id } = ids;
        const set = (password: string) =>
          store.transact('setPassword', { user_id, password, kept_session: null, now: 1 });
        await set('phc');
        const person = { user_id, tenant_id, user_name: 'ada' };
        assert.deepEqual(await signIn(store, person, 's1'), { ok: 1 });
        await set('another phc');
        assert.deepEqual(await signIn(store, person, 's2'), { ok: 0 });
        const gone = { hash: 'hash-s1', now: 5, idle_before: 0 };
        assert.equal(await store.read(principalOfSession, gone), undefined, 'and is out');
      },
    );

    given('a password hashed anew does not undo one that was changed', async (store, ids) => {
      const { user_id } = ids;
      await store.transact('setPassword', { user_id, password: 'new', kept_session: null, now: 1 });
      await store.transact('rehashPassword', { user_id, from: 'old', to: 'old, stronger' });
      assert.equal((await store.read(findCredentials, { name: 'ada' }))?.password, 'new');
      await store.transact('rehashPassword', { user_id, from: 'new', to: 'new, stronger' });
      assert.equal((await store.read(findCredentials, { name: 'ada' }))?.password, 'new, stronger');
    });

    given(
      'a user is found by id and name within a tenant, and listed newest first',
      async (store, ids) => {
        await addTenant(store, 'lab', 'lab-tenant');
        const { tenant_id } = ids;
        assert.equal((await store.read(findUser, { user: 'ada', tenant_id }))?.id, ids.user_id);
        const outside = { user: ids.user_id, tenant_id: 'lab-tenant' };
        assert.equal(await store.read(findUser, outside), undefined);
        const listed = await store.read(listUsers, { ...all, before: null, limit: 5 });
        assert.deepEqual(
          listed.map(({ name }) => name),
          ['ada'],
        );
        const none = await store.read(listUsers, { ...all, before: ids.user_id, limit: 5 });
        assert.deepEqual(none, []);
      },
    );
  });
}

function invite(store: RigStore, ids: Ids, hash = 'link') {
  return store.transact('createInvitation', {
    ...{ id: `id-${hash}`, tenant_id: ids.tenant_id, inviter_id: ids.user_id, role: 'member' },
    ...{ hash, now: 1, expires_at: 100, most: 50, idempotency: null },
  });
}

function redeem(store: RigStore, name: string, hash = 'link') {
  const user_id = `id-${name}-${hash}`;
  return store.transact('redeemInvitation', { hash, user_id, name, password: 'phc', now: 10 });
}

type Person = { user_id: string; user_name: string; tenant_id: string };

function signIn(store: RigStore, person: Person, id: string) {
  return store.transact('signInByPassword', {
    ...{ ...person, password: 'phc', id, hash: `hash-${id}`, client: 'a test' },
    ...{ signed_in_by: 'password', now: 2, expires_at: 100, most: 50 },
  });
}
