/**
 * Endpoint keys over HTTP: shown once, shown again to a repeat, and kept by nobody.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, createRig, everyValue, type Rig } from '../../../test/lib/rig.ts';
import { checkToken } from '../../core/token.ts';
import { digest } from '../../lib/secret.ts';

function given(name: string, body: (rig: Rig, keys: string) => Promise<void>): void {
  test(name, async () => {
    const rig = await createRig();
    try {
      const launch = { kind: 'endpoint', model: 'smollm2-135m', name: 'chat' };
      await ask(rig, 'POST', '/v1/workloads', { body: launch });
      await body(rig, '/v1/workloads/chat/keys');
    } finally {
      await rig.close();
    }
  });
}

const create = (rig: Rig, path: string, key?: string, body: object = {}) =>
  ask(rig, 'POST', path, { body, headers: key === undefined ? {} : { 'idempotency-key': key } });

given('a key has the form of one, and its last four characters are told', async (rig, keys) => {
  const { status, body } = await create(rig, keys);
  assert.equal(status, 201);
  assert.equal(checkToken('ept_', String(body.key)), true);
  assert.equal(body.last_four, String(body.key).slice(-4));
});

given('a repeat shows the same key again, another call another one', async (rig, keys) => {
  const first = await create(rig, keys, 'once');
  const again = await create(rig, keys, 'once');
  const other = await create(rig, keys, 'twice');
  assert.deepEqual(again.body, first.body);
  assert.notEqual(other.body.key, first.body.key);
  assert.notEqual((await create(rig, keys)).body.key, (await create(rig, keys)).body.key);
});

given('no row and no line of the log holds a key or a token', async (rig, keys) => {
  const made = [await create(rig, keys, 'once'), await create(rig, keys)];
  await create(rig, keys, 'once');
  const link = await ask(rig, 'POST', '/v1/sign-in-links');
  const secrets = [
    ...made.map((answer) => String(answer.body.key)),
    String(link.body.url).split('#t=')[1] ?? '',
    rig.token,
  ];
  const kept = [...(await everyValue(rig.store)), JSON.stringify(rig.lines)].join('\n');
  for (const secret of secrets) {
    assert.ok(secret.length > 30);
    assert.equal(kept.includes(secret), false, 'in plain text');
    assert.equal(kept.includes(secret.slice(4, 34)), false, 'without its prefix');
    assert.equal(kept.includes(Buffer.from(secret).toString('base64')), false, 'encoded');
    assert.ok(kept.includes(digest(secret)), 'its hash is there, so the search looks at it');
  }
});

given('a list of keys tells no secret', async (rig, keys) => {
  const made = await create(rig, keys);
  const list = await ask(rig, 'GET', keys);
  const [key] = list.body.items ?? [];
  assert.deepEqual(Object.keys(key ?? {}), [
    'id',
    'workload_id',
    'limits',
    'use',
    'last_four',
    'created_at',
    'expires_at',
    'revoked_at',
  ]);
  assert.equal(list.text.includes(String(made.body.key)), false);
  assert.equal(list.text.includes(digest(String(made.body.key))), false);
});

given('a key ends when it is asked to, and by being revoked', async (rig, keys) => {
  const { body } = await create(rig, keys, undefined, { expires_in_ms: 60_000 });
  assert.equal(body.expires_at, rig.clock.now() + 60_000);
  assert.equal((await ask(rig, 'DELETE', `${keys}/${body.id}`)).status, 204);
  const [key] = (await ask(rig, 'GET', keys)).body.items ?? [];
  assert.equal(key?.revoked_at, rig.clock.now());
  const none = await ask(rig, 'DELETE', `${keys}/nothing`);
  assert.deepEqual([none.status, none.body.error?.code], [404, 'not_found']);
});

given('a repeat after its first use was forgotten is refused, not broken', async (rig, keys) => {
  await create(rig, keys, 'once');
  await rig.store.transact('forgetIdempotencyKeys', { kept_rounds: 0 });
  const { status, body } = await create(rig, keys, 'once');
  assert.deepEqual([status, body.error?.code], [409, 'idempotency_key_reused']);
});
