/**
 * The gateway's part of the matrix, over real HTTP: its paths open by endpoint keys alone, each key
 * for its own endpoint; the API's paths never do.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gatewayRoutes } from '../src/contract/routes.ts';
import { makeToken } from '../src/core/token.ts';
import { createGateway } from '../src/gateway/gateway.ts';
import { digest } from '../src/lib/secret.ts';
import { ask } from './lib/rig.ts';
import { type RigServer, serveRig } from './lib/rig-server.ts';
import { targetsOf } from './lib/rig-targets.ts';
import { createWorld, type Headers, type Place, type World } from './matrix/world.ts';

const world = {} as World;
const served = {} as RigServer;

before(async () => {
  Object.assign(world, await createWorld());
  const { rig } = world;
  const gateway = createGateway({
    ...targetsOf(rig),
    dial: async () => {
      throw new Error('nothing runs here');
    },
    ...{ clock: rig.clock, log: rig.log },
  });
  Object.assign(served, await serveRig(rig, gateway));
});
after(async () => {
  await served.close();
  await world.close();
});

type Endpoint = { name: string; id: string; key_id: string; key: string };

async function endpointOf(place: Place, expires_in_ms?: number): Promise<Endpoint> {
  const { rig, fresh } = world;
  const { token } = place.people.member;
  const name = fresh();
  const body = { kind: 'endpoint', model: 'smollm2-135m', name };
  const { id } = (await ask(rig, 'POST', '/v1/workloads', { token, body })).body;
  const made = await ask(rig, 'POST', `/v1/workloads/${id}/keys`, {
    token,
    body: expires_in_ms === undefined ? {} : { expires_in_ms },
  });
  assert.equal(made.status, 201, made.text);
  return { name, id: String(id), key_id: String(made.body.id), key: String(made.body.key) };
}

async function call(method: string, path: string, headers: Headers, model: string) {
  const has_body = method === 'POST';
  const messages = [{ role: 'user', content: 'hello' }];
  const filled = path.replace('{model}', encodeURIComponent(model || 'none'));
  const response = await fetch(`${served.url}${filled}`, {
    method,
    headers: { ...headers, ...(has_body ? { 'content-type': 'application/json' } : {}) },
    ...(has_body ? { body: JSON.stringify({ model, messages, prompt: 'hello' }) } : {}),
  });
  const text = await response.text();
  const error = (JSON.parse(text) as { error?: Record<string, unknown> }).error;
  assert.match(response.headers.get('x-request-id') ?? '', /^[0-9a-z]{26}$/);
  return { status: response.status, code: error?.code ?? null, message: error?.message, text };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

test('only an endpoint key that still works opens a path of the gateway', async () => {
  const { rig, home, operator, write } = world;
  const { name, key } = await endpointOf(home);
  const revoked = await endpointOf(home);
  await write('update endpoint_keys set revoked_at = 1 where id = $1', [revoked.key_id]);
  const expired = await endpointOf(home, 60_000);
  await rig.clock.advance(60_000);
  const deleted = await endpointOf(home);
  const { token } = home.people.member;
  await ask(rig, 'DELETE', `/v1/workloads/${deleted.id}`, { token });
  const nobody: [string, Headers][] = [
    ['nobody', {}],
    ['an operator', world.bearer(operator)],
    ['a member of its tenant', world.bearer(home.people.member)],
    ['a session', await world.cookie(operator)],
    ['a machine by its id', bearer(rig.ids.machine_id)],
    ['an unknown key', bearer(makeToken('ept_', rig.random.bytes(32)))],
    ['a key as a cookie', { cookie: `einsora_session_4600=${key}` }],
    ['a revoked key', bearer(revoked.key)],
    ['an expired key', bearer(expired.key)],
    ["a deleted endpoint's key", bearer(deleted.key)],
  ];
  for (const { method, path } of gatewayRoutes) {
    for (const [who, headers] of nobody) {
      const { status, code } = await call(method, path, headers, name);
      assert.deepEqual([status, code], [401, 'invalid_api_key'], `${who} on ${path}`);
    }
    const own = await call(method, path, bearer(key), name);
    const wanted = method === 'GET' ? [200, null] : [503, 'not_ready'];
    assert.deepEqual([own.status, own.code], wanted, path);
  }
});

test('a key opens its own endpoint; any other, of its tenant or not, looks like none', async () => {
  const { home, away, fresh } = world;
  const own = await endpointOf(home);
  const others = [await endpointOf(home), await endpointOf(away)];
  for (const { method, path } of gatewayRoutes) {
    if (method === 'GET') {
      const { text } = await call(method, path, bearer(own.key), '');
      for (const { name, id } of others)
        assert.equal(text.includes(name) || text.includes(id), false);
      continue;
    }
    const none = fresh();
    const missing = await call(method, path, bearer(own.key), none);
    assert.equal(missing.status, 404);
    for (const { name } of others) {
      const told = await call(method, path, bearer(own.key), name);
      assert.deepEqual([told.status, told.code], [404, 'model_not_found']);
      assert.equal(String(told.message).replace(name, none), missing.message);
    }
  }
});

/** A notebook of a place that runs (as far as the store knows), and the key of its run. */
async function runKeyOf(place: Place): Promise<{ id: string; key: string }> {
  const { rig, fresh, write } = world;
  const { token } = place.people.member;
  const body = { kind: 'notebook', name: fresh() };
  const { id } = (await ask(rig, 'POST', '/v1/workloads', { token, body })).body;
  await write("update workloads set state = 'running', run_epoch = 1 where id = $1", [String(id)]);
  await write(
    `insert into runs (workload_id, replica, run_epoch, machine_id, driver, isolation, placed_class,
       wanted, observed, created_at)
     values ($1, 0, 1, $2, 'sim', 'weak', 'cpu', 'run', 'present', 0)`,
    [String(id), rig.ids.machine_id],
  );
  const key = makeToken('ept_', rig.random.bytes(32));
  const run = { workload_id: String(id), replica: 0, run_epoch: 1 };
  await rig.store.transact('keepRunKey', { ...run, hash: digest(key), now: 0 });
  return { id: String(id), key };
}

test("a notebook's key opens the endpoints of its tenant, and nothing else", async () => {
  const { rig, local, away, fresh } = world;
  const { id, key } = await runKeyOf(local);
  const own = await endpointOf(local);
  const of_others = await endpointOf(away);
  for (const { method, path } of gatewayRoutes) {
    if (method === 'GET') {
      const { status, text } = await call(method, path, bearer(key), '');
      assert.equal(status, path.includes('{') ? 404 : 200);
      assert.ok(!text.includes(of_others.name));
      continue;
    }
    const told = await call(method, path, bearer(key), own.name);
    assert.deepEqual([told.status, told.code], [503, 'not_ready'], path);
    const none = fresh();
    const missing = await call(method, path, bearer(key), none);
    for (const name of [
      of_others.name,
      (
        await ask(rig, 'GET', `/v1/workloads/${id}`, {
          token: local.people.member.token,
        })
      ).body.name as string,
    ]) {
      const other = await call(method, path, bearer(key), name);
      assert.deepEqual([other.status, other.code], [404, 'model_not_found']);
      assert.equal(String(other.message).replace(name, none), missing.message);
    }
  }
  for (const path of ['/v1/workloads', `/v1/workloads/${id}`, '/v1/secrets', '/v1/machines']) {
    assert.equal((await ask(rig, 'GET', path, { token: key })).status, 401, path);
  }
  const listed = await ask(rig, 'GET', `/v1/workloads/${id}/keys`, local.people.member);
  assert.deepEqual(listed.body.items, []);
});

test("a notebook's key ends with a wish to stop, its maker's role, and the run", async () => {
  const { rig, local, write } = world;
  const status = async (key: string) => (await call('GET', '/v1/models', bearer(key), '')).status;
  const stopped = await runKeyOf(local);
  const { member, viewer } = local.people;
  assert.equal(await status(stopped.key), 200);
  const stop = await ask(rig, 'POST', `/v1/workloads/${stopped.id}/stop`, member);
  assert.equal(stop.status, 202, stop.text);
  assert.equal(await status(stopped.key), 401);
  const ended = await runKeyOf(local);
  await write('update runs set ended_at = 1 where workload_id = $1', [ended.id]);
  assert.equal(await status(ended.key), 401);
  const of_viewer = await runKeyOf(local);
  await write('update workloads set creator_id = $1 where id = $2', [viewer.user_id, of_viewer.id]);
  assert.equal(await status(of_viewer.key), 401);
});

test('a key stops with the user who made it, and with its tenant', async () => {
  const { home, away, write } = world;
  const by_user = await endpointOf(home);
  const by_tenant = await endpointOf(away);
  await write('update users set disabled_at = 1 where id = $1', [home.people.member.user_id]);
  await write('update tenants set disabled_at = 1 where id = $1', [away.tenant_id]);
  for (const { name, key } of [by_user, by_tenant]) {
    for (const { method, path } of gatewayRoutes) {
      assert.equal((await call(method, path, bearer(key), name)).status, 401);
    }
  }
});
