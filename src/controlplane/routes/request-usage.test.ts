/**
 * What is recorded of requests over the API: who sees whose, and never more than sums of guests'.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseExposition } from '../../../test/lib/exposition.ts';
import { requestRecord } from '../../../test/lib/request-records.ts';
import {
  addTenant,
  addUser,
  ask,
  createRig,
  endpointSpec,
  type Rig,
} from '../../../test/lib/rig.ts';
import { gatewayTopSchema } from '../../contract/gateway-top.ts';
import { gatewayRequestPageSchema, requestUsagePageSchema } from '../../contract/request-usage.ts';
import { makeId } from '../../core/ids.ts';
import { rowOfRecord } from '../../gateway/records/rows.ts';
import type { RequestRecord } from '../../gateway/request-record.ts';

const day_ms = 24 * 3600_000;

type World = {
  rig: Rig;
  /** Ids by name: users ada (member), eve (tenant-admin of `guests`), endpoint chat, keys. */
  ids: Record<'ada' | 'eve' | 'chat' | 'guests' | 'op_key' | 'ada_key' | 'eve_key', string>;
  tokens: Record<'ada' | 'eve', string>;
  asked(more: Partial<RequestRecord>, count?: number): Promise<string>;
};

const inWorld = (name: string, body: (world: World) => Promise<void>) =>
  test(name, async () => {
    const rig = await createRig();
    try {
      await body(await createWorld(rig));
    } finally {
      await rig.close();
    }
  });

async function createWorld(rig: Rig): Promise<World> {
  const newId = () => makeId(rig.clock.now(), rig.random.bytes(10));
  const { tenant_id } = rig.ids;
  const guests = newId();
  await addTenant(rig.store, 'guests', guests);
  const ada = await addUser(rig.store, rig.random, { tenant_id, name: 'ada2', role: 'member' });
  const eve = await addUser(rig.store, rig.random, {
    ...{ tenant_id: guests, name: 'eve', role: 'tenant-admin' },
  });
  const chat = newId();
  await rig.store.transact('launchWorkload', {
    ...{ id: chat, tenant_id, creator_id: rig.ids.user_id, name_is_free: false },
    ...{ spec: endpointSpec({ name: 'chat' }), now: rig.clock.now(), idempotency: null },
    ...{ actor: 'user:ada', request_id: 'r' },
  });
  const addKey = async (whose: string, user_id: string, last_four: string) => {
    const id = newId();
    await rig.store.transact('write', {
      text: `insert into endpoint_keys (id, tenant_id, workload_id, user_id, hash, last_four,
          created_at) values ($1, $2, $3, $4, $1, $5, 0)`,
      params: [id, whose, chat, user_id, last_four],
    });
    return id;
  };
  const op_key = await addKey(tenant_id, rig.ids.user_id, 'op00');
  const ada_key = await addKey(tenant_id, ada.user_id, 'ada0');
  const eve_key = await addKey(guests, eve.user_id, 'eve0');
  return {
    rig,
    ids: { ada: ada.user_id, eve: eve.user_id, chat, guests, op_key, ada_key, eve_key },
    tokens: { ada: ada.token, eve: eve.token },
    async asked(more, count = 1) {
      const base = { workload_id: chat, model: 'chat', tenant_id, at: rig.clock.now() };
      const records = Array.from({ length: count }, () =>
        requestRecord({
          ...base,
          key_id: op_key,
          user_id: rig.ids.user_id,
          ...more,
          request_id: newId(),
        }),
      );
      const rows = records.map(rowOfRecord);
      await rig.store.transact('recordRequests', { rows, lost: 0, now: rig.clock.now() });
      return rows[0]?.request_id ?? '';
    },
  };
}

const by = async ({ rig }: World, query: string, token?: string) => {
  const { status, body } = await ask(rig, 'GET', `/v1/usage/requests?${query}`, {
    ...(token === undefined ? {} : { token }),
  });
  assert.equal(status, 200, JSON.stringify(body));
  return requestUsagePageSchema.parse(body);
};
const shown = ({ items }: Awaited<ReturnType<typeof by>>) =>
  items.map(({ name, requests }) => `${name} ${requests}`);

inWorld('use is by key, model, user and day, and its parts sum to the total', async (world) => {
  const { ids, rig } = world;
  await world.asked({}, 3);
  await world.asked({ outcome: 'cut', first_token_ms: 900 }, 2);
  await world.asked({ key_id: ids.ada_key, user_id: ids.ada, outcome: 'client_left' });
  await world.asked({
    workload_id: null,
    model: 'made-up',
    outcome: 'refused',
    at: rig.clock.now() - day_ms,
  });
  assert.deepEqual(shown(await by(world, 'group_by=model')), ['(none) 1', 'chat 6']);
  assert.deepEqual(shown(await by(world, 'group_by=key')).sort(), [
    '…ada0 (chat) 1',
    '…op00 (chat) 6',
  ]);
  // In the order of their ids.
  assert.deepEqual(shown(await by(world, 'group_by=user')).sort(), ['ada 6', 'ada2 1']);
  assert.deepEqual(
    (await by(world, 'group_by=day')).items.map(({ requests }) => requests),
    [1, 6],
  );
  const { total } = await by(world, 'group_by=model');
  const { requests, answered, cut, refused, client_left, prompt_tokens } = total;
  assert.deepEqual([requests, answered, cut, refused, client_left], [7, 3, 2, 1, 1]);
  assert.equal(prompt_tokens, 49);
  assert.ok((total.first_token_p50_ms ?? 0) <= 50 && (total.first_token_p95_ms ?? 0) > 750);
  const day = new Date(rig.clock.now()).toISOString().slice(0, 10);
  assert.equal((await by(world, `group_by=model&from=${day}`)).total.requests, 6);
});

inWorld('page by page nothing is missing and nothing comes twice', async (world) => {
  for (let one = 0; one < 7; one += 1) await world.asked({ model: `m${one}` });
  const seen: string[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const more: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const page = await by(world, `group_by=model&limit=3${more}`);
    seen.push(...shown(page));
    assert.equal(page.total.requests, 7);
    cursor = page.next_cursor;
  }
  assert.deepEqual(seen, ['m0 1', 'm1 1', 'm2 1', 'm3 1', 'm4 1', 'm5 1', 'm6 1']);
});

inWorld('members see their own, owners of endpoints sums of guests and no more', async (world) => {
  const { ids, tokens, rig } = world;
  await world.asked({}, 2);
  await world.asked({ key_id: ids.ada_key, user_id: ids.ada });
  const guest = {
    tenant_id: ids.guests,
    key_id: ids.eve_key,
    user_id: ids.eve,
    model: 'local/chat',
  };
  const request = await world.asked(guest, 4);
  assert.deepEqual(shown(await by(world, 'group_by=key', tokens.ada)), ['…ada0 (chat) 1']);
  assert.deepEqual(shown(await by(world, 'group_by=guest')), ['guests 4']);
  assert.equal((await by(world, 'group_by=guest')).total.requests, 4);
  assert.deepEqual(shown(await by(world, 'group_by=guest', tokens.ada)), []);
  assert.deepEqual(shown(await by(world, 'group_by=model')), ['chat 3']);
  assert.deepEqual(shown(await by(world, 'group_by=model', tokens.eve)), ['local/chat 4']);
  const text = JSON.stringify([await by(world, 'group_by=guest'), await by(world, 'group_by=key')]);
  for (const word of [ids.eve, ids.eve_key, ids.guests, 'eve0']) {
    assert.equal(text.includes(word), false, word);
  }
  const one = (token?: string) =>
    ask(rig, 'GET', `/v1/requests/${request}`, token === undefined ? {} : { token });
  assert.equal((await one(tokens.ada)).status, 404);
  const { body } = await one(tokens.eve);
  const { gateway } = body as unknown as { gateway: Record<string, unknown> };
  assert.deepEqual(
    [gateway.model, gateway.last_four, gateway.machine_name, gateway.placed_class],
    ['local/chat', 'eve0', null, 'cpu-1'],
  );
});

inWorld('top has the last minute and who works and waits now, of own keys alone', async (world) => {
  const { ids, tokens, rig } = world;
  const requests = await rig.startRequests();
  await rig.clock.advance(10_000);
  const base = { workload_id: ids.chat, model: 'chat', key_id: ids.op_key };
  for (let one = 0; one < 20; one += 1) requests.record(requestRecord(base));
  requests.record(requestRecord({ ...base, key_id: ids.ada_key, outcome: 'cut' }));
  requests.record(requestRecord({ ...base, key_id: ids.eve_key, model: 'local/chat' }));
  const standing = () => [
    { workload_id: ids.chat, key_id: ids.ada_key, at_work: 1, waiting: 2 },
    { workload_id: ids.chat, key_id: ids.eve_key, at_work: 5, waiting: 5 },
  ];
  requests.watch({ standing }, { breakers: () => ({ closed: 2, half_open: 0, open: 1 }) });
  const top = async (token?: string) => {
    const { body } = await ask(rig, 'GET', '/v1/gateway/top', token === undefined ? {} : { token });
    return gatewayTopSchema.parse(body);
  };
  const all = await top();
  assert.equal(all.window_ms, 10_000);
  assert.deepEqual(
    all.models.map((row) => [row.name, row.requests_per_s, row.tokens_per_s, row.errors_per_s]),
    [['chat', 2.1, 10.5, 0.1]],
  );
  assert.deepEqual(
    all.keys.map((row) => [row.name, row.requests_per_s, row.at_work, row.waiting]),
    [
      ['…ada0 (chat)', 0.1, 1, 2],
      ['…op00 (chat)', 2, 0, 0],
    ],
  );
  assert.deepEqual(all.journal, { waiting: 22, oldest_ms: 0, lost: 0, unclean: 0 });
  const own = await top(tokens.ada);
  assert.deepEqual([own.keys.map(({ name }) => name), own.journal], [['…ada0 (chat)'], null]);
  assert.deepEqual(
    (await top(tokens.eve)).models.map(({ name, at_work }) => [name, at_work]),
    [['local/chat', 5]],
  );
  const { text, headers } = await ask(rig, 'GET', '/metrics');
  assert.equal(headers.get('content-type'), 'text/plain; version=0.0.4');
  const families = parseExposition(text);
  assert.equal(families.get('einsora_gateway_requests_waiting')?.samples[0]?.value, 7);
  assert.equal(families.get('einsora_gateway_journal_waiting')?.samples[0]?.value, 22);
  assert.deepEqual(
    families
      .get('einsora_gateway_replicas')
      ?.samples.map(({ labels, value }) => [...[labels.breaker, value]]),
    [
      ['closed', 2],
      ['half_open', 0],
      ['open', 1],
    ],
  );
  assert.ok(families.has('einsora_event_loop_delay_seconds'));
  for (const id of Object.values(ids)) assert.equal(text.includes(id), false);
});

inWorld('when a key was last used is told to who made it, and to admins', async (world) => {
  const { ids, rig } = world;
  const at = rig.clock.now() - 5000;
  await world.asked({ key_id: ids.ada_key, user_id: ids.ada, at });
  await world.asked({ key_id: ids.ada_key, user_id: ids.ada, at: at - 5000 });
  await world.asked({ at: at - 1 });
  const used = async (token?: string) => {
    const more = token === undefined ? {} : { token };
    const { items = [] } = (await ask(rig, 'GET', '/v1/model-keys', more)).body;
    return Object.fromEntries(items.map((key) => [key.last_four, key.last_used_at]));
  };
  assert.deepEqual(await used(), { ada0: at, op00: at - 1 });
  assert.deepEqual(await used(world.tokens.ada), { ada0: at, op00: null });
  assert.deepEqual(await used(world.tokens.eve), { eve0: null });
});

const list = async ({ rig }: World, query: string, token?: string) => {
  const more = token === undefined ? {} : { token };
  const { status, body } = await ask(rig, 'GET', `/v1/requests?${query}`, more);
  assert.equal(status, 200, JSON.stringify(body));
  return gatewayRequestPageSchema.parse(body);
};

inWorld('single requests are listed newest first, page by page, each once', async (world) => {
  const { ids, rig } = world;
  const now = rig.clock.now();
  const made: string[] = [];
  for (let each = 0; each < 7; each += 1) {
    // Some at the very same moment.
    made.unshift(await world.asked({ at: now + Math.floor(each / 3) }));
  }
  const seen: string[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const page = await list(world, `limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
    assert.ok(page.items.length <= 2);
    seen.push(...page.items.map(({ request_id }) => request_id));
    cursor = page.next_cursor;
  }
  assert.deepEqual(seen.toSorted(), made.toSorted());
  const moments = (await list(world, '')).items.map(({ at, request_id }) => `${at} ${request_id}`);
  assert.deepEqual(moments, moments.toSorted().reverse());
  const [first] = (await list(world, 'limit=1')).items;
  const { body } = await ask(rig, 'GET', `/v1/requests/${first?.request_id}`);
  assert.deepEqual(
    { ...first, request_id: undefined },
    { ...Object(body.gateway), request_id: undefined },
  );
  assert.equal((await ask(rig, 'GET', '/v1/requests?cursor=x')).status, 400);
  assert.equal(ids.op_key, first?.key_id);
});

inWorld('members list their own, admins all of the tenant, guests theirs', async (world) => {
  const { ids, tokens } = world;
  await world.asked({});
  await world.asked({ key_id: ids.ada_key, user_id: ids.ada });
  await world.asked({ key_id: ids.eve_key, user_id: ids.eve, tenant_id: ids.guests });
  const fours = async (query: string, token?: string) =>
    (await list(world, query, token)).items.map(({ last_four }) => last_four).toSorted();
  assert.deepEqual(await fours(''), ['ada0', 'op00']);
  assert.deepEqual(await fours('', tokens.ada), ['ada0']);
  assert.deepEqual(await fours('', tokens.eve), ['eve0']);
  assert.deepEqual(await fours('tenant=guests'), ['eve0'], 'an operator');
  const key = async (called: string, token?: string) => {
    const more = token === undefined ? {} : { token };
    const { status, body } = await ask(world.rig, 'GET', `/v1/requests?key=${called}`, more);
    return status === 200 ? body.items?.length : [status, body.error?.fix];
  };
  assert.deepEqual([await key('ada0'), await key(ids.ada_key)], [1, 1]);
  assert.deepEqual(await key('op00', tokens.ada), [404, 'bin/einsora keys ls']);
  assert.deepEqual(await key(ids.eve_key, tokens.ada), [404, 'bin/einsora keys ls']);
  const { status } = await ask(world.rig, 'GET', '/v1/requests?tenant=guests', {
    token: tokens.ada,
  });
  assert.equal(status, 404);
});

inWorld('what failed is found behind thousands that did not, in bounded pages', async (world) => {
  const now = world.rig.clock.now();
  await world.asked({ at: now - 3, outcome: 'refused', code: 'queue_full', status: 429 });
  await world.asked({ at: now - 2, outcome: 'client_left' });
  await world.asked({ at: now - 1 }, 1500);
  const first = await list(world, 'failed=true');
  assert.deepEqual(first.items, []);
  const second = await list(world, `failed=true&cursor=${first.next_cursor}`);
  assert.deepEqual(
    second.items.map(({ code }) => code),
    ['queue_full'],
  );
  assert.equal(second.next_cursor, null);
  assert.equal((await list(world, 'model=chat&limit=5')).items.length, 5);
  assert.equal((await list(world, 'model=other')).items.length, 0);
});
