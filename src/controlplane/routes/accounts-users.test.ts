/**
 * Who administers whom: users, roles, tenants, and what ends with them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addPerson,
  addTenantOf,
  browse,
  cookiesOf,
  onRig,
  said,
  signIn,
} from '../../../test/lib/accounts-rig.ts';
import { type Answer, ask, type Rig, select } from '../../../test/lib/rig.ts';

const given = (name: string, body: (rig: Rig) => Promise<void>) => test(name, () => onRig(body));
const as = (token: string, body?: unknown) => (body === undefined ? { token } : { token, body });

given('what is not there says which command lists what is', async (rig) => {
  const fixes: [string, string, string, unknown?][] = [
    ['GET', '/v1/users/none', 'bin/einsora users ls'],
    ['POST', '/v1/users/none/disable', 'bin/einsora users ls'],
    ['GET', '/v1/users?tenant=none', 'bin/einsora tenants ls'],
    ['POST', '/v1/tenants/none/disable', 'bin/einsora tenants ls'],
    ['DELETE', '/v1/invitations/none', 'bin/einsora invite ls'],
    ['DELETE', '/v1/tokens/none', 'bin/einsora tokens ls'],
    ['DELETE', '/v1/sessions/none', 'bin/einsora sessions ls'],
    ['GET', '/v1/tokens?user=none', 'bin/einsora users ls'],
    ['DELETE', '/v1/secrets/none', 'bin/einsora secrets ls'],
    ['GET', '/v1/tenants/none/quota', 'bin/einsora tenants ls'],
    ['GET', '/v1/usage?tenant=none', 'bin/einsora tenants ls'],
    ['GET', '/v1/activity?user=none', 'bin/einsora users ls'],
    ['GET', '/v1/requests/01m8nsxpyjfr9tvh220q0461ez', 'bin/einsora audit ls'],
    ['GET', '/v1/model-files/none', 'bin/einsora models ls'],
    ['GET', '/v1/workloads/none', 'bin/einsora ls'],
    ['PUT', '/v1/model-keys/none/limits', 'bin/einsora keys ls'],
    ['DELETE', '/v1/model-keys/none', 'bin/einsora keys ls'],
    ['POST', '/v1/model-keys', 'bin/einsora routes', { models: ['none'] }],
    ['POST', '/v1/model-keys', 'bin/einsora endpoint open', { models: ['none/none'] }],
    ['PUT', '/v1/users/none/limits', 'bin/einsora users ls'],
    ['PUT', '/v1/workloads/none/limits', 'bin/einsora ls'],
    ['PUT', '/v1/workloads/none/sharing', 'bin/einsora ls'],
    ['DELETE', '/v1/workloads/none/keys/none', 'bin/einsora ls'],
    ['POST', '/v1/machines/none/drain', 'bin/einsora machines'],
    ['GET', '/v1/none', 'bin/einsora --help'],
  ];
  for (const [method, path, fix, asked] of fixes) {
    const sent = asked ?? (method === 'PUT' ? {} : undefined);
    const { status, body } = await ask(rig, method, path, { body: sent });
    assert.deepEqual([status, body.error?.fix], [404, fix], path);
  }
});

given('a tenant admin sees and changes the own tenant, an operator all', async (rig) => {
  await addTenantOf(rig, 'lab');
  const admin = await addPerson(rig, 'admin', { role: 'tenant-admin', tenant: 'lab' });
  const inside = await addPerson(rig, 'inside', { tenant: 'lab' });
  const outside = await addPerson(rig, 'outside');
  const names = async (token: string, path = '/v1/users') =>
    ((await ask(rig, 'GET', path, { token })).body.items ?? []).map(({ name }) => name).sort();
  assert.deepEqual(await names(admin.token), ['admin', 'inside']);
  assert.deepEqual(await names(rig.token), ['ada', 'admin', 'inside', 'op', 'outside']);
  assert.deepEqual(await names(rig.token, '/v1/users?tenant=lab'), ['admin', 'inside']);
  assert.equal(said(await ask(rig, 'GET', '/v1/users', as(inside.token))), '403 forbidden');

  const off = await ask(rig, 'POST', '/v1/users/inside/disable', as(admin.token));
  assert.deepEqual([off.status, typeof off.body.disabled_at], [200, 'number']);
  const on = await ask(rig, 'POST', `/v1/users/${inside.id}/enable`, as(admin.token));
  assert.deepEqual([on.status, on.body.disabled_at], [200, null]);
  assert.equal(said(await ask(rig, 'GET', '/v1/me', as(outside.token))), '200');
});

given("another tenant's users, tokens and sessions answer exactly like none", async (rig) => {
  await addTenantOf(rig, 'lab');
  const admin = await addPerson(rig, 'admin', { role: 'tenant-admin', tenant: 'lab' });
  const member = await addPerson(rig, 'member', { tenant: 'lab' });
  const victim = await addPerson(rig, 'victim');
  const session = await signIn(rig, 'victim');
  const [own] = (await browse(rig, 'GET', '/v1/sessions', cookiesOf(session))).body.items ?? [];
  const [token] = (await ask(rig, 'GET', '/v1/tokens', as(victim.token))).body.items ?? [];
  const invitation = await ask(rig, 'POST', '/v1/invitations', { body: {} });
  const objects: [string, string, string][] = [
    ['GET', '/v1/users/@', 'victim'],
    ['GET', '/v1/users/@', victim.id],
    ['POST', '/v1/users/@/disable', 'victim'],
    ['POST', '/v1/users/@/enable', 'victim'],
    ['PUT', '/v1/users/@/role', 'victim'],
    ['POST', '/v1/users/@/reset', 'victim'],
    ['GET', '/v1/users?tenant=@', 'local'],
    ['GET', '/v1/invitations?tenant=@', 'local'],
    ['GET', '/v1/tokens?user=@', 'victim'],
    ['GET', '/v1/sessions?user=@', 'victim'],
    ['DELETE', '/v1/sessions?user=@', 'victim'],
    ['DELETE', '/v1/tokens/@', String(token?.id)],
    ['DELETE', '/v1/sessions/@', String(own?.id)],
    ['DELETE', '/v1/invitations/@', String(invitation.body.id)],
  ];
  const told = (answer: Answer, name: string) => {
    const { request_id: _, ...error } = answer.body.error ?? { request_id: '' };
    return JSON.stringify([answer.status, error]).replaceAll(name, '@');
  };
  for (const [method, path, there] of objects) {
    const nowhere = there.replace(/.$/, (last) => (last === 'z' ? 'y' : 'z'));
    for (const who of [admin, member]) {
      const asked = (name: string) => {
        const body = path.endsWith('/role') ? { role: 'viewer' } : undefined;
        return ask(rig, method, path.replace('@', name), as(who.token, body));
      };
      const answer = await asked(there);
      assert.ok(answer.status === 404 || answer.status === 403, `${method} ${path}`);
      if (who === admin) assert.equal(answer.status, 404, `${method} ${path}`);
      assert.equal(told(answer, there), told(await asked(nowhere), nowhere), `${method} ${path}`);
    }
  }
  assert.equal(said(await ask(rig, 'GET', '/v1/me', as(victim.token))), '200', 'nothing was done');
});

given('nobody changes a role above their own, nor gives one', async (rig) => {
  const admin = await addPerson(rig, 'admin', { role: 'tenant-admin' });
  await addPerson(rig, 'grace');
  const role = (name: string, to: string) =>
    ask(rig, 'PUT', `/v1/users/${name}/role`, as(admin.token, { role: to }));
  assert.equal(said(await role('grace', 'operator')), '403 role_too_high');
  assert.equal(said(await role('admin', 'operator')), '403 role_too_high');
  assert.equal(said(await role('op', 'viewer')), '403 role_too_high');
  for (const path of ['/v1/users/op/disable', '/v1/users/op/reset']) {
    assert.equal(said(await ask(rig, 'POST', path, as(admin.token))), '403 role_too_high', path);
  }
  for (const path of ['/v1/tokens?user=op', '/v1/sessions?user=op']) {
    assert.equal(said(await ask(rig, 'GET', path, as(admin.token))), '403 role_too_high', path);
  }
  assert.equal(said(await role('grace', 'tenant-admin')), '200');
});

given('the last operator stays one, whatever is tried at once', async (rig) => {
  const disable = (name: string) => ask(rig, 'POST', `/v1/users/${name}/disable`);
  const demote = (name: string) =>
    ask(rig, 'PUT', `/v1/users/${name}/role`, { body: { role: 'member' } });
  // Of the two that a rig has, the requests are made by op; ada is the local owner.
  const answers = await Promise.all([disable('ada'), demote('op'), disable('op'), demote('ada')]);
  const active = await select(
    rig.store,
    "select name from users where role = 'operator' and disabled_at is null",
  );
  assert.equal(active.length, 1, answers.map(said).join(', '));
});

given("the last operator's tenant is not disabled, and others are at once", async (rig) => {
  assert.equal(said(await ask(rig, 'POST', '/v1/tenants/local/disable')), '409 last_operator');
  await addTenantOf(rig, 'lab');
  const grace = await addPerson(rig, 'grace', { tenant: 'lab' });
  const session = cookiesOf(await signIn(rig, 'grace'));
  assert.equal(said(await ask(rig, 'POST', '/v1/tenants/lab/disable')), '200');
  assert.equal(said(await ask(rig, 'GET', '/v1/me', as(grace.token))), '401 sign_in_required');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', session)), '401 sign_in_required');
  assert.equal(said(await signIn(rig, 'grace')), '401 sign_in_wrong');
  assert.equal(said(await ask(rig, 'POST', '/v1/tenants/lab/enable')), '200');
  assert.equal(said(await ask(rig, 'GET', '/v1/me', as(grace.token))), '200');
});

given('disabling ends tokens at once and sessions for good', async (rig) => {
  const grace = await addPerson(rig, 'grace');
  const session = cookiesOf(await signIn(rig, 'grace'));
  const heard: string[] = [];
  const { tenant_id } = rig.ids;
  const held = { proof_id: 'any', user_id: grace.id, tenant_id, expires_at: null };
  rig.apiDeps.revocations.watch(held, () => heard.push('grace'));
  const other = { ...held, user_id: 'somebody else' };
  rig.apiDeps.revocations.watch(other, () => heard.push('somebody else'));
  await ask(rig, 'POST', '/v1/users/grace/disable');
  assert.deepEqual(heard, ['grace'], 'who holds something open hears of it');
  assert.equal(said(await ask(rig, 'GET', '/v1/me', as(grace.token))), '401 sign_in_required');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', session)), '401 sign_in_required');
  await ask(rig, 'POST', '/v1/users/grace/enable');
  assert.equal(said(await ask(rig, 'GET', '/v1/me', as(grace.token))), '200');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', session)), '401 sign_in_required');
});

given('a new role holds from the next request, and ends the sessions', async (rig) => {
  const grace = await addPerson(rig, 'grace', { role: 'tenant-admin' });
  const session = cookiesOf(await signIn(rig, 'grace'));
  const set = (role: string) => ask(rig, 'PUT', '/v1/users/grace/role', { body: { role } });
  assert.equal(said(await set('tenant-admin')), '200');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', session)), '200', 'nothing changed');
  assert.equal(said(await set('viewer')), '200');
  assert.equal(said(await ask(rig, 'GET', '/v1/users', as(grace.token))), '403 forbidden');
  assert.equal(said(await browse(rig, 'GET', '/v1/me', session)), '401 sign_in_required');
  await set('operator');
  const me = await ask(rig, 'GET', '/v1/me', as(grace.token));
  assert.equal(me.body.role, 'tenant-admin', 'a token keeps to what it was made with');
});

given('tenants are made once for a slug, and renamed', async (rig) => {
  const make = (body: unknown, headers = {}) => ask(rig, 'POST', '/v1/tenants', { body, headers });
  const first = await make({ slug: 'lab', name: 'The lab' });
  assert.deepEqual([first.status, first.body.name, first.body.users], [201, 'The lab', 0]);
  assert.equal(said(await make({ slug: 'lab' })), '409 tenant_slug_taken');
  const bad = ['', 'Lab', 'la b', '1lab', 'lab-', 'a'.repeat(21), 'lab\u0000', 'läb'];
  for (const slug of bad) assert.equal(said(await make({ slug })), '400 bad_request', slug);
  const renamed = await ask(rig, 'PATCH', '/v1/tenants/lab', { body: { name: 'Lab & co' } });
  assert.deepEqual(
    [renamed.status, renamed.body.name, renamed.body.slug],
    [200, 'Lab & co', 'lab'],
  );
  assert.equal(
    said(await ask(rig, 'PATCH', '/v1/tenants/none', { body: { name: 'x' } })),
    '404 not_found',
  );
  const key = { 'idempotency-key': 'k' };
  const made = await make({ slug: 'two' }, key);
  assert.equal((await make({ slug: 'two' }, key)).body.id, made.body.id);
});

given('lists come in pages that miss and repeat nothing', async (rig) => {
  for (const slug of ['a', 'b', 'c', 'd']) await addTenantOf(rig, slug);
  const seen: unknown[] = [];
  let cursor: unknown = null;
  do {
    const query: string = cursor === null ? '' : `&cursor=${cursor}`;
    const { body } = await ask(rig, 'GET', `/v1/tenants?limit=2${query}`);
    seen.push(...(body.items ?? []).map(({ slug }) => slug));
    cursor = body.next_cursor;
  } while (cursor !== null);
  assert.deepEqual(seen.length, 5);
  assert.deepEqual(new Set(seen), new Set(['a', 'b', 'c', 'd', 'local']));
  const bad = await ask(rig, 'GET', '/v1/tenants?cursor=%27or');
  assert.equal(said(bad), '400 bad_request');
});

given("a disabled user's endpoint keys open nothing, and come back with them", async (rig) => {
  const { findKey } = await import('../../store/keys.ts');
  const { digest } = await import('../../lib/secret.ts');
  const grace = await addPerson(rig, 'grace');
  const endpoint = { kind: 'endpoint', model: 'smollm2-135m' };
  const { body } = await ask(rig, 'POST', '/v1/workloads', as(grace.token, endpoint));
  const made = await ask(rig, 'POST', `/v1/workloads/${body.id}/keys`, as(grace.token, {}));
  const find = () => rig.store.read(findKey, { hash: digest(String(made.body.key)) });
  assert.notEqual(await find(), undefined);
  await ask(rig, 'POST', '/v1/users/grace/disable');
  assert.equal(await find(), undefined);
  await ask(rig, 'POST', '/v1/users/grace/enable');
  assert.notEqual(await find(), undefined);
});
