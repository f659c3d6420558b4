/**
 * The contract of engines on the stand-ins of vLLM and mlx_lm.server, and what those saw of us.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineContract } from '../../../test/contracts/engine.ts';
import {
  type Fields,
  type StandIn,
  startMlxStandIn,
  startVllmStandIn,
} from '../../../test/lib/engine-stand-ins.ts';
import { replica, send, smol, startRig } from '../../../test/lib/gateway-rig.ts';

engineContract({
  ...{ engine: 'vllm', own_model: 'smol', has_limit: true, has_responses: true },
  apart: 'own',
  start: startVllmStandIn,
});

engineContract({
  ...{ engine: 'mlx', own_model: 'default_model', has_limit: false, has_responses: false },
  apart: null,
  start: startMlxStandIn,
});

const body = { model: 'smol', messages: [{ role: 'user', content: 'Who?' }], max_tokens: 4 };

async function behind(engine: string, start: () => Promise<StandIn>, is_apart = false) {
  const standIn = await start();
  const { endpoint } = smol(replica);
  const rig = await startRig({
    findEndpoint: async () => ({ ok: true, endpoint: { ...endpoint, engine, is_apart } }),
    dial: () => standIn.dial(),
  });
  return {
    asked: standIn.asked,
    ask: (fields: Fields = {}, headers = {}) =>
      send(rig, { body: { ...body, ...fields }, headers }),
    async [Symbol.asyncDispose]() {
      await rig.close();
      await standIn.stop();
    },
  };
}

test('an engine is told the length of a question, and nothing of who asks', async () => {
  await using at = await behind('mlx', startMlxStandIn);
  const secret = { 'X-Conversation-Id': 'mine', Cookie: 'a=b', 'X-Forwarded-For': '10.0.0.1' };
  assert.equal((await at.ask({}, secret)).status, 200);
  const headers = at.asked[0]?.headers ?? {};
  assert.ok(Number(headers['content-length']) > 0);
  const known = ['accept', 'connection', 'content-length', 'content-type', 'host'];
  assert.deepEqual(Object.keys(headers).toSorted(), known);
});

test('a stream of mlx goes on with its comments, and ends whole without options', async () => {
  await using at = await behind('mlx', startMlxStandIn);
  for (const stream_options of [undefined, null, {}, { include_usage: false }]) {
    const got = await at.ask({ stream: true, stream_options });
    assert.deepEqual([got.status, got.whole], [200, true]);
    assert.match(got.text, /data: \[DONE\]/);
  }
});

test('what mlx would not survive does not get there', async () => {
  await using at = await behind('mlx', startMlxStandIn);
  assert.equal((await at.ask({ prompt: ['a', 'b'] })).status, 400);
  assert.equal(at.asked.length, 0, 'it was not even asked');
  assert.equal((await at.ask()).status, 200);
});

test('of vLLM a tenant is served from its own beginnings of prompts alone', async () => {
  await using at = await behind('vllm', startVllmStandIn, true);
  await at.ask({ cache_salt: 'of another' });
  const [first] = at.asked;
  assert.notEqual(first?.fields?.cache_salt, 'of another');
  assert.match(String(first?.fields?.cache_salt), /^[0-9a-f]{64}$/);
});
