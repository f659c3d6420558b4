/**
 * Workloads over HTTP: planned, launched, paged, changed, and repeated with the same key.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settle } from '../../../test/lib/fake-clock.ts';
import { addUser, ask, createRig, gib, inventoryOf, type Rig } from '../../../test/lib/rig.ts';

const endpoint = { kind: 'endpoint', model: 'smollm2-135m' };

function given(name: string, body: (rig: Rig) => Promise<void>): void {
  test(name, async () => {
    const rig = await createRig();
    try {
      await body(rig);
    } finally {
      await rig.close();
    }
  });
}

const launch = (rig: Rig, body: object = endpoint, key?: string, token?: string) =>
  ask(rig, 'POST', '/v1/workloads', {
    body,
    headers: key === undefined ? {} : { 'idempotency-key': key },
    ...(token === undefined ? {} : { token }),
  });

async function countOf(rig: Rig): Promise<number> {
  return (await ask(rig, 'GET', '/v1/workloads?deleted=true')).body.items?.length ?? -1;
}

given('a launch is recorded with every default filled in, and wakes admission', async (rig) => {
  const { status, body } = await launch(rig);
  assert.equal(status, 201);
  const { name, state, gpu_class, cpu_millis, memory_bytes, queue_place, url } = body;
  assert.deepEqual(
    { name, state, gpu_class, cpu_millis, memory_bytes, queue_place, url },
    {
      name: 'smollm2-135m',
      state: 'pending',
      gpu_class: 'cpu-1c-2g',
      cpu_millis: 1000,
      memory_bytes: 2 * gib,
      queue_place: null,
      url: 'http://localhost:4600/v1',
    },
  );
  assert.equal(rig.woken.controller, 1);
});

given('a notebook is shown with its image and without the values of its variables', async (rig) => {
  const token = { secret: 'mine' };
  const body = { kind: 'notebook', name: 'lab', env: { MODE: 'a-plain-value', TOKEN: token } };
  const without = await launch(rig, body);
  assert.deepEqual([without.status, without.body.error?.code], [409, 'unknown_secret']);
  await ask(rig, 'PUT', '/v1/secrets/mine', { body: { value: 'a-secret-value' } });
  const plan = await ask(rig, 'POST', '/v1/plan', { body });
  const made = await launch(rig, body);
  assert.equal(made.status, 201);
  assert.deepEqual(made.body.env, { MODE: 'REDACTED', TOKEN: token });
  assert.equal(made.body.image_id, 'jupyter');
  assert.equal(made.body.url, null);
  const shown = await ask(rig, 'GET', '/v1/workloads/lab');
  const listed = await ask(rig, 'GET', '/v1/workloads');
  for (const answer of [plan, made, shown, listed]) {
    assert.ok(!/a-plain-value|a-secret-value/.test(JSON.stringify(answer.body)));
  }
});

given('an image that does not exist is refused before anything is recorded', async (rig) => {
  const { status, body } = await launch(rig, { kind: 'instance', image_id: 'debain' });
  assert.deepEqual([status, body.error?.code], [400, 'unknown_image']);
  assert.equal(body.error?.fix, 'bin/einsora catalog');
  assert.equal(await countOf(rig), 0);
});

given('sixty-four launches at once are all recorded, and room for one places one', async (rig) => {
  const inventory = inventoryOf({ cpu_millis: 1000, memory_bytes: 2 * gib });
  await rig.sync.hello(rig.ids.machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });
  rig.startController();
  const answers = await Promise.all(Array.from({ length: 64 }, () => launch(rig)));
  assert.ok(answers.every((answer) => answer.status === 201));
  for (let round = 0; round < 20; round += 1) await settle();
  const { items = [] } = (await ask(rig, 'GET', '/v1/workloads?limit=200')).body;
  const placed = items.filter((one) => one.state === 'provisioning');
  const places = items.filter((one) => one.state === 'queued').map((one) => one.queue_place);
  assert.equal(placed.length, 1);
  assert.deepEqual(
    places.toSorted((a, b) => Number(a) - Number(b)),
    Array.from({ length: 63 }, (_, index) => index + 1),
  );
});

given('a repeat with the same key has one effect and the same answer', async (rig) => {
  const first = await launch(rig, endpoint, 'once');
  const again = await launch(rig, endpoint, 'once');
  assert.deepEqual([again.status, again.body], [first.status, first.body]);
  assert.equal(await countOf(rig), 1);
});

given('a repeat after it was placed still tells what was true then', async (rig) => {
  const inventory = inventoryOf({ cpu_millis: 4000, memory_bytes: 8 * gib });
  await rig.sync.hello(rig.ids.machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });
  const first = await launch(rig, endpoint, 'once');
  await rig.startController().pass();
  const now = await ask(rig, 'GET', `/v1/workloads/${first.body.id}`);
  assert.equal(now.body.state, 'provisioning');
  const again = await launch(rig, endpoint, 'once');
  assert.deepEqual([again.body.state, again.body.placement], ['pending', null]);
});

given('the same key with another body or another path is refused', async (rig) => {
  const first = await launch(rig, endpoint, 'once');
  const other = await launch(rig, { ...endpoint, name: 'other' }, 'once');
  assert.deepEqual([other.status, other.body.error?.code], [409, 'idempotency_key_reused']);
  const stop = await ask(rig, 'POST', `/v1/workloads/${first.body.id}/stop`, {
    headers: { 'idempotency-key': 'once' },
  });
  assert.equal(stop.body.error?.code, 'idempotency_key_reused');
  assert.equal(await countOf(rig), 1);
});

given('keys of two users have nothing to do with each other', async (rig) => {
  const { tenant_id } = rig.ids;
  const user = { tenant_id, name: 'bob', role: 'member' as const };
  const { token } = await addUser(rig.store, rig.random, user);
  await launch(rig, endpoint, 'once');
  const other = await launch(rig, { ...endpoint, name: 'bobs' }, 'once', token);
  assert.equal(other.status, 201);
  assert.equal(await countOf(rig), 2);
});

given('an empty or endless key is refused', async (rig) => {
  for (const key of ['', 'k'.repeat(256)]) {
    assert.equal((await launch(rig, endpoint, key)).status, 400, `${key.length}`);
  }
});

given('a stop that is repeated with its key does not stop a second time', async (rig) => {
  const { id } = (await launch(rig)).body;
  const change = (what: string, key: string) =>
    ask(rig, 'POST', `/v1/workloads/${id}/${what}`, { headers: { 'idempotency-key': key } });
  assert.equal((await change('stop', 'a')).body.state, 'stopped');
  assert.equal((await change('start', 'b')).body.state, 'pending');
  assert.equal((await change('stop', 'a')).body.state, 'stopped', 'the answer of then');
  assert.equal((await ask(rig, 'GET', `/v1/workloads/${id}`)).body.state, 'pending');
});

given('a name that is taken is said, and nothing recorded', async (rig) => {
  await launch(rig, { ...endpoint, name: 'chat' });
  const { status, body } = await launch(rig, { ...endpoint, name: 'chat' });
  assert.deepEqual([status, body.error?.code], [409, 'name_taken']);
  assert.match(body.error?.message ?? '', /chat/);
  assert.equal(await countOf(rig), 1);
});

given('pages are complete and without repeats while rows arrive', async (rig) => {
  for (let count = 0; count < 9; count += 1) {
    await launch(rig);
    rig.clock.stepWall(count % 2);
  }
  const before = (await ask(rig, 'GET', '/v1/workloads?limit=200')).body.items ?? [];
  const seen: unknown[] = [];
  let cursor: unknown = '';
  for (let page = 0; page < 20 && cursor !== null; page += 1) {
    const more = cursor === '' ? '' : `&cursor=${cursor}`;
    const { body } = await ask(rig, 'GET', `/v1/workloads?limit=2${more}`);
    seen.push(...(body.items ?? []).map((one) => one.id));
    cursor = body.next_cursor;
    rig.clock.stepWall(10);
    await launch(rig);
  }
  assert.deepEqual(
    seen,
    before.map((one) => one.id),
  );
});

given('a page that nobody gave out, or of no size, is refused', async (rig) => {
  await launch(rig);
  const bad = ['cursor=x', 'cursor=1', 'limit=0', 'limit=201', 'limit=a', 'deleted=yes'];
  for (const query of bad) {
    const { status } = await ask(rig, 'GET', `/v1/workloads?${query}`);
    assert.equal(status, 400, query);
  }
  const events = await ask(rig, 'GET', '/v1/workloads/smollm2-135m/events?cursor=x');
  assert.equal(events.status, 400);
});

given('a timeline is followed by its cursor, event by event', async (rig) => {
  const { id } = (await launch(rig)).body;
  await ask(rig, 'POST', `/v1/workloads/${id}/stop`);
  await ask(rig, 'POST', `/v1/workloads/${id}/start`);
  const numbers: unknown[] = [];
  let cursor = '0';
  for (let page = 0; page < 10; page += 1) {
    const path = `/v1/workloads/${id}/events?limit=1&cursor=${cursor}`;
    const { body } = await ask(rig, 'GET', path);
    const [event] = body.items ?? [];
    if (event === undefined) break;
    assert.match(String(event.message), /\.$/);
    numbers.push(event.number);
    cursor = String(body.next_cursor);
  }
  assert.deepEqual(numbers, [1, 2, 3, 4]);
});

given('stop, start and delete are accepted, and agents hear of it at once', async (rig) => {
  const { id } = (await launch(rig)).body;
  const states = [];
  for (const [method, what] of [
    ['POST', '/stop'],
    ['POST', '/stop'],
    ['POST', '/start'],
    ['DELETE', ''],
  ]) {
    const { status, body } = await ask(rig, method ?? '', `/v1/workloads/${id}${what}`);
    states.push([status, body.state]);
  }
  assert.deepEqual(states, [
    [202, 'stopped'],
    [202, 'stopped'],
    [202, 'pending'],
    [202, 'deleted'],
  ]);
  assert.equal(rig.woken.agents, 4);
  const { status, body } = await ask(rig, 'POST', `/v1/workloads/${id}/start`);
  assert.deepEqual([status, body.error?.code], [409, 'already_deleted']);
});

given('a plan says where, why not elsewhere, and changes nothing', async (rig) => {
  const inventory = inventoryOf({ cpu_millis: 1000, memory_bytes: gib });
  await rig.sync.hello(rig.ids.machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });
  const { status, body } = await ask(rig, 'POST', '/v1/plan', { body: endpoint });
  assert.equal(status, 200);
  assert.equal(body.chosen, null);
  const [refused] = body.machines_not_chosen as { code: string; message: string }[];
  assert.equal(refused?.code, 'memory_short');
  assert.equal(refused?.message, 'desk offers 1 GiB (1 GiB free), less than the 2 GiB asked for.');
  assert.deepEqual(body.queue, { place: 1, own: [], own_more: 0, others: 0 });
  assert.equal(await countOf(rig), 0);
});

given('the output of what has no run is empty', async (rig) => {
  await launch(rig);
  const { body } = await ask(rig, 'GET', '/v1/workloads/smollm2-135m/logs');
  assert.deepEqual(body, { text: '', next_offset: 0, end: false, run_epoch: 0 });
});
