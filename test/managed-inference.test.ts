/**
 * Managed inference on made-up machines: an owner of a machine with a weak driver opens an
 * endpoint, others send prompts with keys of their own, and every other door is shut as if there
 * were none.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { routes } from '../src/contract/routes.ts';
import type { Workload } from '../src/contract/workloads.ts';
import { createGateway } from '../src/gateway/gateway.ts';
import { createFleet, type Fleet } from './lib/fleet.ts';
import { type RigServer, serveRig } from './lib/rig-server.ts';
import { targetsOf } from './lib/rig-targets.ts';

const endpoint = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g' };
const fleet = {} as Fleet;
const served = {} as RigServer;
let chat = {} as Workload;

before(async () => {
  Object.assign(
    fleet,
    await createFleet([
      {
        ...{ name: 'studio', owner: 'acme', as: 'docker', sharing: 'invite-only' },
        guests: ['bolt', 'core'],
      },
      { name: 'closet', owner: 'acme', as: 'docker' },
      { name: 'rack', as: 'libvirt' },
    ]),
  );
  const { clock, log, apiDeps } = fleet.rig;
  await fleet.person('acme', 'tenant-admin');
  const gateway = createGateway({
    ...targetsOf(fleet.rig),
    dial: (run, machine_id, port) => apiDeps.backend.dial(machine_id, run, port),
    ...{ clock, log },
  });
  Object.assign(served, await serveRig(fleet.rig, gateway));
  chat = await fleet.launch('acme', {
    ...{ ...endpoint, name: 'chat', machine: 'studio' },
  });
  chat = await fleet.untilState('acme', chat.id, 'running');
});
after(async () => {
  await served.close?.();
  await fleet.close?.();
});

const share = (body: object, slug = 'acme') =>
  fleet.ask(slug, 'PUT', '/v1/workloads/chat/sharing', body);
const closed = { uninvite: ['bolt', 'core'], community: false };

async function keyOf(slug: string, model = 'acme/chat'): Promise<string> {
  const made = await fleet.ask(slug, 'POST', '/v1/model-keys', { models: [model] });
  assert.equal(made.status, 201, made.text);
  return String(made.body.key);
}

async function prompt(key: string, more: object = {}, path = '/v1/chat/completions') {
  const messages = [{ role: 'user', content: 'hello' }];
  const is_listing = path === '/v1/models';
  const response = await fetch(`${served.url}${path}`, {
    method: is_listing ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(is_listing ? {} : { body: JSON.stringify({ model: 'acme/chat', messages, ...more }) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}

test('nothing is open before its owner opens it, and only an admin may', async () => {
  const refused = await fleet.ask('bolt', 'POST', '/v1/model-keys', { models: ['acme/chat'] });
  const unknown = await fleet.ask('bolt', 'POST', '/v1/model-keys', { models: ['acme/none'] });
  const plain = (text: string) =>
    text.replace(/"request_id":"[^"]*"/g, '').replaceAll('acme/none', 'acme/chat');
  assert.deepEqual([refused.status, plain(refused.text)], [404, plain(unknown.text)]);
  assert.deepEqual((await fleet.ask('bolt', 'GET', '/v1/open-models')).body.items, []);
  assert.equal((await share({ invite: ['bolt'] }, 'bolt')).status, 403);
  const { tenant_id } = await fleet.person('acme');
  assert.ok(tenant_id);
});

test('a guest prompts with a key of its own, is told the class and not the machine', async () => {
  const opened = await share({ invite: ['bolt'] });
  assert.equal(opened.status, 200, opened.text);
  assert.deepEqual(opened.body, { model: 'acme/chat', community: false, invited: ['bolt'] });
  const { items = [] } = (await fleet.ask('bolt', 'GET', '/v1/open-models')).body;
  assert.deepEqual(
    items.map(({ model, owner }) => [model, owner]),
    [['acme/chat', 'acme']],
  );
  const key = await keyOf('bolt');
  const models = JSON.parse((await prompt(key, {}, '/v1/models')).text) as {
    data: { id: string }[];
  };
  assert.deepEqual(
    models.data.map(({ id }) => id),
    ['acme/chat'],
  );
  const answer = await prompt(key);
  assert.equal(answer.status, 200, answer.text);
  assert.match(answer.text, /This is the sim driver/);
  const by = answer.headers.get('x-einsora-served-by') ?? '';
  assert.doesNotMatch(by, /studio/);
  assert.match(by, /class=cpu-1c-2g/);
  assert.equal((await prompt(key, { model: 'chat' })).status, 404);
  const line = fleet.rig.lines.findLast(({ message }) => message === 'gateway request');
  assert.equal(line?.tenant, (await fleet.person('bolt')).tenant_id);
});

test('every other door is shut for a guest, as for what does not exist', async () => {
  await share({ invite: ['bolt'] });
  const key = await keyOf('bolt');
  const never = '0'.repeat(26);
  let asked = 0;
  for (const { method, path } of Object.values(routes)) {
    if (!path.startsWith('/v1/workloads/{workload}')) continue;
    for (const id of [chat.id, 'chat', 'acme/chat']) {
      const at = (name: string) =>
        `${path.replace('{workload}', encodeURIComponent(name)).replace(/\{\w+\}/g, '1')}?path=%2F`;
      const body = method === 'get' || method === 'delete' ? undefined : {};
      const theirs = await fleet.ask('bolt', method.toUpperCase(), at(id), body);
      const none = await fleet.ask('bolt', method.toUpperCase(), at(never), body);
      const plain = ({ status, text }: typeof none, name: string) => [
        status,
        text.replace(/"request_id":"[^"]*"/g, '').replaceAll(name, 'X'),
      ];
      assert.deepEqual(plain(theirs, id), plain(none, never), `${method} ${path} ${id}`);
      assert.ok(theirs.status >= 400, `${method} ${path}`);
      asked += 1;
    }
  }
  assert.ok(asked >= 40, `${asked} questions`);
  for (const path of ['/v1/workloads', '/v1/machines', '/v1/events', '/v1/model-keys']) {
    const { text } = await fleet.ask('bolt', 'GET', path);
    assert.ok(!text.includes(chat.id), path);
  }
  // The key is good at the gateway alone.
  const { status } = await fetch(`${served.url}/v1/workloads`, {
    headers: { authorization: `Bearer ${key}` },
  });
  assert.equal(status, 401);
});

test("the owner does not see the guests' keys, in lists or in an export", async () => {
  await share({ invite: ['bolt'] });
  const key = await keyOf('bolt');
  for (const path of [`/v1/workloads/${chat.id}/keys`, `/v1/workloads/${chat.id}/export`]) {
    const { status, text } = await fleet.ask('acme', 'GET', path);
    assert.equal(status, 200, path);
    assert.ok(!text.includes(key.slice(-4)), path);
  }
  const { items = [] } = (await fleet.ask('bolt', 'GET', '/v1/model-keys')).body;
  const made = items.find(({ last_four }) => last_four === key.slice(-4));
  assert.deepEqual(made?.models, ['acme/chat']);
  const by_owner = await fleet.ask('acme', 'DELETE', `/v1/workloads/chat/keys/${made?.id}`);
  assert.equal(by_owner.status, 404);
  const by_other = await fleet.ask('core', 'DELETE', `/v1/model-keys/${made?.id}`);
  assert.equal(by_other.status, 404);
  const by_own = await fleet.ask('bolt', 'DELETE', `/v1/model-keys/${made?.id}`);
  assert.equal(by_own.status, 204);
  assert.equal((await prompt(key)).status, 401);
});

test('it closes with the next request, however it was closed', async () => {
  const { rig } = fleet;
  const machine_id = fleet.machine('studio').machine_id;
  const write = (text: string, ...params: (string | number)[]) =>
    rig.store.transact('write', { text, params });
  const { tenant_id } = await fleet.person('bolt');
  const ways: [string, () => Promise<unknown>, () => Promise<unknown>][] = [
    ['the owner', () => share({ uninvite: ['bolt'] }), () => share({ invite: ['bolt'] })],
    [
      'the machine is private',
      () => write("update machines set sharing = 'private' where id = $1", machine_id),
      () => write("update machines set sharing = 'invite-only' where id = $1", machine_id),
    ],
    [
      'the guest of the machine is removed',
      () => write('delete from machine_guests where tenant_id = $1', tenant_id),
      () =>
        write(
          'insert into machine_guests (machine_id, tenant_id, created_at) values ($1, $2, 1)',
          ...[machine_id, tenant_id],
        ),
    ],
    [
      'the tenant that owns it is disabled',
      () => write("update tenants set disabled_at = 1 where slug = 'acme'"),
      () => write("update tenants set disabled_at = null where slug = 'acme'"),
    ],
  ];
  await share({ invite: ['bolt'] });
  const key = await keyOf('bolt');
  for (const [what, close, open] of ways) {
    assert.equal((await prompt(key)).status, 200, what);
    await close();
    const shut = await prompt(key);
    assert.deepEqual(
      [shut.status, JSON.parse(shut.text).error.code],
      [404, 'model_not_found'],
      what,
    );
    const listed = await prompt(key, {}, '/v1/models');
    assert.deepEqual(JSON.parse(listed.text).data, [], what);
    await open();
  }
  assert.equal((await prompt(key)).status, 200);
});

test('open to the community is open to whom the machine is shared with, and nobody else', async () => {
  await share(closed);
  const opened = await share({ community: true });
  assert.equal(opened.body.community, true);
  assert.equal((await prompt(await keyOf('core'))).status, 200);
  const stranger = await fleet.ask('dust', 'POST', '/v1/model-keys', { models: ['acme/chat'] });
  assert.equal(stranger.status, 404);
  await share({ community: false });
  const refused = await share({ invite: ['dust'] });
  assert.deepEqual([refused.status, refused.body.error?.code], [409, 'machine_not_shared']);
  assert.match(refused.text, /machine share studio --invite dust/);
});

test('an endpoint that runs on a machine that is not shared is not there for guests', async () => {
  const inner = await fleet.launch('acme', { ...endpoint, name: 'inner', machine: 'closet' });
  await fleet.untilState('acme', inner.id, 'running');
  const path = '/v1/workloads/inner/sharing';
  const opened = await fleet.ask('acme', 'PUT', path, { invite: ['bolt'] });
  assert.equal(opened.status, 200, opened.text);
  const key = await keyOf('bolt', 'acme/inner');
  assert.equal((await prompt(key, { model: 'acme/inner' })).status, 404);
  assert.deepEqual(JSON.parse((await prompt(key, {}, '/v1/models')).text).data, []);
});

test('an endpoint is open only on machines of its owner', async () => {
  const { store } = fleet.rig;
  await share({ invite: ['bolt'] });
  const key = await keyOf('bolt');
  const { tenant_id } = await fleet.person('core');
  const own = (text: string, params: string[]) => store.transact('write', { text, params });
  const id = fleet.machine('studio').machine_id;
  await own('update machines set tenant_id = $1 where id = $2', [tenant_id, id]);
  assert.equal((await prompt(key)).status, 404);
  const { tenant_id: acme } = await fleet.person('acme');
  await own('update machines set tenant_id = $1 where id = $2', [acme, id]);
  assert.equal((await prompt(key)).status, 200);
});
