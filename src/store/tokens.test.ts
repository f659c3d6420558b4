/**
 * Tokens, sessions, tenants and invitations on each store: made, listed in pages, ended once.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { openTestStore, type RigStore, seed, storeKinds } from '../../test/lib/rig.ts';
import { seededRandom } from '../lib/random.ts';
import { principalOfToken } from './accounts.ts';
import { listInvitations } from './invitations.ts';
import { findSession, listSessions } from './sessions.ts';
import { listTenants } from './tenants.ts';
import { findToken, listTokens } from './tokens.ts';

type Ids = Awaited<ReturnType<typeof seed>>;
const idempotency = null;

for (const kind of storeKinds) {
  describe(`tokens and sessions on a store in ${kind}`, () => {
    const given = (name: string, body: (store: RigStore, ids: Ids) => Promise<void>) =>
      test(name, async () => {
        const { store, close } = await openTestStore(kind);
        try {
          await body(store, await seed(store, createFakeClock(), seededRandom(1)));
        } finally {
          await close();
        }
      });

    given('tokens are listed newest first, in pages, and revoked once', async (store, ids) => {
      for (const id of ['a', 'b', 'c']) await makeToken(store, ids.user_id, id);
      const page = (before: string | null) =>
        store.read(listTokens, { user_id: ids.user_id, before, limit: 2 });
      assert.deepEqual(
        (await page(null)).map(({ id }) => id),
        ['c', 'b'],
      );
      assert.deepEqual(
        (await page('b')).map(({ id }) => id),
        ['a'],
      );
      const row = await store.read(findToken, { id: 'b' });
      assert.deepEqual([row?.user_name, row?.role, row?.scopes], ['ada', 'member', 'usage:read']);
      const revoke = (user_id: string) =>
        store.transact('revokeToken', { id: 'b', user_id, now: 5 });
      assert.deepEqual(await revoke('somebody else'), { found: 0 });
      assert.deepEqual(
        [await revoke(ids.user_id), await revoke(ids.user_id)],
        [{ found: 1 }, { found: 1 }],
      );
      assert.equal(await store.read(principalOfToken, { hash: 'hash-b', now: 6 }), undefined);
      assert.equal((await store.read(findToken, { id: 'b' }))?.revoked_at, 5);
    });

    given('of many tokens at once, as many are made as there may be', async (store, ids) => {
      const made = await Promise.all(
        Array.from({ length: 16 }, (_, index) => makeToken(store, ids.user_id, `t${index}`, 5)),
      );
      const refused = made.filter((one) => one.outcome === 'done' && !one.result.ok);
      assert.equal(refused.length, 11);
    });

    given('that a token was used never counts backwards', async (store, ids) => {
      await makeToken(store, ids.user_id, 'a');
      for (const now of [10, 30, 20]) await store.transact('touchToken', { id: 'a', now });
      assert.equal((await store.read(findToken, { id: 'a' }))?.last_used_at, 30);
    });

    given('sessions that work are listed, and all but one ended', async (store, ids) => {
      const { user_id, tenant_id } = ids;
      const set = { user_id, password: 'phc', kept_session: null, now: 1 };
      await store.transact('setPassword', set);
      for (const [index, id] of ['a', 'b', 'c', 'd'].entries()) {
        await store.transact('signInByPassword', {
          ...{ id, user_id, tenant_id, user_name: 'ada', password: 'phc', hash: `hash-${id}` },
          ...{
            client: 'a test',
            signed_in_by: 'password',
            now: 2 + index,
            expires_at: 50,
            most: 3,
          },
        });
      }
      const list = async (now = 10, idle_before = 0) => {
        const args = { user_id, now, idle_before, before: null, limit: 9 };
        return (await store.read(listSessions, args)).map(({ id }) => id);
      };
      assert.deepEqual(await list(), ['d', 'c', 'b'], 'the oldest made room');
      assert.deepEqual(await list(50), [], 'too old');
      assert.deepEqual(await list(10, 4), ['d'], 'not used for long');
      const ended = await store.transact('revokeSessions', { user_id, kept: 'c', now: 10 });
      assert.deepEqual(ended.ids.sort(), ['b', 'd']);
      const again = await store.transact('revokeSessions', { user_id, kept: 'c', now: 11 });
      assert.deepEqual(again.ids, []);
      const one = { id: 'c', user_id, now: 12 };
      assert.deepEqual(await store.transact('revokeSession', one), { found: 1 });
      assert.deepEqual(await list(), []);
      assert.equal((await store.read(findSession, { id: 'c' }))?.user_name, 'ada');
    });

    given('a tenant is made once for a slug, however many want it', async (store) => {
      const made = await Promise.all(
        Array.from({ length: 16 }, (_, index) =>
          store.transact('createTenant', {
            ...{ id: `tenant-${index}`, slug: 'lab', name: 'Lab', now: 1, idempotency },
          }),
        ),
      );
      assert.equal(made.filter((one) => one.outcome === 'done' && one.result.ok).length, 1);
      const listed = await store.read(listTenants, { before: null, limit: 9 });
      assert.deepEqual(listed.map(({ slug, users }) => [slug, users]).sort(), [
        ['lab', 0],
        ['local', 1],
      ]);
    });

    given(
      'invitations are listed by tenant and page, and open ones are bounded',
      async (store, ids) => {
        const invite = (id: string, most = 9) =>
          store.transact('createInvitation', {
            ...{ id, tenant_id: ids.tenant_id, inviter_id: ids.user_id, role: 'member', most },
            ...{ hash: `hash-${id}`, now: 1, expires_at: 50, idempotency },
          });
        for (const id of ['a', 'b', 'c']) await invite(id);
        const list = async (tenant_id: string | null, before: string | null = null) =>
          (await store.read(listInvitations, { tenant_id, before, limit: 2 })).map(({ id }) => id);
        assert.deepEqual(await list(null), ['c', 'b']);
        assert.deepEqual(await list(ids.tenant_id, 'b'), ['a']);
        assert.deepEqual(await list('another'), []);
        const over = await invite('d', 3);
        assert.ok(over.outcome === 'done' && !over.result.ok);
        const within = { tenant_id: 'another', id: 'a', now: 2 };
        assert.deepEqual(await store.transact('revokeInvitation', within), { found: 0 });
        const own = { ...within, tenant_id: null };
        assert.deepEqual(await store.transact('revokeInvitation', own), { found: 1 });
        assert.ok((await invite('d', 3)).outcome === 'done');
      },
    );
  });
}

function makeToken(store: RigStore, user_id: string, id: string, most = 50) {
  return store.transact('createToken', {
    ...{ id, user_id, name: 'a test', role: 'member', scopes: 'usage:read', hash: `hash-${id}` },
    ...{ last_four: 'abcd', now: 1, expires_at: 100, most, idempotency },
  });
}
