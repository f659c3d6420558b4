/**
 * Sealed secrets: what opens them, what does not, and the deployment's key over its life.
 */
import assert from 'node:assert/strict';
import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  everyValue,
  type Rig,
  select,
  storeKinds,
} from '../../test/lib/rig.ts';
import { Secret } from '../lib/secret.ts';
import { openSecrets, type Secrets } from './secrets.ts';

const value = 'hf_canaryOfTheSecretsTest';
const key_file = 'deployment-key';

type Given = { rig: Rig; data_dir: string; secrets: Secrets; reopen(): Promise<Secrets> };

async function given(kind: Parameters<typeof createRig>[0], body: (given: Given) => Promise<void>) {
  const rig = await createRig(kind);
  const { data_dir } = rig.apiDeps;
  const { store, clock, random } = rig.apiDeps;
  const reopen = () => openSecrets({ store, clock, random, data_dir });
  try {
    await body({ rig, data_dir, secrets: rig.apiDeps.secrets, reopen });
  } finally {
    await rig.close();
  }
}

const set = ({ rig, secrets }: Given, name = 'hf-token', text = value) =>
  secrets.set({ ...rig.ids, name, value: new Secret(text) });

for (const kind of storeKinds) {
  describe(`secrets on a store in ${kind}`, () => {
    test('a secret comes back for its tenant and name alone, and is nowhere in plain text', () =>
      given({ kind }, async (all) => {
        const { rig, secrets } = all;
        await set(all);
        const { tenant_id } = rig.ids;
        assert.equal((await secrets.reveal(tenant_id, 'hf-token'))?.reveal(), value);
        assert.equal(await secrets.reveal(tenant_id, 'other'), null);
        assert.equal(await secrets.reveal('another-tenant', 'hf-token'), null);
        const stored = (await everyValue(rig.store)).join('\n');
        assert.equal(stored.includes(value), false);
        assert.equal(stored.includes(Buffer.from(value).toString('base64')), false);
        assert.doesNotMatch(inspect(await secrets.reveal(tenant_id, 'hf-token')), /canary/);
      }));

    test('setting it again replaces it, with another nonce each time', () =>
      given({ kind }, async (all) => {
        const { rig, secrets } = all;
        const nonces = new Set<unknown>();
        for (const text of ['one', 'one', 'two']) {
          await set(all, 'hf-token', text);
          for (const row of await select(rig.store, 'select nonce from secrets')) {
            nonces.add(row.nonce);
          }
        }
        assert.equal(nonces.size, 3);
        assert.equal((await secrets.reveal(rig.ids.tenant_id, 'hf-token'))?.reveal(), 'two');
      }));

    test('a row that was changed, or put in the place of another, does not open', () =>
      given({ kind }, async (all) => {
        const { rig, secrets } = all;
        await set(all, 'a', 'of a');
        await set(all, 'b', 'of b');
        const { tenant_id } = rig.ids;
        const swap = `update secrets set sealed = (select sealed from secrets where name = 'b'),
          nonce = (select nonce from secrets where name = 'b') where name = 'a'`;
        await rig.store.transact('write', { text: swap, params: [] });
        await assert.rejects(secrets.reveal(tenant_id, 'a'), { code: 'secret_unreadable' });
        assert.equal((await secrets.reveal(tenant_id, 'b'))?.reveal(), 'of b');
        const cut = "update secrets set sealed = 'AAAA' where name = 'b'";
        await rig.store.transact('write', { text: cut, params: [] });
        await assert.rejects(secrets.reveal(tenant_id, 'b'), { code: 'secret_unreadable' });
      }));
  });
}

test('the key is made once, for its owner alone, and a restart opens what it sealed', () =>
  given({}, async (all) => {
    const { rig, data_dir, reopen } = all;
    await set(all);
    const path = join(data_dir, key_file);
    const text = readFileSync(path, 'utf8');
    assert.match(text, /^[0-9a-f]{64}\n$/);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    const again = await reopen();
    assert.equal((await again.reveal(rig.ids.tenant_id, 'hf-token'))?.reveal(), value);
    assert.equal(readFileSync(path, 'utf8'), text);
    assert.equal((await everyValue(rig.store)).join().includes(text.trim()), false);
  }));

test('without its key, or with another, a deployment does not start', () =>
  given({}, async ({ data_dir, reopen }) => {
    const path = join(data_dir, key_file);
    const text = readFileSync(path, 'utf8');
    rmSync(path);
    await assert.rejects(reopen(), { code: 'deployment_key_missing' });
    writeFileSync(path, `${'ab'.repeat(32)}\n`, { mode: 0o600 });
    await assert.rejects(reopen(), { code: 'deployment_key_wrong' });
    writeFileSync(path, 'nothing of the kind', { mode: 0o600 });
    await assert.rejects(reopen(), { code: 'deployment_key_wrong' });
    writeFileSync(path, text);
    chmodSync(path, 0o640);
    await assert.rejects(reopen(), { code: 'deployment_key_exposed' });
    chmodSync(path, 0o600);
    await reopen();
  }));

test('where the key is lost, one may say so: the secrets are gone, and a new key seals', () =>
  given({}, async (all) => {
    const { rig, data_dir, reopen } = all;
    await set(all);
    const path = join(data_dir, key_file);
    const { store, clock, random } = rig.apiDeps;
    const renewed = () => openSecrets({ store, clock, random, data_dir, renew: true });
    const text = readFileSync(path, 'utf8');
    const kept = await renewed();
    assert.equal((await kept.reveal(rig.ids.tenant_id, 'hf-token'))?.reveal(), value);
    assert.equal(readFileSync(path, 'utf8'), text, 'what is there is kept');
    for (const lose of [() => rmSync(path), () => writeFileSync(path, `${'ab'.repeat(32)}\n`)]) {
      lose();
      const secrets = await renewed();
      assert.equal(await secrets.reveal(rig.ids.tenant_id, 'hf-token'), null);
      assert.equal(readFileSync(path, 'utf8').includes('abab'), false);
      await secrets.set({ ...rig.ids, name: 'hf-token', value: new Secret('anew') });
      const again = await reopen();
      assert.equal((await again.reveal(rig.ids.tenant_id, 'hf-token'))?.reveal(), 'anew');
    }
  }));

test('a new key before the old one seals everything again, and the old one may go', () =>
  given({}, async (all) => {
    const { rig, data_dir, reopen } = all;
    for (let number = 0; number < 3; number += 1) await set(all, `s${number}`, `value ${number}`);
    const path = join(data_dir, key_file);
    const fresh = 'cd'.repeat(32);
    writeFileSync(path, `${fresh}\n${readFileSync(path, 'utf8')}`);
    await reopen();
    writeFileSync(path, `${fresh}\n`);
    const after = await reopen();
    assert.equal((await after.reveal(rig.ids.tenant_id, 's2'))?.reveal(), 'value 2');
    const keys = await select(rig.store, 'select distinct key_id from secrets');
    assert.equal(keys.length, 1);
  }));

test('a start that died between key file and record goes on with that file', () =>
  given({}, async ({ rig, data_dir, reopen }) => {
    const text = readFileSync(join(data_dir, key_file), 'utf8');
    const forget = "delete from meta where key = 'deployment_key'";
    await rig.store.transact('write', { text: forget, params: [] });
    await reopen();
    assert.equal(readFileSync(join(data_dir, key_file), 'utf8'), text);
  }));

test('over HTTP a tenant admin sets and removes, a member reads names, nobody reads a value', () =>
  given({}, async ({ rig }) => {
    const { tenant_id } = rig.ids;
    const member = await addUser(rig.store, rig.random, { tenant_id, name: 'm', role: 'member' });
    const path = '/v1/secrets/hf-token';
    const refused = await ask(rig, 'PUT', path, { token: member.token, body: { value } });
    assert.equal(refused.status, 403);
    const done = await ask(rig, 'PUT', path, { body: { value } });
    assert.equal(done.status, 200);
    assert.equal(done.text.includes(value), false);
    const list = await ask(rig, 'GET', '/v1/secrets', { token: member.token });
    assert.deepEqual(
      list.body.items?.map(({ name, updated_by }) => [name, updated_by]),
      [['hf-token', 'op']],
    );
    assert.equal(list.text.includes(value), false);
    assert.equal((await ask(rig, 'DELETE', path)).status, 204);
    assert.equal((await ask(rig, 'DELETE', path)).body.error?.code, 'not_found');
    for (const name of ['UPPER', '-a', 'a_b', 'a'.repeat(64)]) {
      const wrong = await ask(rig, 'PUT', `/v1/secrets/${name}`, { body: { value } });
      assert.equal(wrong.body.error?.code, 'bad_request', name);
      assert.equal(wrong.text.includes(value), false);
    }
    const rows = await select(rig.store, 'select route, target from activity order by route desc');
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      [
        { route: 'setSecret', target: 'secret:hf-token' },
        { route: 'removeSecret', target: 'secret:hf-token' },
      ],
    );
  }));

test('another tenant has other secrets under the same name, and a tenant has only so many', () =>
  given({}, async ({ rig, secrets }) => {
    await addTenant(rig.store, 'other', 'tenant-2');
    const user = { tenant_id: 'tenant-2', name: 'eve', role: 'tenant-admin' } as const;
    const { token } = await addUser(rig.store, rig.random, user);
    const path = (name: string) => `/v1/secrets/${name}`;
    await ask(rig, 'PUT', path('hf-token'), { body: { value: 'of ours' } });
    await ask(rig, 'PUT', path('hf-token'), { token, body: { value: 'of theirs' } });
    assert.equal((await secrets.reveal(rig.ids.tenant_id, 'hf-token'))?.reveal(), 'of ours');
    assert.equal((await ask(rig, 'DELETE', path('hf-token'), { token })).status, 204);
    assert.equal((await secrets.reveal(rig.ids.tenant_id, 'hf-token'))?.reveal(), 'of ours');
    for (let count = 0; count < 100; count += 1) {
      assert.equal(
        (await ask(rig, 'PUT', path(`s${count}`), { token, body: { value } })).status,
        200,
      );
    }
    const over = await ask(rig, 'PUT', path('one-more'), { token, body: { value } });
    assert.equal(over.body.error?.code, 'too_many_secrets');
    assert.equal((await ask(rig, 'PUT', path('s0'), { token, body: { value } })).status, 200);
  }));
