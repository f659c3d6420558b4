/**
 * Whatever an answer rests on may end meanwhile; and whatever the ending: one record, one lease,
 * one turn.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { all_seams, countSeams } from '../../test/lib/counted-seams.ts';
import {
  open,
  readAll,
  replica,
  type Sent,
  send,
  smol,
  storedKey,
} from '../../test/lib/gateway-rig.ts';
import { type ReplicaRig, startReplicaRig } from '../../test/lib/replica-rig.ts';
import { chatEvent, doneEvent, events, json, type Script } from '../../test/lib/upstream.ts';
import { limits } from '../contract/limits.ts';
import type { GatewayOptions } from './gateway.ts';

const good = events(chatEvent('hi'), doneEvent);
const begins: Script = (reply) => {
  reply.setHeader('Content-Type', 'text/event-stream');
  reply.write(chatEvent('so'));
};
const plain = { body: { model: 'smol', messages: [{ role: 'user', content: 'x'.repeat(40) }] } };

test('each ending leaves one record, and gives back the turn and the lease, once', async () => {
  const cut: Script = async (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    await new Promise((resolve) => reply.write(chatEvent('so') + chatEvent(' it'), resolve));
    reply.destroy();
  };
  const bad = json(400, { error: { message: 'bad', type: 'invalid_request_error' } });
  const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 };
  const counted = events(
    chatEvent('hi'),
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage })}\n\n`,
    'data: [DONE]\n\n',
  );
  const cases: [Script, Sent, string, number | null, string | null][] = [
    [good, {}, 'answered', 200, null],
    [good, plain, 'answered', 200, null],
    [counted, {}, 'answered', 200, null],
    [counted, plain, 'answered', 200, null],
    [cut, {}, 'cut', 200, 'engine_cut'],
    [cut, plain, 'refused', 502, 'engine_cut'],
    [bad, {}, 'refused', 400, 'invalid_request_error'],
    [(reply) => void reply.destroy(), {}, 'refused', 502, 'engine_cut'],
  ];
  for (const [script, sent, outcome, status, code] of cases) {
    const { limiter, turns, ...seams } = countSeams();
    const rig = await startReplicaRig([script], { limiter, turns });
    const got = await send(rig, sent);
    if (got.status === 200) assert.equal(got.headers['x-ratelimit-limit-requests'], '7');
    await rig.settled();
    const [record, ...more] = rig.records;
    assert.deepEqual(
      [more.length, record?.outcome, record?.status, record?.code],
      [0, outcome, status, code],
    );
    assert.deepEqual(seams.order, all_seams, outcome);
    assert.deepEqual(seams.used, [record?.use]);
    if (script === counted) {
      assert.deepEqual(record?.use, {
        ...{ prompt_tokens: 9, completion_tokens: 2, cached_tokens: 0, is_estimated: false },
      });
    }
    if (script === cut && sent !== plain) {
      assert.deepEqual([record?.use.completion_tokens, record?.use.is_estimated], [2, true]);
    }
    await rig.close();
  }
});

test('what is refused before any engine is recorded, what has no key is not', async () => {
  const rig = await startReplicaRig([good]);
  await send(rig, { body: '{}' });
  await send(rig, { body: { model: 'smol' }, headers: { Authorization: 'Bearer none' } });
  await send(rig, { method: 'GET', path: '/v1/models', body: '' });
  await rig.settled();
  assert.equal(rig.records.length, 1);
  const [record] = rig.records;
  assert.deepEqual(
    [record?.outcome, record?.status, record?.code, record?.attempts, record?.run],
    ['refused', 400, 'bad_request', 0, null],
  );
  await rig.close();
});

test('the turn and the lease are free before the client can see the end', async () => {
  const { limiter, turns, ...seams } = countSeams();
  const rig = await startReplicaRig([good], { limiter, turns });
  const answer = await open(rig);
  answer.on('end', () => seams.order.push('seen'));
  await readAll(answer);
  assert.deepEqual(seams.order, [...all_seams, 'seen']);
  await rig.close();
});

/** A stream that is open, with the rig in front of it. */
async function opened(changes: Partial<GatewayOptions>, script = begins) {
  const rig = await startReplicaRig([script], changes);
  const asked = rig.engines[0]?.next();
  const answer = await open(rig);
  const seen = await asked;
  await new Promise((resolve) => answer.once('readable', resolve));
  return { rig, answer, gone: seen?.gone };
}

/** Long enough for two looks, which ask the store and so take turns of the loop. */
async function looks(rig: ReplicaRig): Promise<void> {
  for (let count = 0; count < 2; count += 1) {
    rig.clock.advance(limits.gateway_look_ms);
    await send(rig, { method: 'GET', path: '/v1/models', headers: { Authorization: 'x' } });
  }
}

test('a key that is revoked, expires or is gone cuts what is open by it within a second', async () => {
  for (const how of ['revoked', 'expired', 'gone'] as const) {
    let key: typeof storedKey | null = storedKey;
    const { rig, answer, gone } = await opened({ findKey: async () => key });
    const text = readAll(answer);
    await looks(rig);
    assert.equal(rig.records.length, 0, 'as long as it works nothing happens');
    if (how === 'gone') key = null;
    else if (how === 'revoked') key = { ...storedKey, revoked_at: 1 };
    else key = { ...storedKey, expires_at: rig.clock.now() };
    await looks(rig);
    const got = await text;
    assert.equal(got.whole, false);
    assert.match(got.text, /"code":"invalid_api_key"/);
    await gone;
    await rig.settled();
    const [record] = rig.records;
    assert.deepEqual([record?.outcome, record?.code], ['cut', 'invalid_api_key']);
    await rig.close();
  }
});

test('an endpoint that is stopped, or opened to this key no more, cuts its answers', async () => {
  for (const [code, told] of [
    ['endpoint_stopped', 'endpoint_stopped'],
    ['not_found', 'model_not_found'],
  ] as const) {
    let is_over = false;
    const { rig, answer, gone } = await opened({
      findEndpoint: async () => (is_over ? { ok: false, code, details: {} } : smol(replica)),
    });
    is_over = true;
    const text = readAll(answer);
    await looks(rig);
    assert.match((await text).text, new RegExp(`"code":"${told}"`));
    await gone;
    await rig.close();
  }
});

test('before an answer has begun the client is told so by an exact status', async () => {
  let key = storedKey;
  const rig = await startReplicaRig([() => {}], { findKey: async () => key });
  const asked = rig.engines[0]?.next();
  const answer = send(rig);
  const seen = await asked;
  key = { ...storedKey, revoked_at: 1 };
  await looks(rig);
  assert.equal((await answer).status, 401);
  await seen?.gone;
  await rig.close();
});

test('a look that fails is left to the next one', async () => {
  let fails = false;
  const { rig, answer, gone } = await opened({
    findKey: async () => {
      if (fails) throw new Error('the store is on fire');
      return storedKey;
    },
  });
  fails = true;
  rig.clock.advance(limits.gateway_look_ms);
  rig.clock.advance(limits.gateway_look_ms);
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(rig.logged.some((one) => one.message === 'answers were not looked at'));
  assert.equal(answer.destroyed, false);
  answer.destroy();
  await gone;
  await rig.close();
});
