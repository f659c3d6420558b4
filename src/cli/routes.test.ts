/**
 * `einsora routes` against a real API: who answers for each name, and how that stands.
 */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  gib,
  inventoryOf,
  type Rig,
} from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { targetsOf } from '../../test/lib/rig-targets.ts';
import { runCli } from '../../test/lib/run-cli.ts';
import type { ModelRoutePage } from '../contract/model-routes.ts';
import { no_request_limits } from '../core/request-limits.ts';
import type { Balancer } from '../gateway/balance/balancer.ts';
import type { GatewayKey } from '../gateway/key.ts';
import { createStop } from '../gateway/stop.ts';

let rig: Rig;
let served: RigServer;
beforeEach(async () => {
  rig = await createRig();
  served = await serveRig(rig);
});
afterEach(async () => {
  await served.close();
  await rig.close();
});

const run = (...args: string[]) => runCli(args, { data_dir: served.data_dir });

/** An endpoint that answers; gives its run. */
async function answering(name: string) {
  const { machine_id } = rig.ids;
  const inventory = inventoryOf({ cpu_millis: 8000, memory_bytes: 16 * gib });
  await rig.sync.hello(machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });
  const body = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-2c-4g', name };
  const { body: made } = await ask(rig, 'POST', '/v1/workloads', { body });
  const one = { workload_id: String(made.id), replica: 0, run_epoch: 1 };
  const cause = { now: rig.clock.now(), mono: 0, actor: 'test', request_id: 'r' };
  await rig.store.transact('placeWorkload', {
    ...{ ...cause, workload_id: one.workload_id, revision: 1 },
    placement: {
      ...{ machine_id, machine_name: 'desk', driver: 'sim', isolation: 'weak' },
      placed_class: 'cpu-2c-4g',
    },
  });
  const facts = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
  const observed = [{ ...one, state: 'ready' as const, ...facts }];
  await rig.store.transact('applyReport', { ...cause, machine_id, machine_name: 'd', observed });
  return one;
}

test('each name has a line, with how busy its replica is and what last failed', async () => {
  const one = await answering('chat');
  await ask(rig, 'POST', '/v1/workloads', {
    body: { kind: 'endpoint', model: 'smollm2-135m', name: 'later' },
  });
  const balancer = rig.apiDeps.balancer as Balancer;
  balancer.begin(one);
  const quiet = await run('routes');
  assert.equal(quiet.code, 0, quiet.stderr);
  const [heading, first, second] = quiet.stdout.split('\n');
  assert.match(heading ?? '', /^MODEL +REPLICA +STATE +MACHINE +CLASS +REGION +BUSY +PER MIN/);
  assert.match(first ?? '', /^chat +0 +ready +\S+ +cpu-2c-4g +local +1\/2 +1 +-$/);
  assert.match(second ?? '', /^later +- +(?:pending|queued) /);
  balancer.begin(one).ended('unreachable', 'engine_unreachable');
  const failed = await run('routes');
  assert.match(failed.stdout, /chat +0 +left alone .* The machine of this endpoint could not be/);
});

test('as JSON it is what the API says, page by page', async () => {
  const none = await run('routes');
  assert.deepEqual([none.code, none.stdout], [0, '']);
  assert.match(none.stderr, /No endpoints. Try: .*launch endpoint/);
  for (const name of ['b', 'a', 'c']) {
    await ask(rig, 'POST', '/v1/workloads', {
      body: { kind: 'endpoint', model: 'smollm2-135m', name },
    });
  }
  const { stdout } = await run('routes', '--json');
  const items = JSON.parse(stdout).items as ModelRoutePage['items'];
  assert.deepEqual(
    items.map(({ model, replicas, replicas_ready, engine }) => [
      model,
      replicas,
      replicas_ready,
      engine,
    ]),
    ['a', 'b', 'c'].map((name) => [name, 1, 0, 'llama-server']),
  );
  const page = async (query: string) =>
    (await ask(rig, 'GET', `/v1/routes?${query}`)).body as unknown as ModelRoutePage;
  const [two, rest] = [await page('limit=2'), await page('limit=2&cursor=b')];
  assert.deepEqual([two.items.length, two.next_cursor], [2, 'b']);
  assert.deepEqual([rest.items.map(({ model }) => model), rest.next_cursor], [['c'], null]);
});

test("nobody is shown another tenant's", async () => {
  await answering('chat');
  await addTenant(rig.store, 'away', 'away');
  const who = { tenant_id: 'away', name: 'eve', role: 'viewer' as const };
  const { token } = await addUser(rig.store, rig.random, who);
  const { status, body } = await ask(rig, 'GET', '/v1/routes', { token });
  assert.deepEqual([status, body.items], [200, []]);
});

test('an endpoint answers to its aliases, and a launch does not take one of them', async () => {
  const { workload_id } = await answering('chat');
  const none = await run('endpoint', 'alias', 'chat');
  assert.match(none.stderr, /chat has no other name/);
  const added = await run('endpoint', 'alias', 'chat', 'gpt-4o', 'Local/Small');
  assert.match(added.stderr, /chat is also called Local\/Small, gpt-4o\./);
  assert.match((await run('routes')).stdout, /^chat = Local\/Small = gpt-4o +0 +ready/m);
  const targets = targetsOf(rig);
  const key: GatewayKey = {
    ...{ id: 'k', tenant_id: rig.ids.tenant_id, user_id: 'u', workload_ids: [workload_id] },
    ...{ expires_at: null, revoked_at: null },
    ...{ limits: no_request_limits, user_limits: no_request_limits },
  };
  const led = async (one: GatewayKey, model: string) => {
    const found = await targets.findEndpoint(one, model, createStop());
    return found.ok ? found.endpoint.name : found.code;
  };
  for (const one of [key, { ...key, workload_ids: null }]) {
    assert.equal(await led(one, 'gpt-4o'), 'chat');
    const models = (await targets.listModels(one)).map(({ id }) => id);
    assert.deepEqual(models.toSorted(), ['Local/Small', 'chat', 'gpt-4o']);
  }
  assert.equal(await led({ ...key, workload_ids: ['another'] }, 'gpt-4o'), 'not_found');
  assert.equal(await led({ ...key, tenant_id: 'away' }, 'gpt-4o'), 'not_found');
  const taken = await run('launch', 'endpoint', 'smollm2-135m', '--name', 'gpt-4o', '--detach');
  assert.equal(taken.code === 0, false);
  assert.match(taken.stderr, /gpt-4o/);
  await run('endpoint', 'alias', 'chat', '--remove', 'gpt-4o');
  assert.equal(await led(key, 'gpt-4o'), 'not_found');
  const odd = await run('endpoint', 'alias', 'chat', 'a b');
  assert.equal(odd.code === 0, false);
});
