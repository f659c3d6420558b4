/**
 * API tokens that only narrow, and sessions that can be seen and ended.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addPerson,
  browse,
  cookiesOf,
  invite,
  join,
  onRig,
  password,
  said,
  signIn,
} from '../../../test/lib/accounts-rig.ts';
import { ask, counted, createRig, type Rig, select } from '../../../test/lib/rig.ts';
import { limits } from '../../contract/limits.ts';
import { checkToken } from '../../core/token.ts';

const given = (name: string, body: (rig: Rig) => Promise<void>) => test(name, () => onRig(body));
const day_ms = 24 * 3600_000;

async function make(rig: Rig, body: Record<string, unknown>, token = rig.token) {
  const answer = await ask(rig, 'POST', '/v1/tokens', { token, body: { name: 'ci', ...body } });
  return { answer, token: String(answer.body.token), said: said(answer), ...answer.body };
}

given(
  'a token is shown once, listed by its last four, and works until it is revoked',
  async (rig) => {
    const made = await make(rig, {});
    assert.equal(checkToken('tsk_', made.token), true);
    assert.equal(made.answer.body.expires_at, rig.clock.now() + limits.token_ms);
    assert.equal(said(await ask(rig, 'GET', '/v1/me', { token: made.token })), '200');
    const listed = await ask(rig, 'GET', '/v1/tokens');
    assert.equal(listed.text.includes(made.token), false);
    const [newest] = listed.body.items ?? [];
    assert.deepEqual([newest?.last_four, newest?.name], [made.token.slice(-4), 'ci']);
    const path = `/v1/tokens/${made.answer.body.id}`;
    assert.equal(said(await ask(rig, 'DELETE', path)), '204');
    assert.equal(
      said(await ask(rig, 'GET', '/v1/me', { token: made.token })),
      '401 sign_in_required',
    );
    assert.equal(said(await ask(rig, 'DELETE', path)), '204', 'once more changes nothing');
  },
);

given('a token ends by its time', async (rig) => {
  const made = await make(rig, { expires_in_ms: 60_000 });
  rig.clock.stepWall(59_999);
  assert.equal(said(await ask(rig, 'GET', '/v1/me', { token: made.token })), '200');
  rig.clock.stepWall(1);
  assert.equal(
    said(await ask(rig, 'GET', '/v1/me', { token: made.token })),
    '401 sign_in_required',
  );
});

given('scopes let through what they name, reading with writing, and no more', async (rig) => {
  const reads = await make(rig, { scopes: ['workloads:read'] });
  const writes = await make(rig, { scopes: ['workloads:write'] });
  const launch = { kind: 'endpoint', model: 'smollm2-135m' };
  const tries: [string, string, unknown, string, string][] = [
    ['GET', '/v1/workloads', undefined, '200', '200'],
    ['POST', '/v1/plan', launch, '200', '200'],
    ['POST', '/v1/workloads', launch, '403 scope_missing', '201'],
    ['GET', '/v1/machines', undefined, '403 scope_missing', '403 scope_missing'],
    ['GET', '/v1/users', undefined, '403 scope_missing', '403 scope_missing'],
    ['GET', '/v1/tokens', undefined, '403 scope_missing', '403 scope_missing'],
    ['GET', '/v1/me', undefined, '200', '200'],
  ];
  for (const [method, path, body, read, write] of tries) {
    const how = (token: string) => (body === undefined ? { token } : { token, body });
    assert.equal(said(await ask(rig, method, path, how(reads.token))), read, path);
    assert.equal(said(await ask(rig, method, path, how(writes.token))), write, path);
  }
  const refused = await ask(rig, 'GET', '/v1/machines', { token: reads.token });
  assert.equal(refused.body.error?.details.scope, 'machines:read');
  const me = await ask(rig, 'GET', '/v1/me', { token: reads.token });
  assert.deepEqual(me.body.scopes, ['workloads:read']);
});

given('a token makes no wider one: role, scopes, expiry', async (rig) => {
  const parent = await make(rig, {
    role: 'member',
    scopes: ['accounts:write', 'machines:read'],
    expires_in_ms: 10 * day_ms,
  });
  const wider = [
    { role: 'operator' },
    { scopes: ['machines:write'] },
    { scopes: ['accounts:read', 'workloads:read'] },
    { expires_in_ms: null },
    { expires_in_ms: 10 * day_ms + 1 },
  ];
  for (const body of wider) {
    assert.equal((await make(rig, body, parent.token)).said, '403 token_too_wide', String(body));
  }
  const child = await make(rig, { name: 'child' }, parent.token);
  const { role, scopes, expires_at } = child.answer.body;
  assert.deepEqual(
    [role, scopes, expires_at],
    ['member', ['accounts:write', 'machines:read'], rig.clock.now() + 10 * day_ms],
  );
  const narrower = await make(rig, { scopes: ['accounts:read'], role: 'viewer' }, parent.token);
  assert.equal(narrower.said, '201');
  const again = await make(rig, {}, narrower.token);
  assert.equal(again.said, '403 scope_missing');
});

given('a narrowed token gives out no proof of all that its user may', async (rig) => {
  await addPerson(rig, 'grace');
  const narrowed = [
    await make(rig, { scopes: ['accounts:write'] }),
    await make(rig, { role: 'tenant-admin' }),
  ];
  const whole: [string, string, unknown][] = [
    ['POST', '/v1/sign-in-links', undefined],
    ['PUT', '/v1/me/password', { password }],
    ['POST', '/v1/invitations', {}],
    ['POST', '/v1/users/grace/reset', undefined],
    ['POST', '/v1/users/grace/enable', undefined],
    ['PUT', '/v1/users/grace/role', { role: 'viewer' }],
  ];
  for (const { token } of narrowed) {
    for (const [method, path, body] of whole) {
      const how = body === undefined ? { token } : { token, body };
      assert.equal(said(await ask(rig, method, path, how)), '403 token_too_narrow', path);
    }
    assert.equal(said(await ask(rig, 'POST', '/v1/users/grace/disable', { token })), '200');
  }
});

given('a browser signed in by a token is signed out when that token would end', async (rig) => {
  const made = await make(rig, { expires_in_ms: 60_000 });
  const link = await ask(rig, 'POST', '/v1/sign-in-links', { token: made.token });
  const body = { token: String(link.body.url).split('#t=')[1] };
  const cookie = cookiesOf(await ask(rig, 'POST', '/v1/session', { token: null, body }));
  assert.equal(said(await browse(rig, 'GET', '/v1/me', cookie)), '200');
  rig.clock.stepWall(60_000);
  assert.equal(said(await browse(rig, 'GET', '/v1/me', cookie)), '401 sign_in_required');
});

given('from a session a token may last for ever, if it says so', async (rig) => {
  await addPerson(rig, 'grace');
  const cookie = cookiesOf(await signIn(rig, 'grace'));
  const body = { name: 'robot', expires_in_ms: null };
  const made = await browse(rig, 'POST', '/v1/tokens', cookie, body);
  assert.deepEqual([made.status, made.body.expires_at], [201, null]);
  rig.clock.stepWall(5 * 365 * day_ms);
  const me = await ask(rig, 'GET', '/v1/me', { token: String(made.body.token) });
  assert.equal(said(me), '200');
});

given('bad requests for tokens are refused by the name of the field', async (rig) => {
  const wrong: [Record<string, unknown>, RegExp][] = [
    [{ name: '' }, /name/],
    [{ scopes: [] }, /scopes/],
    [{ scopes: ['everything'] }, /scopes/],
    [{ role: 'root' }, /role/],
    [{ expires_in_ms: -1 }, /expires/],
    [{ expires_in_ms: 1e15 }, /expires/],
    [{ owner: 'me' }, /owner/],
  ];
  for (const [body, problem] of wrong) {
    const { answer } = await make(rig, body);
    assert.equal(answer.status, 400, JSON.stringify(body));
    assert.match(answer.body.error?.message ?? '', problem);
  }
});

given('a repeat with the same Idempotency-Key shows the same token', async (rig) => {
  const how = { body: { name: 'ci' }, headers: { 'idempotency-key': 'once' } };
  const first = await ask(rig, 'POST', '/v1/tokens', how);
  const again = await ask(rig, 'POST', '/v1/tokens', how);
  assert.deepEqual([again.status, again.body.token], [201, first.body.token]);
  const { proofs } = rig.apiDeps;
  rig.apiDeps.proofs = { ...proofs, makeApiToken: () => proofs.makeApiToken(null) };
  const under_another_pepper = await ask(rig, 'POST', '/v1/tokens', how);
  assert.equal(said(under_another_pepper), '409 idempotency_key_reused', 'none that does not work');
  rig.apiDeps.proofs = proofs;
  await rig.store.transact('forgetIdempotencyKeys', { kept_rounds: 0 });
  assert.equal(said(await ask(rig, 'POST', '/v1/tokens', how)), '409 idempotency_key_reused');
});

given('an admin lists and revokes the tokens of those below', async (rig) => {
  const grace = await addPerson(rig, 'grace');
  const admin = await addPerson(rig, 'admin', { role: 'tenant-admin' });
  const listed = await ask(rig, 'GET', '/v1/tokens?user=grace', { token: admin.token });
  const id = listed.body.items?.[0]?.id;
  assert.equal(said(await ask(rig, 'DELETE', `/v1/tokens/${id}`, { token: admin.token })), '204');
  assert.equal(
    said(await ask(rig, 'GET', '/v1/me', { token: grace.token })),
    '401 sign_in_required',
  );
});

given('a user has so many working tokens, and no more', async (rig) => {
  const grace = await addPerson(rig, 'grace');
  const text = `insert into tokens (id, user_id, name, hash, last_four, created_at)
    values ($1, $2, 'many', $1, 'abcd', 0)`;
  for (let count = 1; count < limits.tokens_per_user; count += 1) {
    await rig.store.transact('write', { text, params: [`t${count}`, grace.id] });
  }
  const over = await make(rig, {}, grace.token);
  assert.equal(over.said, '409 limit_reached');
});

given('sessions are listed with what they are, and ended one by one or all', async (rig) => {
  await addPerson(rig, 'grace');
  const phone = cookiesOf(await signIn(rig, 'grace', password, { 'user-agent': 'Phone\u0007 1' }));
  rig.clock.stepWall(1);
  const desk = cookiesOf(await signIn(rig, 'grace', password, { 'user-agent': 'x'.repeat(900) }));
  rig.clock.stepWall(1);
  const extra = cookiesOf(await signIn(rig, 'grace'));
  const list = async () => (await browse(rig, 'GET', '/v1/sessions', desk)).body.items ?? [];
  const shown = (await list()).map(({ client, current, signed_in_by }) => [
    String(client).length > 20 ? 'long' : client,
    current,
    signed_in_by,
  ]);
  assert.deepEqual(shown.slice(1), [
    ['long', true, 'password'],
    ['Phone 1', false, 'password'],
  ]);
  const id = (await list()).at(-1)?.id;
  assert.equal(said(await browse(rig, 'DELETE', `/v1/sessions/${id}`, desk)), '204');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', phone)), '401 sign_in_required');
  const all = await browse(rig, 'DELETE', '/v1/sessions', desk);
  assert.deepEqual([all.status, all.body.revoked], [200, 1]);
  assert.equal(said(await browse(rig, 'GET', '/v1/me', extra)), '401 sign_in_required');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', desk)), '200');
  assert.equal((await list()).length, 1);
});

given('a user has so many sessions: the one unused for longest makes room', async (rig) => {
  await addPerson(rig, 'grace');
  const first = cookiesOf(await signIn(rig, 'grace'));
  const second = cookiesOf(await signIn(rig, 'grace'));
  rig.clock.stepWall(61_000);
  assert.equal(said(await browse(rig, 'GET', '/v1/me', first)), '200');
  for (let count = 2; count <= limits.sessions_per_user; count += 1) await signIn(rig, 'grace');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', first)), '200', 'it was used since');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', second)), '401 sign_in_required');
});

test('that a token is used is written once a minute, and a full disk does not stop it', async () => {
  let written: string[] = [];
  const rig = await createRig({
    wrap: (store) => {
      const both = counted(store);
      written = both.written;
      return both.store;
    },
  });
  try {
    const me = () => ask(rig, 'GET', '/v1/me');
    await Promise.all([me(), me(), me()]);
    await me();
    rig.clock.stepWall(61_000);
    await me();
    const touches = written.filter((name) => name === 'touchToken');
    assert.equal(touches.length, 2);
    const [row] = await select<{ last_used_at: number }>(
      rig.store,
      "select last_used_at from tokens where name = 'test'",
    );
    assert.equal(row?.last_used_at, rig.clock.now());
    rig.clock.stepWall(61_000);
    rig.store.transact = () => Promise.reject(new Error('no space'));
    assert.equal(said(await me()), '200');
  } finally {
    await rig.close();
  }
});

given('the token that an invited person logs in with is theirs alone', async (rig) => {
  await join(rig, await invite(rig, { role: 'viewer' }), 'grace');
  const body = { name: 'grace', password, token_name: 'laptop' };
  const answer = await ask(rig, 'POST', '/v1/login', { token: null, body });
  assert.deepEqual(
    [answer.status, answer.body.user, answer.body.name, answer.body.role, answer.body.scopes],
    [201, 'grace', 'laptop', 'viewer', null],
  );
  const launch = { kind: 'endpoint', model: 'smollm2-135m' };
  const tried = await ask(rig, 'POST', '/v1/workloads', {
    token: String(answer.body.token),
    body: launch,
  });
  assert.equal(said(tried), '403 forbidden');
});
