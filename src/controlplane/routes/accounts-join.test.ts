/**
 * Becoming a user and proving it: invitations, passwords, and what a wrong one says.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addPerson,
  addTenantOf,
  browse,
  cookiesOf,
  invite,
  join,
  logIn,
  onRig,
  password,
  said,
  secretOf,
  signIn,
} from '../../../test/lib/accounts-rig.ts';
import { ask, everyValue, type Rig, select } from '../../../test/lib/rig.ts';
import { limits } from '../../contract/limits.ts';
import { makeToken } from '../../core/token.ts';
import { findCredentials } from '../../store/passwords.ts';
import { createSignIns } from '../auth/sign-ins.ts';

const given = (name: string, body: (rig: Rig) => Promise<void>) => test(name, () => onRig(body));
const other = 'quite another word';

given('an invitation makes one user of its tenant and role, who then signs in', async (rig) => {
  await addTenantOf(rig, 'lab');
  const link = await invite(rig, { role: 'viewer', tenant: 'lab' });
  const joined = await join(rig, link, 'grace');
  assert.equal(said(joined), '201');
  const { name, role, tenant, has_password } = joined.body;
  assert.deepEqual([name, role, tenant, has_password], ['grace', 'viewer', 'lab', true]);
  assert.equal(said(await join(rig, link, 'linus')), '401 invitation_spent');

  const signed_in = await signIn(rig, 'grace');
  assert.equal(said(signed_in), '204');
  const me = await browse(rig, 'GET', '/v1/me', cookiesOf(signed_in));
  assert.deepEqual(
    [me.body.name, me.body.tenant, me.body.via, me.body.scopes],
    ['grace', 'lab', 'session', null],
  );
  const token = String((await logIn(rig, 'grace')).body.token);
  const by_token = await ask(rig, 'GET', '/v1/me', { token });
  assert.deepEqual([by_token.body.via, by_token.body.has_password], ['token', true]);
});

given('of sixty-four who follow one invitation at once, one becomes a user', async (rig) => {
  const link = await invite(rig);
  const before = (await select(rig.store, 'select id from users')).length;
  const answers = await Promise.all(
    Array.from({ length: 64 }, (_, index) => join(rig, link, `user${index}`)),
  );
  const made = answers.filter(({ status }) => status === 201);
  assert.equal(made.length, 1);
  for (const answer of answers) {
    assert.match(said(answer), /^201$|^401 invitation_spent$|^429 too_many_requests$/);
  }
  assert.equal((await select(rig.store, 'select id from users')).length, before + 1);
});

given('an invitation ends by its time, by being revoked, and with who gave it', async (rig) => {
  const late = await invite(rig, { expires_in_ms: 5000 });
  rig.clock.stepWall(5000);
  assert.equal(said(await join(rig, late, 'late')), '401 invitation_spent');

  const made = await ask(rig, 'POST', '/v1/invitations', { body: {} });
  const path = `/v1/invitations/${made.body.id}`;
  assert.equal(said(await ask(rig, 'DELETE', path)), '204');
  assert.equal(said(await ask(rig, 'DELETE', path)), '204', 'once more changes nothing');
  assert.equal(said(await join(rig, secretOf(made), 'never')), '401 invitation_spent');

  const admin = await addPerson(rig, 'admin', { role: 'tenant-admin' });
  const given_by = await invite(rig, { role: 'tenant-admin' }, admin.token);
  const role = { body: { role: 'member' } };
  assert.equal(said(await ask(rig, 'PUT', '/v1/users/admin/role', role)), '200');
  assert.equal(said(await join(rig, given_by, 'above')), '401 invitation_spent');

  await addTenantOf(rig, 'lab');
  const chief = await addPerson(rig, 'chief', { role: 'operator' });
  const elsewhere = await invite(rig, { tenant: 'lab', role: 'viewer' }, chief.token);
  const lower = { body: { role: 'tenant-admin' } };
  assert.equal(said(await ask(rig, 'PUT', '/v1/users/chief/role', lower)), '200');
  const outside = '401 invitation_spent';
  assert.equal(said(await join(rig, elsewhere, 'far')), outside, 'of a tenant that is not theirs');

  const second = await addPerson(rig, 'second', { role: 'tenant-admin' });
  const by_disabled = await invite(rig, {}, second.token);
  await ask(rig, 'POST', '/v1/users/second/disable');
  assert.equal(said(await join(rig, by_disabled, 'guest')), '401 invitation_spent');

  await addTenantOf(rig, 'closed');
  const of_closed = await invite(rig, { tenant: 'closed' });
  await ask(rig, 'POST', '/v1/tenants/closed/disable');
  assert.equal(said(await join(rig, of_closed, 'guest')), '401 invitation_spent');
  const again = await ask(rig, 'POST', '/v1/invitations', { body: { tenant: 'closed' } });
  assert.equal(said(again), '409 tenant_disabled');
});

given('what is refused while joining leaves the invitation as it was', async (rig) => {
  await addPerson(rig, 'grace');
  const link = await invite(rig);
  assert.equal(said(await join(rig, link, 'grace')), '409 user_name_taken');
  assert.equal(said(await join(rig, link, 'joan', 'password1')), '400 password_refused');
  assert.equal(said(await join(rig, link, 'joan', 'short')), '400 password_refused');
  for (const name of ['', 'Joan', 'joan ', '-joan', 'jo\u0000an', 'a'.repeat(64)]) {
    assert.equal(said(await join(rig, link, name)), '400 bad_request', JSON.stringify(name));
  }
  assert.equal(said(await join(rig, link, 'joan')), '201');
});

given(
  'an invitation is not above the one who gives it, and lists without its link',
  async (rig) => {
    const admin = await addPerson(rig, 'admin', { role: 'tenant-admin' });
    const asked = { token: admin.token, body: { role: 'operator' } };
    assert.equal(said(await ask(rig, 'POST', '/v1/invitations', asked)), '403 role_too_high');
    const member = await addPerson(rig, 'member');
    const by_member = { token: member.token, body: {} };
    assert.equal(said(await ask(rig, 'POST', '/v1/invitations', by_member)), '403 forbidden');
    const secret = await invite(rig, { role: 'viewer' }, admin.token);
    const listed = await ask(rig, 'GET', '/v1/invitations', { token: admin.token });
    assert.equal(listed.text.includes(secret), false);
    const [newest] = listed.body.items ?? [];
    assert.deepEqual(
      [newest?.state, newest?.role, newest?.invited_by, newest?.used_by],
      ['open', 'viewer', 'admin', null],
    );
  },
);

given(
  'a repeat with the same Idempotency-Key shows the same link, and makes no second',
  async (rig) => {
    const headers = { 'idempotency-key': 'once' };
    const first = await ask(rig, 'POST', '/v1/invitations', { body: {}, headers });
    const again = await ask(rig, 'POST', '/v1/invitations', { body: {}, headers });
    assert.deepEqual([again.status, again.body.url], [201, first.body.url]);
    const changed = { body: { role: 'viewer' }, headers };
    assert.equal(
      said(await ask(rig, 'POST', '/v1/invitations', changed)),
      '409 idempotency_key_reused',
    );
    assert.equal((await select(rig.store, 'select id from invitations')).length, 1);
  },
);

given('nobody, no password, disabled and wrong are told alike', async (rig) => {
  await addPerson(rig, 'grace');
  await addPerson(rig, 'off');
  await ask(rig, 'POST', '/v1/users/off/disable');
  const answers = [
    await signIn(rig, 'nobody'),
    await signIn(rig, 'ada'), // the local owner, who has none
    await signIn(rig, 'off'),
    await signIn(rig, 'grace', 'a wrong password'),
    await signIn(rig, 'GRACE'),
    await logIn(rig, 'nobody'),
    await logIn(rig, 'grace', 'a wrong password'),
  ];
  const told = answers.map(({ status, body }) => {
    const { request_id: _, ...error } = body.error ?? { request_id: '' };
    return JSON.stringify([status, error]);
  });
  assert.equal(new Set(told).size, 1, told.join('\n'));
  for (const answer of answers) assert.deepEqual(answer.headers.getSetCookie(), []);
});

given(
  'a name is tried slowly after a few tries, and never locked for who knows it',
  async (rig) => {
    await addPerson(rig, 'grace');
    const known = cookiesOf(await signIn(rig, 'grace'));
    const guess = () => signIn(rig, 'grace', 'a wrong password');
    for (let count = 0; count < limits.sign_in_free_tries; count += 1) {
      assert.equal(said(await guess()), '401 sign_in_wrong');
    }
    const slow = await guess();
    assert.equal(said(slow), '429 sign_in_slow');
    assert.equal(slow.headers.get('retry-after'), '1');
    assert.equal(said(await signIn(rig, 'grace')), '429 sign_in_slow', 'a stranger waits');
    const back = await signIn(rig, 'grace', password, { cookie: known });
    assert.equal(said(back), '204', 'a browser that knows her does not');
    assert.equal(said(await signIn(rig, 'linus')), '401 sign_in_wrong', 'nor does another name');
    await rig.clock.advance(1000);
    assert.equal(said(await signIn(rig, 'grace')), '204', 'nor anybody for long');
  },
);

given('an admin can always get somebody in whose name is guessed at', async (rig) => {
  await addPerson(rig, 'grace');
  const guesses = Array.from({ length: 16 }, () => signIn(rig, 'grace', 'a wrong password'));
  await Promise.all(guesses);
  assert.equal(said(await signIn(rig, 'grace')), '429 sign_in_slow');
  const token = secretOf(await ask(rig, 'POST', '/v1/users/grace/reset'));
  const body = { token, password: other };
  const cookie = cookiesOf(await ask(rig, 'POST', '/v1/reset', { token: null, body }));
  assert.equal(said(await signIn(rig, 'grace', other, { cookie })), '204');
});

given('sixty-four guesses at once get no more tries than one after the other', async (rig) => {
  await addPerson(rig, 'grace');
  const answers = await Promise.all(
    Array.from({ length: 64 }, () => signIn(rig, 'grace', 'a wrong password')),
  );
  const judged = answers.filter(({ status }) => status === 401);
  assert.equal(judged.length, limits.sign_in_free_tries);
});

given('names that are not there cost a hash each, so that time does not tell them', async (rig) => {
  const answers = await Promise.all(
    Array.from({ length: 64 }, (_, index) => signIn(rig, `nobody${index}`)),
  );
  const hashed = answers.filter((answer) => said(answer) === '401 sign_in_wrong');
  const room = limits.password_hashes_at_once + limits.password_hashes_waiting;
  assert.equal(hashed.length, room);
  const turned_away = answers.filter((answer) => said(answer) === '429 too_many_requests');
  assert.equal(turned_away.length, 64 - room);
});

given('a password is hashed anew where the parameters have changed since', async (rig) => {
  await addPerson(rig, 'grace');
  const stored = async () =>
    (await rig.store.read(findCredentials, { name: 'grace' }))?.password ?? '';
  assert.match(await stored(), /m=64,t=1/);
  const { proofs } = rig.apiDeps;
  const cost = { memory_kib: 128, passes: 2 };
  const signIns = createSignIns({ ...rig.apiDeps, pepper: proofs.pepper, cost });
  const asked = { name: 'grace', password };
  const person = await signIns.prove(asked, null, rig.log);
  assert.match(await stored(), /m=128,t=2/);
  assert.equal(person.password, await stored());
  await assert.rejects(signIns.prove({ ...asked, password: other }, null, rig.log));
  assert.equal(said(await signIn(rig, 'grace')), '204', 'and by the older ones again');
});

given('a reset link sets one password, once, and ends every session', async (rig) => {
  await addPerson(rig, 'grace');
  const session = cookiesOf(await signIn(rig, 'grace'));
  const voided = secretOf(await ask(rig, 'POST', '/v1/users/grace/reset'));
  const link = secretOf(await ask(rig, 'POST', '/v1/users/grace/reset'));
  const reset = (token: string, word = other) =>
    ask(rig, 'POST', '/v1/reset', { token: null, body: { token, password: word } });
  assert.equal(said(await reset(voided)), '401 reset_link_spent', 'a newer one took its place');
  const as_sign_in = { token: null, body: { token: link } };
  assert.equal(said(await ask(rig, 'POST', '/v1/session', as_sign_in)), '401 sign_in_link_spent');
  assert.equal(said(await reset(link, 'grace')), '400 password_refused');
  const answers = await Promise.all(Array.from({ length: 8 }, () => reset(link)));
  assert.equal(answers.filter(({ status }) => status === 204).length, 1);
  assert.equal(said(await browse(rig, 'GET', '/v1/me', session)), '401 sign_in_required');
  assert.equal(said(await signIn(rig, 'grace')), '401 sign_in_wrong');
  assert.equal(said(await signIn(rig, 'grace', other)), '204');
  const admin = await addPerson(rig, 'admin', { role: 'tenant-admin' });
  const by = { token: admin.token };
  const of_admin = secretOf(await ask(rig, 'POST', '/v1/users/grace/reset', by));
  await ask(rig, 'PUT', '/v1/users/admin/role', { body: { role: 'member' } });
  assert.equal(
    said(await reset(of_admin)),
    '401 reset_link_spent',
    'worth what its maker is worth',
  );
  const late = secretOf(await ask(rig, 'POST', '/v1/users/grace/reset'));
  rig.clock.stepWall(limits.reset_link_ms);
  assert.equal(said(await reset(late)), '401 reset_link_spent');
});

given('a new password wants the current one, and ends the other sessions', async (rig) => {
  await addPerson(rig, 'grace');
  const here = cookiesOf(await signIn(rig, 'grace'));
  const there = cookiesOf(await signIn(rig, 'grace'));
  const change = (body: unknown) => browse(rig, 'PUT', '/v1/me/password', here, body);
  assert.equal(said(await change({ password: other })), '400 bad_request');
  assert.equal(
    said(await change({ current: 'wrong word', password: other })),
    '403 password_wrong',
  );
  assert.equal(
    said(await change({ current: password, password: '12345678' })),
    '400 password_refused',
  );
  assert.equal(said(await change({ current: password, password: other })), '204');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', here)), '200');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', there)), '401 sign_in_required');
  assert.equal(said(await signIn(rig, 'grace', other)), '204');
});

given('the local owner sets a first password without one', async (rig) => {
  const first = { body: { password } };
  assert.equal(said(await ask(rig, 'PUT', '/v1/me/password', first)), '204');
  assert.equal(said(await signIn(rig, 'op')), '204');
  assert.equal(said(await ask(rig, 'PUT', '/v1/me/password', first)), '400 bad_request');
});

given('no page of another site signs anybody in', async (rig) => {
  await addPerson(rig, 'grace');
  const link = await invite(rig);
  const headers = { 'sec-fetch-site': 'cross-site' };
  assert.equal(said(await signIn(rig, 'grace', password, headers)), '403 cross_site');
  const body = { token: link, name: 'eve', password };
  const joined = await ask(rig, 'POST', '/v1/join', { token: null, headers, body });
  assert.equal(said(joined), '403 cross_site');
  const form = await ask(rig, 'POST', '/v1/session', {
    token: null,
    headers: { 'content-type': 'text/plain' },
    body: JSON.stringify({ name: 'grace', password }),
  });
  assert.equal(form.status, 400, 'nor a form, which cannot send JSON');
});

given('links that were never given out are refused before anything is hashed', async (rig) => {
  const token = makeToken('eat_', rig.random.bytes(32));
  assert.equal(said(await join(rig, token, 'eve')), '401 invitation_spent');
  assert.equal(said(await join(rig, 'eat_nonsense', 'eve')), '401 invitation_spent');
  const body = { token, password };
  const reset = await ask(rig, 'POST', '/v1/reset', { token: null, body });
  assert.equal(said(reset), '401 reset_link_spent');
});

given('neither passwords nor links nor tokens are kept or logged by anybody', async (rig) => {
  const link = await invite(rig);
  await join(rig, link, 'grace');
  const cookie = cookiesOf(await signIn(rig, 'grace'));
  const logged_in = await logIn(rig, 'grace');
  const reset = secretOf(await ask(rig, 'POST', '/v1/users/grace/reset'));
  await signIn(rig, 'grace', 'a wrong password');
  const secrets = [password, 'a wrong password', link, reset, String(logged_in.body.token)];
  secrets.push(...cookie.split('; ').map((one) => one.split('=')[1] ?? ''));
  const kept = [...(await everyValue(rig.store)), JSON.stringify(rig.lines)].join('\n');
  for (const secret of secrets) assert.equal(kept.includes(secret), false, secret);
});
