/**
 * Who gets in and what gets through: keys, paths, bodies, headers, refusals before an engine is
 * asked.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import {
  errorOf,
  good_key,
  type Rig,
  replica,
  send,
  smol,
  startRig,
  storedKey,
} from '../../test/lib/gateway-rig.ts';
import { chatEvent, doneEvent, events } from '../../test/lib/upstream.ts';
import { limits } from '../contract/limits.ts';
import { makeToken } from '../core/token.ts';
import { digest } from '../lib/secret.ts';

const looked_up: string[] = [];
let stored = storedKey;
let rig: Rig;
before(async () => {
  rig = await startRig({
    findKey: async (key_digest) => {
      looked_up.push(key_digest);
      return key_digest === digest(good_key) ? stored : null;
    },
    findEndpoint: async (_key, model) => {
      const details = { name: model, state: 'loading', why: 'The disk is full.' };
      if (model === 'waiting') return { ok: false, code: 'not_ready', details };
      if (model === 'parked') return { ok: false, code: 'endpoint_stopped', details };
      if (model === 'broken') return { ok: false, code: 'endpoint_failed', details };
      if (model === 'explode') throw new Error('the store is on fire');
      if (model === 'smol') return smol({ ...replica, machine_name: 'my;\r\ndesk' });
      return { ok: false, code: 'not_found', details: model === 'theirs' ? details : {} };
    },
  });
});
afterEach(() => {
  looked_up.length = 0;
  rig.upstream.seen.length = 0;
  stored = storedKey;
});
after(() => rig.close());

const whole = events(chatEvent('hi'), doneEvent);

test('a missing, malformed, unknown, expired or revoked key gets the same answer', async () => {
  const unknown = makeToken('ept_', new Uint8Array(32).fill(9));
  const other_kind = makeToken('eat_', new Uint8Array(32).fill(1));
  const wrong: Record<string, string | string[]>[] = [
    { Authorization: '' },
    { Authorization: good_key },
    { Authorization: `Basic ${good_key}` },
    { Authorization: `Bearer ${good_key.slice(0, -1)}` },
    { Authorization: `Bearer ${good_key.slice(0, -1)}_` },
    { Authorization: `Bearer ${good_key} x` },
    { Authorization: `Bearer ${other_kind}` },
    { Authorization: '', Cookie: `key=${good_key}`, 'X-Api-Key': good_key },
    { Authorization: `Bearer ${unknown}` },
  ];
  const answers = [];
  for (const headers of wrong) answers.push(await send(rig, { headers }));
  const path = `/v1/chat/completions?key=${good_key}`;
  answers.push(await send(rig, { headers: { Authorization: '' }, path }));
  assert.deepEqual(looked_up, [digest(unknown)], 'only a well-formed key is looked up');
  stored = { ...storedKey, revoked_at: 1 };
  answers.push(await send(rig));
  stored = { ...storedKey, expires_at: rig.clock.now() };
  answers.push(await send(rig));
  const bodies = new Set(answers.map((got) => got.text.replace(/"r\d+"/, '"r"')));
  assert.equal(bodies.size, 1);
  for (const got of answers) assert.equal(got.status, 401);
  const [first] = answers;
  assert.ok(first);
  assert.equal(errorOf(first).code, 'invalid_api_key');
  assert.equal(rig.upstream.seen.length, 0);
});

test('a key that expires later still opens', async () => {
  rig.upstream.answer(whole);
  stored = { ...storedKey, expires_at: rig.clock.now() + 1 };
  assert.equal((await send(rig)).status, 200);
});

test('two Authorization headers are refused, whichever is good', async () => {
  const Authorization = [`Bearer ${good_key}`, `Bearer ${good_key}`];
  assert.equal((await send(rig, { headers: { Authorization } })).status, 401);
});

test('only the listed paths and methods are served', async () => {
  const cases: [string, string, number, string][] = [
    ['POST', '/v1/images', 404, 'not_served'],
    ['POST', '/v1/chat/completions/input_tokens', 404, 'not_served'],
    ['GET', '/v1/models/', 404, 'not_served'],
    ['DELETE', '/v1/models/smol', 405, 'method_not_allowed'],
    ['POST', '/v1/responses/cancel', 404, 'not_served'],
    ['GET', '/slots', 404, 'not_found'],
    ['POST', '/v1/chat/../../slots', 404, 'not_served'],
    ['GET', '/v1/chat/completions', 405, 'method_not_allowed'],
    ['OPTIONS', '/v1/chat/completions', 405, 'method_not_allowed'],
    ['POST', '/v1/models', 405, 'method_not_allowed'],
  ];
  for (const [method, path, status, code] of cases) {
    const got = await send(rig, { method, path, body: '' });
    assert.equal(got.status, status, `${method} ${path}`);
    assert.equal(errorOf(got).code, code);
    assert.equal(got.headers['access-control-allow-origin'], undefined);
  }
  const head = await send(rig, { method: 'HEAD', path: '/v1/models', body: '' });
  assert.deepEqual([head.status, head.headers.allow, head.text], [405, 'GET', '']);
  assert.equal(rig.upstream.seen.length, 0);
});

test("the list of models, and each of them, is OpenAI's", async () => {
  const got = await send(rig, { method: 'GET', path: '/v1/models', body: '' });
  const model = { id: 'smol', object: 'model', created: 1_700_000_000, owned_by: 'einsora' };
  assert.deepEqual(JSON.parse(got.text), { object: 'list', data: [model] });
  const one = await send(rig, { method: 'GET', path: '/v1/models/sm%6Fl', body: '' });
  assert.deepEqual(JSON.parse(one.text), model);
  for (const path of ['/v1/models/none', '/v1/models/a/b', '/v1/models/%ff']) {
    const none = await send(rig, { method: 'GET', path, body: '' });
    assert.deepEqual([none.status, errorOf(none).code], [404, 'model_not_found']);
  }
});

test('what is no JSON object with a model never reaches an engine', async () => {
  const deep = `{"model":"smol","a":${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
  const cases: [string | Uint8Array, number, string | null][] = [
    ['', 400, null],
    ['{"model":"smol"', 400, null],
    ['["smol"]', 400, null],
    ['null', 400, null],
    [new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 400, null],
    ['{}', 400, 'model'],
    ['{"model":7}', 400, 'model'],
    [`{"model":"${'m'.repeat(limits.model_chars + 1)}"}`, 400, 'model'],
    ['{"model":"smol","stream":"yes"}', 400, 'stream'],
    [deep, 400, null],
  ];
  for (const [body, status, param] of cases) {
    const got = await send(rig, { body });
    assert.equal(got.status, status, String(body).slice(0, 60));
    assert.equal(errorOf(got).param, param);
    assert.equal(errorOf(got).type, 'invalid_request_error');
  }
  for (const type of ['text/plain', 'application/jsonp', '']) {
    const got = await send(rig, { headers: { 'Content-Type': type } });
    assert.equal(got.status, 415, type);
  }
  assert.equal((await send(rig, { headers: { 'Content-Encoding': 'gzip' } })).status, 415);
  assert.equal(rig.upstream.seen.length, 0);
});

test('a body over the limit is 413, announced or not', async () => {
  const body = Buffer.alloc(limits.gateway_body_bytes + 1, 0x20);
  const announced = await send(rig, { body });
  assert.deepEqual([announced.status, errorOf(announced).code], [413, 'body_too_large']);
  const chunked = await send(rig, { body, headers: { 'Transfer-Encoding': 'chunked' } });
  assert.equal(chunked.status, 413);
});

test('the engine gets fields and its own name, but nothing that steers it', async () => {
  rig.upstream.answer(whole);
  const body = {
    model: 'smol',
    stream: true,
    messages: [{ role: 'user', content: 'é' }],
    top_k: 3,
    odd: [null],
  };
  await send(rig, {
    path: '/v1/chat/completions?conv_id=1',
    body: { ...body, id_slot: 1, adapters: 'x', draft_model: 'y' },
    headers: {
      'X-Conversation-Id': 'c',
      Cookie: 'a=b',
      'Accept-Encoding': 'gzip',
      'User-Agent': 'u',
    },
  });
  const [seen] = rig.upstream.seen;
  assert.ok(seen);
  assert.equal(seen.path, '/v1/chat/completions');
  assert.deepEqual(JSON.parse(seen.body), body);
  const names = Object.keys(seen.headers).sort();
  assert.deepEqual(names, ['accept', 'connection', 'content-length', 'content-type', 'host']);
});

test('the answer says who answered, in headers that cannot be broken out of', async () => {
  rig.upstream.answer((reply) => {
    reply.setHeader('Access-Control-Allow-Origin', '*');
    reply.setHeader('Server', 'llama.cpp');
    return whole(reply, rig.upstream.seen[0] as never);
  });
  const { status, headers, text } = await send(rig);
  assert.deepEqual([status, text], [200, chatEvent('hi') + doneEvent]);
  assert.equal(headers['x-einsora-attempts'], '1');
  assert.equal(
    headers['x-einsora-served-by'],
    'machine=my___desk; class=cpu-1; region=home; model=smol',
  );
  assert.equal(headers['x-einsora-fallback'], 'none');
  assert.match(String(headers['x-request-id']), /^r\d+$/);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['access-control-allow-origin'], undefined);
  assert.equal(headers.server, undefined);
});

test("another tenant's model looks like one that does not exist", async () => {
  const theirs = await send(rig, { body: { model: 'theirs' } });
  const none = await send(rig, { body: { model: 'nobody' } });
  const same = (got: typeof none, name: string) =>
    got.text.replaceAll(name, 'x').replace(/"r\d+"/, '"r"');
  assert.equal(same(theirs, 'theirs'), same(none, 'nobody'));
  assert.deepEqual([theirs.status, none.status], [404, 404]);
  assert.equal(errorOf(none).code, 'model_not_found');
});

test('an endpoint that cannot answer says why, and whether to come again', async () => {
  const waiting = await send(rig, { body: { model: 'waiting' } });
  assert.deepEqual([waiting.status, waiting.headers['retry-after']], [503, '5']);
  assert.equal(waiting.headers['x-should-retry'], undefined);
  assert.match(String(errorOf(waiting).message), /waiting is loading/);
  const parked = await send(rig, { body: { model: 'parked' } });
  assert.deepEqual([parked.status, parked.headers['x-should-retry']], [409, 'false']);
  assert.equal(errorOf(parked).code, 'endpoint_stopped');
  const broken = await send(rig, { body: { model: 'broken' } });
  assert.deepEqual([broken.status, broken.headers['x-should-retry']], [503, 'false']);
});

test('a failure inside is 500 without its cause, which the log has', async () => {
  const got = await send(rig, { body: { model: 'explode' } });
  assert.deepEqual([got.status, errorOf(got).code], [500, 'internal']);
  assert.ok(!got.text.includes('fire'));
  await rig.settled();
  const line = rig.logged.find((one) => one.message === 'gateway failed');
  assert.deepEqual(
    [line?.request_id, line?.problem],
    [got.headers['x-request-id'], 'the store is on fire'],
  );
});

test('each request is one log line, without prompt, answer or key', async () => {
  await rig.settled();
  rig.logged.length = 0;
  rig.upstream.answer(events(chatEvent('the answer'), doneEvent));
  const body = { model: 'smol', messages: [{ role: 'user', content: 'the prompt' }] };
  const got = await send(rig, { body });
  await send(rig, { body: { model: 'nobody-knows' } });
  await rig.settled();
  const lines = rig.logged.map(({ request_id: _, ...rest }) => rest);
  const common = { tenant: 't1', duration_ms: 0, message: 'gateway request' };
  const bytes = got.bytes.length;
  const endpoint = 'w'.repeat(26);
  assert.deepEqual(lines[0], { ...common, endpoint, outcome: 'answered', status: 200, bytes });
  assert.equal(lines.length, 2);
  assert.deepEqual(lines[1]?.outcome, 'model_not_found');
  assert.doesNotMatch(JSON.stringify(rig.logged), /ept_|the prompt|the answer|nobody-knows/);
});

test('after close it refuses, and says to come again', async () => {
  const closing = await startRig();
  await closing.gateway.close();
  const got = await send(closing);
  assert.deepEqual([got.status, errorOf(got).code], [503, 'shutting_down']);
  assert.equal(got.headers['retry-after'], '5');
  await closing.close();
});
