/**
 * The API as a whole: who may call what, what looks like nothing, and how it says no.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type Answer,
  addTenant,
  addUser,
  ask,
  createRig,
  type Rig,
  select,
} from '../../test/lib/rig.ts';
import { type AuthRow, hasRole, type Role, roles } from '../contract/auth.ts';
import { limits } from '../contract/limits.ts';
import { type RouteName, routes } from '../contract/routes.ts';
import { makeToken } from '../core/token.ts';
import { StoreError } from '../store/sql.ts';

const endpoint = { kind: 'endpoint', model: 'smollm2-135m' };
const bodies: Partial<Record<RouteName, unknown>> = {
  signIn: { token: 'eat_none' },
  plan: endpoint,
  launch: endpoint,
  createKey: {},
  setIdlePolicy: { idle_policy: null },
  setFallback: { fallback: [] },
  scaleEndpoint: { replicas: 2 },
};

type Caller = { token: string | null; role: Role | null; other_tenant?: boolean };
const rig = {} as Rig;
const callers: Record<string, Caller> = { anonymous: { token: null, role: null } };

before(async () => {
  Object.assign(rig, await createRig());
  const { store, random, ids, clock } = rig;
  const { tenant_id } = ids;
  for (const role of roles) {
    const { token } = await addUser(store, random, { tenant_id, name: `a ${role}`, role });
    callers[role] = { token, role };
  }
  await addTenant(store, 'other', 'other-tenant');
  const other = { tenant_id: 'other-tenant', name: 'eve', role: 'operator' as const };
  const { token } = await addUser(store, random, other);
  callers['other tenant'] = { token, role: 'operator', other_tenant: true };
  const late = { tenant_id, name: 'late', role: 'operator' as const, expires_at: clock.now() };
  callers.expired = { token: (await addUser(store, random, late)).token, role: null };
  const gone = await addUser(store, random, { tenant_id, name: 'gone', role: 'operator' });
  const revoke = 'update tokens set revoked_at = 1 where id = $1';
  await store.transact('write', { text: revoke, params: [gone.token_id] });
  callers.revoked = { token: gone.token, role: null };
  const off = await addUser(store, random, { tenant_id, name: 'off', role: 'operator' });
  const disable = 'update users set disabled_at = 1 where id = $1';
  await store.transact('write', { text: disable, params: [off.user_id] });
  callers.disabled = { token: off.token, role: null };
  callers['endpoint key'] = { token: makeToken('ept_', random.bytes(32)), role: null };
  callers['unknown token'] = { token: makeToken('tsk_', random.bytes(32)), role: null };
  callers.gibberish = { token: 'tsk_nothing', role: null };
});
after(() => rig.close());

async function launched(): Promise<string> {
  return String((await ask(rig, 'POST', '/v1/workloads', { body: endpoint })).body.id);
}

/** A path of the route that leads to something that is there. */
async function pathOf(name: RouteName): Promise<string> {
  const { path } = routes[name];
  if (!path.includes('{workload}')) return path;
  const workload = await launched();
  const made = path.includes('{key_id}')
    ? await ask(rig, 'POST', `/v1/workloads/${workload}/keys`, { body: {} })
    : null;
  const whole = path.replace('{workload}', workload).replace('{key_id}', String(made?.body.id));
  return /\/(?:file|folder)/.test(path) ? `${whole}?path=/a` : whole;
}

/** What the row alone says of this caller. */
function expected(row: AuthRow, caller: Caller): 'through' | 401 | 403 | 404 {
  if (row.who === 'anyone') return 'through';
  if (row.who === 'endpoint-key') return 404;
  if (caller.role === null) return 401;
  return hasRole(caller.role, row.role) ? 'through' : 403;
}

const blocked = ['sign_in_required', 'forbidden', 'cross_site'];

describe('the row of each route decides, for every kind of caller', () => {
  for (const name of Object.keys(routes) as RouteName[]) {
    test(`${name}: ${JSON.stringify(routes[name].auth)}`, async () => {
      const { method, auth } = routes[name];
      for (const [who, caller] of Object.entries(callers)) {
        const path = await pathOf(name);
        const call = { token: caller.token, body: bodies[name] };
        const answer = await ask(rig, method.toUpperCase(), path, call);
        const wanted = expected(auth, caller);
        if (wanted !== 'through') {
          assert.equal(answer.status, wanted, who);
          const bad = { ...call, body: bodies[name] === undefined ? undefined : '{' };
          const early = await ask(rig, method.toUpperCase(), path, bad);
          assert.equal(early.status, wanted, `${who}, before the input is looked at`);
        } else if (caller.other_tenant && path.includes('/workloads/')) {
          assert.equal(answer.status, 404, who);
        } else {
          assert.equal(blocked.includes(answer.body.error?.code ?? ''), false, who);
          assert.ok(answer.status < 500, `${who}: ${answer.status}`);
        }
      }
    });
  }
});

test("another tenant's workload answers exactly like one that does not exist", async () => {
  const id = await launched();
  const token = callers['other tenant']?.token ?? null;
  const missing = `${id.slice(0, 20)}zzzzzz`;
  for (const name of Object.keys(routes) as RouteName[]) {
    const { method, path } = routes[name];
    if (!path.includes('{workload}')) continue;
    const at = (workload: string) =>
      ask(rig, method.toUpperCase(), path.replace('{workload}', workload), {
        token,
        body: bodies[name],
      });
    assert.deepEqual(same(await at(id), id), same(await at(missing), missing), name);
  }
});

function same(answer: Answer, id: string) {
  const { request_id: _, ...error } = answer.body.error ?? { request_id: '' };
  return JSON.stringify([answer.status, error]).replaceAll(id, '<id>');
}

test('a NUL is refused wherever it stands, once it is known who asks', async () => {
  const body = { kind: 'endpoint', model: 'smollm2-135m' };
  const refused: [string, string, unknown][] = [
    ['GET', '/v1/workloads/a%00b', undefined],
    ['GET', '/v1/workloads/x/events?cursor=%00', undefined],
    ['POST', '/v1/tokens', { name: 'a\0b' }],
    ['POST', '/v1/tenants', { slug: 'abc', name: '\0' }],
    ['POST', '/v1/plan', { ...body, model_params: { 'a\0': 1 } }],
    ['PUT', '/v1/secrets/some', { value: 'a\0' }],
  ];
  const token = callers.operator?.token ?? null;
  for (const [method, path, sent] of refused) {
    const how = sent === undefined ? {} : { body: sent };
    const answer = await ask(rig, method, path, { token, ...how });
    assert.deepEqual([answer.status, answer.body.error?.code], [400, 'bad_request'], path);
    assert.equal((await ask(rig, method, path, { token: null, ...how })).status, 401, path);
  }
  const text = { name: 'only the text \\u0000 of one' };
  assert.equal((await ask(rig, 'POST', '/v1/tokens', { token, body: text })).status, 201);
});

test("another tenant's workloads and machines are in no list", async () => {
  const id = await launched();
  const { store, ids } = rig;
  const text = "update machines set sharing = 'private' where id = $1";
  await store.transact('write', { text, params: [ids.machine_id] });
  const token = callers['other tenant']?.token ?? null;
  for (const path of ['/v1/workloads', '/v1/workloads?deleted=true', '/v1/machines']) {
    const { text } = await ask(rig, 'GET', path, { token });
    assert.equal(text.includes(id) || text.includes(ids.machine_id), false, path);
  }
});

test('every refusal has a code, a sentence, a fix and the id of its request', async () => {
  const refusals = [
    await ask(rig, 'GET', '/v1/nothing'),
    await ask(rig, 'GET', '/v1/me', { token: null }),
    await ask(rig, 'POST', '/v1/workloads', { body: '{' }),
    await ask(rig, 'POST', '/v1/workloads', { body: { kind: 'endpoint', model: 'nope' } }),
    await ask(rig, 'GET', '/v1/workloads/nothing'),
    await ask(rig, 'PUT', '/v1/workloads', { body: {} }),
  ];
  assert.deepEqual(
    refusals.map((answer) => [answer.status, answer.body.error?.code]),
    [
      [404, 'not_found'],
      [401, 'sign_in_required'],
      [400, 'bad_request'],
      [400, 'unknown_model'],
      [404, 'not_found'],
      [405, 'method_not_allowed'],
    ],
  );
  for (const { body, text } of refusals) {
    assert.deepEqual(Object.keys(body), ['error']);
    assert.match(body.error?.message ?? '', /\.$/);
    assert.match(body.error?.request_id ?? '', /^[0-9a-z]{26}$/);
    assert.ok(body.error !== undefined && 'fix' in body.error && 'details' in body.error);
    assert.doesNotMatch(text, /\bat .*\.ts:/);
  }
});

test('a path that is there but not by this method says by which', async () => {
  const { headers, status } = await ask(rig, 'PATCH', '/v1/workloads/a/stop', { body: {} });
  assert.deepEqual([status, headers.get('allow')], [405, 'POST']);
  const session = await ask(rig, 'GET', '/v1/session');
  assert.equal(session.headers.get('allow'), 'POST, DELETE');
});

test('what the schema does not know is refused, by the name of the field', async () => {
  const wrong: [unknown, RegExp][] = [
    [{ ...endpoint, sneaky: 1 }, /sneaky/],
    [{ ...endpoint, name: 'Not A Name' }, /name/],
    [{ ...endpoint, gpu_count: -1 }, /gpu_count/],
    [{ ...endpoint, model_params: { unknown: 1 } }, /model_params/],
    [[], /./],
    ['null', /./],
  ];
  for (const [body, problem] of wrong) {
    const { status, body: said } = await ask(rig, 'POST', '/v1/workloads', { body });
    assert.equal(status, 400, JSON.stringify(body));
    assert.match(said.error?.message ?? '', problem);
  }
});

test('a body over the limit is refused by its declared length and by its true one', async () => {
  const name = 'x'.repeat(limits.api_body_bytes);
  const length = { 'content-length': String(limits.api_body_bytes + 1) };
  const declared = await ask(rig, 'POST', '/v1/workloads', { body: '{}', headers: length });
  assert.deepEqual([declared.status, declared.body.error?.code], [413, 'body_too_large']);
  const body = JSON.stringify({ ...endpoint, name });
  const chunked = await ask(rig, 'POST', '/v1/workloads', { body });
  assert.deepEqual([chunked.status, chunked.body.error?.code], [413, 'body_too_large']);
});

const failures = [
  ['store_full', 507, 'store_full'],
  ['store_failing', 503, 'store_failing'],
  ['outcome_unknown', 503, 'outcome_unknown'],
  ['rejected', 500, 'internal'],
] as const;
for (const [failure, status, code] of failures) {
  test(`a store that fails with ${failure} is answered with ${status}, without a stack`, async () => {
    const broken = await createRig();
    broken.store.transact = () => Promise.reject(new StoreError(failure, 'sector 7 is gone'));
    const answer = await ask(broken, 'POST', '/v1/workloads', { body: endpoint });
    assert.deepEqual([answer.status, answer.body.error?.code], [status, code]);
    assert.doesNotMatch(answer.text, /sector 7|\.ts/);
    assert.equal(answer.headers.get('retry-after'), status === 503 ? '1' : null);
    const line = broken.lines.find((one) => one.level === 'error');
    assert.match(String(line?.error), /sector 7/);
    assert.equal(line?.request_id, answer.body.error?.request_id);
    await broken.close();
  });
}

test('a store that cannot be read is answered with 503', async () => {
  const broken = await createRig();
  broken.store.read = () => Promise.reject(new StoreError('store_failing', 'sector 8 is gone'));
  const answer = await ask(broken, 'GET', '/v1/workloads');
  assert.deepEqual([answer.status, answer.body.error?.code], [503, 'store_failing']);
  await broken.close();
});

test('a line of the log about a request has its id, tenant and subject', async () => {
  const own = await createRig();
  own.store.transact = () => Promise.reject(new Error('a defect'));
  const answer = await ask(own, 'POST', '/v1/workloads', { body: endpoint });
  const line = own.lines.find((one) => one.level === 'error');
  assert.deepEqual(
    [line?.request_id, line?.tenant, line?.subject],
    [answer.body.error?.request_id, 'local', 'op'],
  );
  await own.close();
});

test('the API describes itself, with every route and who may call it', async () => {
  const { body } = await ask(rig, 'GET', '/v1/openapi.json', { token: null });
  const described = body.paths as Record<string, Record<string, { security?: unknown[] }>>;
  for (const { path, method, auth } of Object.values(routes)) {
    const operation = described[path]?.[method];
    assert.ok(operation, `${method} ${path}`);
    assert.equal((operation.security ?? []).length > 0, auth.who === 'user', path);
  }
});

test('what was asked is on the timeline with who asked and by which request', async () => {
  const id = await launched();
  const rows = await select<{ actor: string; request_id: string | null }>(
    rig.store,
    'select actor, request_id from workload_events where workload_id = $1',
    [id],
  );
  assert.equal(rows[0]?.actor, 'user:op');
  assert.match(rows[0]?.request_id ?? '', /^[0-9a-z]{26}$/);
});

test('the document of the API is made once, whoever asks for it how often', async () => {
  const { api } = rig;
  const make = api.getOpenAPI31Document;
  let made = 0;
  api.getOpenAPI31Document = (...args) => {
    made += 1;
    return make.apply(api, args);
  };
  const answers = await Promise.all([1, 2, 3].map(() => ask(rig, 'GET', '/v1/openapi.json')));
  assert.ok(answers.every(({ status, body }) => status === 200 && 'paths' in body));
  assert.ok(made <= 1, `made ${made} times`);
});
