/**
 * Proofs remembered between requests, and what makes them be looked up again: any write but the few
 * that cannot concern them, age, and rest.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addUser, ask, createRig } from '../../../test/lib/rig.ts';
import { guarded } from '../../../test/lib/rig-transactions.ts';
import { type PrincipalRow, principalOfSession, principalOfToken } from '../../store/accounts.ts';
import type { Sql } from '../../store/sql.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import { transactions } from '../../store/transactions.ts';
import { besideProofs, rememberProofs } from './proof-cache.ts';

const row: PrincipalRow = {
  ...{ user_id: 'u', user_name: 'ada', role: 'member', tenant_id: 't', tenant_slug: 'lab' },
  ...{ proof_id: 'p', proof_role: null, scopes: null, expires_at: 100, last_used_at: 50 },
};

/** A store that answers when it is told to. */
function heldStore(found: () => PrincipalRow | undefined) {
  const facts = { reads: 0 };
  const open: (() => void)[] = [];
  const held = <T>(value: () => T) => new Promise<T>((done) => open.push(() => done(value())));
  const inner = {
    transact: () => held(() => ({})),
    read: () => {
      facts.reads += 1;
      const now = found();
      return held(() => now);
    },
  } as unknown as EinsoraStore;
  const store = rememberProofs(inner);
  const answer = () => {
    for (const one of open.splice(0)) one();
  };
  const look = async (now = 1, hash = 'h') => {
    const seen = store.read(principalOfToken, { hash, now });
    answer();
    return seen;
  };
  const write = (name: string) => store.transact(name as 'revokeToken', {} as never);
  return { store, facts, answer, look, write };
}

test('a proof is looked up once, until it ends by age', async () => {
  const { facts, look } = heldStore(() => row);
  for (const now of [1, 2, 99]) assert.equal((await look(now))?.proof_id, 'p');
  assert.equal(facts.reads, 1);
  await look(100);
  assert.equal(facts.reads, 2, 'what is too old by what is remembered is asked of the store');
});

test('a session that rested too long is asked of the store', async () => {
  const { store, facts, answer } = heldStore(() => row);
  const look = async (idle_before: number) => {
    const seen = store.read(principalOfSession, { hash: 'h', now: 1, idle_before });
    answer();
    await seen;
  };
  await look(10);
  await look(49);
  assert.equal(facts.reads, 1);
  await look(50);
  assert.equal(facts.reads, 2);
});

test('a token is not taken for a session of the same text', async () => {
  const { store, facts, answer, look } = heldStore(() => row);
  await look();
  const other = store.read(principalOfSession, { hash: 'h', now: 1, idle_before: 0 });
  answer();
  await other;
  assert.equal(facts.reads, 2);
});

test('what is not found is not remembered', async () => {
  let found: PrincipalRow | undefined;
  const { look } = heldStore(() => found);
  assert.equal(await look(), undefined);
  found = row;
  assert.equal((await look())?.proof_id, 'p');
});

for (const name of ['revokeToken', 'setUserRole', 'disableUser', 'setTenantDisabled', 'whatever']) {
  test(`nothing is answered from memory while and after ${name} is written`, async () => {
    const { facts, answer, look, write } = heldStore(() => row);
    await look();
    const written = write(name);
    await look();
    assert.equal(facts.reads, 2, 'it may be on disk already');
    answer();
    await written;
    await look();
    await look();
    assert.equal(facts.reads, 3);
  });
}

test('what was read before a revocation is not remembered after it', async () => {
  let found: PrincipalRow | undefined = row;
  const { store, facts, answer, look, write } = heldStore(() => found);
  const early = store.read(principalOfToken, { hash: 'h', now: 1 });
  const revoked = write('revokeToken');
  found = undefined;
  answer();
  await Promise.all([early, revoked]);
  assert.equal(await look(), undefined);
  assert.equal(facts.reads, 2);
});

test('a launch forgets nothing', async () => {
  const { facts, answer, look, write } = heldStore(() => row);
  await look();
  const launched = write('launchWorkload');
  await look();
  answer();
  await launched;
  await look();
  assert.equal(facts.reads, 1);
});

test('over HTTP, a role that was taken away and a user that was disabled count at once', async () => {
  const rig = await createRig();
  try {
    const { tenant_id } = rig.ids;
    const who = { tenant_id, name: 'eve', role: 'tenant-admin' as const };
    const { token } = await addUser(rig.store, rig.random, who);
    const status = async (path: string) => (await ask(rig, 'GET', path, { token })).status;
    for (let count = 0; count < 3; count += 1) assert.equal(await status('/v1/users'), 200);
    await ask(rig, 'PUT', '/v1/users/eve/role', { body: { role: 'viewer' } });
    assert.equal(await status('/v1/users'), 403);
    assert.equal(await status('/v1/me'), 200);
    await ask(rig, 'POST', '/v1/users/eve/disable');
    assert.equal(await status('/v1/me'), 401);
  } finally {
    await rig.close();
  }
});

test('the transactions that a proof may outlive are there, and may write a last use at most', async () => {
  for (const name of besideProofs) assert.ok(name in transactions, name);
  const asked: string[] = [];
  const sql = { run: async (text: string) => asked.push(text) } as unknown as Sql;
  const writing = (text: string) => guarded((on: Sql) => on.run(text, []))(sql, {});
  await writing('update tokens set last_used_at = $2 where id = $1');
  await writing('select role from users where id = $1');
  assert.equal(asked.length, 2);
  for (const text of [
    "update users set role = 'viewer'",
    'delete from sessions',
    'update tokens set revoked_at = $1',
  ]) {
    await assert.rejects(async () => writing(text), /would not notice/, text);
  }
  assert.equal(asked.length, 2);
});
