/**
 * Proofs that ended somewhere else: found within five seconds, whoever ended them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addUser, createRig, storeKinds } from '../../../test/lib/rig.ts';
import { limits } from '../../contract/limits.ts';
import { recheck, startRecheck } from './recheck.ts';

for (const kind of storeKinds) {
  test(`what another control plane revoked is told here, on a store in ${kind}`, async () => {
    const rig = await createRig({ kind });
    const { store, clock, apiDeps, random, ids } = rig;
    const { revocations } = apiDeps;
    try {
      const { tenant_id } = ids;
      const heard: string[] = [];
      const names = ['goes on', 'revoked', 'expired', 'disabled'];
      const made = new Map<string, Awaited<ReturnType<typeof addUser>>>();
      for (const name of names) {
        const one = await addUser(store, random, { tenant_id, name, role: 'member' });
        made.set(name, one);
        const principal = { proof_id: one.token_id, user_id: one.user_id, tenant_id };
        revocations.watch({ ...principal, expires_at: null }, () => heard.push(name));
      }
      const session = { ...{ id: 's1', user_id: ids.user_id, user_name: 'ada', tenant_id } };
      const set = { user_id: ids.user_id, password: 'phc', kept_session: null, now: 1 };
      await store.transact('setPassword', set);
      await store.transact('signInByPassword', {
        ...{ ...session, password: 'phc', hash: 'h', client: '', signed_in_by: 'password' },
        ...{ now: clock.now(), expires_at: clock.now() + limits.session_ms, most: 5 },
      });
      const principal = { proof_id: 's1', user_id: ids.user_id, tenant_id, expires_at: null };
      revocations.watch(principal, () => heard.push('rested'));
      const pass = () => recheck(apiDeps);
      await pass();
      assert.deepEqual(heard, []);
      const write = (text: string, params: (string | number)[]) =>
        store.transact('write', { text, params });
      const of = (name: string) => made.get(name)?.token_id ?? '';
      await write('update tokens set revoked_at = 1 where id = $1', [of('revoked')]);
      await write('update tokens set expires_at = 1 where id = $1', [of('expired')]);
      const user_id = made.get('disabled')?.user_id ?? '';
      await write('update users set disabled_at = 1 where id = $1', [user_id]);
      await pass();
      assert.deepEqual(heard.sort(), ['disabled', 'expired', 'revoked']);
      clock.stepWall(limits.session_idle_ms);
      await pass();
      assert.equal(heard.at(-1), 'rested');
      assert.equal(revocations.watching(), 1);
    } finally {
      await rig.close();
    }
  });
}

test('it looks every few seconds, only where something is held, until it is stopped', async () => {
  const rig = await createRig();
  const { apiDeps, clock, ids, log } = rig;
  const { revocations } = apiDeps;
  let reads = 0;
  const read: typeof apiDeps.store.read = (query, args) => {
    reads += 1;
    return apiDeps.store.read(query, args);
  };
  const looking = startRecheck({ ...apiDeps, store: { ...apiDeps.store, read }, log });
  try {
    await clock.advance(20_000);
    assert.equal(reads, 0);
    let ended = false;
    const nobody = { proof_id: 'gone', ...ids, expires_at: null };
    revocations.watch(nobody, () => {
      ended = true;
    });
    await clock.advance(5000);
    assert.deepEqual([ended, reads], [true, 1]);
  } finally {
    await looking.stop();
    await rig.close();
  }
  assert.equal(clock.waiting(), 0);
});
