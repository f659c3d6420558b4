/**
 * Limits and turns through the gateway: what is at work at once, what counts, what is given back.
 */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { afterEach, test } from 'node:test';
import OpenAI, { BadRequestError, RateLimitError } from 'openai';
import {
  errorOf,
  good_key,
  open,
  type Rig,
  readAll,
  replica,
  send,
  smol,
  startRig,
  storedKey,
} from '../../test/lib/gateway-rig.ts';
import { chatEvent, doneEvent, events, finishEvent, manualClock } from '../../test/lib/upstream.ts';
import { no_request_limits, type RequestLimits } from '../core/request-limits.ts';
import { makeToken } from '../core/token.ts';
import { digest } from '../lib/secret.ts';
import type { GatewayKey } from './key.ts';
import { createLimiter } from './limits/limiter.ts';
import { createTurns } from './limits/turns.ts';

let rig: Rig;
afterEach(() => rig.close());

type Options = { key?: Partial<RequestLimits>; slots?: number; keys?: Map<string, GatewayKey> };

async function limited({ key = {}, slots, keys }: Options) {
  const clock = manualClock();
  const limiter = createLimiter(clock);
  const stored = { ...storedKey, limits: { ...no_request_limits, ...key } };
  const found = keys ?? new Map([[digest(good_key), stored]]);
  const endpoint = { replicas: [{ ...replica, slots: slots ?? null }] };
  rig = await startRig({
    ...{ clock, limiter, turns: createTurns({ clock }) },
    findKey: async (key_digest) => found.get(key_digest) ?? null,
    findEndpoint: async () => smol(...endpoint.replicas),
  });
  return { clock, limiter, endpoint };
}

/** Answers only when they are let to; resolves once so many are there. */
function heldAnswers() {
  const held: ServerResponse[] = [];
  const waiting: { count: number; resolve(): void }[] = [];
  rig.upstream.answer((reply) => {
    held.push(reply);
    for (const one of waiting) if (held.length >= one.count) one.resolve();
  });
  return {
    held,
    arrived: (count: number) =>
      new Promise<void>((resolve) => {
        if (held.length >= count) resolve();
        else waiting.push({ count, resolve });
      }),
    answer(reply: ServerResponse | undefined) {
      reply?.writeHead(200, { 'Content-Type': 'text/event-stream' });
      reply?.end(chatEvent('hello') + doneEvent);
    },
  };
}

const usageEvent = (prompt_tokens: number, completion_tokens: number) =>
  `data: ${JSON.stringify({ id: 'c', choices: [], usage: { prompt_tokens, completion_tokens } })}\n\n`;

test('of 64 at once under a concurrency of four, four are at work and 60 are refused', async () => {
  await limited({ key: { concurrency: 4 } });
  const { held, arrived, answer } = heldAnswers();
  const all = Array.from({ length: 64 }, () => send(rig));
  await arrived(4);
  const refused: number[] = [];
  await new Promise<void>((resolve) => {
    for (const one of all) {
      void one.then(({ status }) => {
        if (status === 429) refused.push(status);
        if (refused.length === 60) resolve();
      });
    }
  });
  assert.equal(held.length, 4);
  for (const reply of held) answer(reply);
  const got = await Promise.all(all);
  assert.equal(got.filter(({ status, whole }) => status === 200 && whole).length, 4);
  rig.upstream.answer(events(chatEvent('again'), doneEvent));
  assert.equal((await send(rig)).status, 200, 'what ended has given its place back');
});

test('a client that leaves gives its place back, in a stream and while it waits', async () => {
  const { limiter } = await limited({ key: { concurrency: 2 }, slots: 1 });
  const { arrived } = heldAnswers();
  const streaming = open(rig);
  await arrived(1);
  const waiting = open(rig);
  await until(() => limiter.useOf('key', 'k1').concurrency === 2);
  assert.equal((await send(rig)).status, 429);
  waiting.leave();
  await until(() => limiter.useOf('key', 'k1').concurrency === 1);
  streaming.leave();
  await until(() => limiter.useOf('key', 'k1').concurrency === 0);
  rig.upstream.answer(events(chatEvent('again'), doneEvent));
  assert.equal((await send(rig)).status, 200);
});

test('the tokens of a minute count streams, whole answers and cut ones', async () => {
  const { limiter, clock } = await limited({ key: { tpm: 5000 } });
  const used = () => limiter.useOf('key', 'k1').tokens;
  const body = { model: 'smol', messages: [], max_tokens: 100 };
  rig.upstream.answer(
    events(chatEvent('hello'), finishEvent, usageEvent(7, 13), 'data: [DONE]\n\n'),
  );
  const streamed = await send(rig, { body: { ...body, stream: true } });
  assert.equal(streamed.status, 200);
  assert.equal(streamed.headers['x-ratelimit-limit-tokens'], '5000');
  assert.equal(used(), 20);
  assert.equal((await send(rig, { body })).status, 200);
  assert.equal(used(), 40);
  rig.upstream.answer(async (reply) => {
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    await new Promise((resolve) => reply.write(chatEvent('some words that were cut'), resolve));
    reply.destroy();
  });
  const cut = await send(rig, { body: { ...body, stream: true } });
  assert.equal(cut.whole, false);
  assert.ok(used() > 40 && used() < 140, `${used()} with an estimate of what was sent`);
  clock.advance(60_100);
  assert.equal(used(), 0);
});

test('a limit that is changed, and a key that is revoked, hold for the next request', async () => {
  const keys = new Map([[digest(good_key), storedKey]]);
  await limited({ keys });
  rig.upstream.answer(events(chatEvent('hello'), doneEvent));
  assert.equal((await send(rig)).status, 200);
  keys.set(digest(good_key), { ...storedKey, limits: { ...no_request_limits, rpm: 1 } });
  const refused = await send(rig);
  assert.equal(refused.status, 429);
  assert.equal(errorOf(refused).code, 'rate_limit_exceeded');
  assert.equal(refused.headers['retry-after'], '60');
  assert.equal(refused.headers['retry-after-ms'], '60000');
  assert.equal(refused.headers['x-ratelimit-remaining-requests'], '0');
  keys.set(digest(good_key), storedKey);
  assert.equal((await send(rig)).status, 200);
  keys.set(digest(good_key), { ...storedKey, revoked_at: 1 });
  assert.equal((await send(rig)).status, 401);
});

test('the openai library sees a limit of rate, and what never fits, as what they are', async () => {
  const { clock } = await limited({ key: { rpm: 1, tpm: 500 } });
  rig.upstream.answer(events(chatEvent('hello'), doneEvent));
  const client = new OpenAI({ baseURL: `${rig.url}/v1`, apiKey: good_key, maxRetries: 0 });
  const ask = (max_tokens: number) =>
    client.chat.completions.create({ model: 'smol', messages: [], max_tokens });
  await assert.rejects(ask(501), (error) => {
    assert.ok(error instanceof BadRequestError);
    assert.deepEqual([error.code, error.param], ['tokens_over_limit', 'max_tokens']);
    return true;
  });
  await ask(10);
  await assert.rejects(ask(10), (error) => {
    assert.ok(error instanceof RateLimitError);
    assert.deepEqual([error.code, error.type], ['rate_limit_exceeded', 'requests']);
    return true;
  });
  clock.advance(60_000);
  await ask(10);
});

test('200 keys on one slot: one is at work at a time, and each gets its answer', async () => {
  const keys = new Map<string, GatewayKey>();
  const tokens = Array.from({ length: 200 }, (_, n) => makeToken('ept_', bytesOf(n)));
  for (const [n, token] of tokens.entries()) keys.set(digest(token), { ...storedKey, id: `k${n}` });
  await limited({ keys, slots: 1 });
  let [at_work, most] = [0, 0];
  rig.upstream.answer(async (reply) => {
    at_work += 1;
    most = Math.max(most, at_work);
    await new Promise((resolve) => setImmediate(resolve));
    at_work -= 1;
    reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
    reply.end(chatEvent('hello') + doneEvent);
  });
  const all = await Promise.all(
    tokens.map((token) => send(rig, { headers: { Authorization: `Bearer ${token}` } })),
  );
  assert.deepEqual(
    [...new Set(all.map(({ status, whole }) => `${status} ${whole}`))],
    ['200 true'],
  );
  assert.equal(most, 1);
});

test('who waits for a slot goes to a replica that came up meanwhile', async () => {
  const { clock, limiter, endpoint } = await limited({ slots: 1 });
  const { arrived, held, answer } = heldAnswers();
  const first = send(rig);
  await arrived(1);
  const second = send(rig);
  await until(() => limiter.useOf('key', 'k1').concurrency === 2);
  const other = { ...replica, run: { ...replica.run, replica: 1 }, slots: 1 };
  endpoint.replicas = [...endpoint.replicas, other];
  while (held.length < 2) {
    clock.advance(500);
    await new Promise((resolve) => setImmediate(resolve));
  }
  held.forEach(answer);
  for (const { status, whole } of [await first, await second]) {
    assert.deepEqual([status, whole], [200, true]);
  }
});

test('who waits too long for a slot is told so, with when to come again', async () => {
  const { clock, limiter } = await limited({ slots: 1 });
  const { arrived, held, answer } = heldAnswers();
  const first = open(rig);
  await arrived(1);
  const body = { model: 'smol', messages: [] };
  const second = send(rig, { body });
  await until(() => limiter.useOf('key', 'k1').concurrency === 2);
  clock.advance(119_999);
  clock.advance(1);
  const { status, headers, text } = await second;
  assert.deepEqual([status, headers['retry-after']], [503, '1'], text);
  assert.match(text, /no_free_slot/);
  answer(held[0]);
  assert.equal((await readAll(await first)).whole, true);
});

function bytesOf(n: number): Uint8Array {
  return new Uint8Array(32).fill(7).fill(n, 1, 2);
}

/** Lets everything run until it is so. */
async function until(isSo: () => boolean): Promise<void> {
  for (let round = 0; round < 50_000; round += 1) {
    if (isSo()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.fail('it never came to be');
}
