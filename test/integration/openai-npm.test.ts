/**
 * The npm package `openai` against the gateway: what its users rely on without thinking of it.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { no_request_limits } from '../../src/core/request-limits.ts';
import { createLimiter } from '../../src/gateway/limits/limiter.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { good_key, type Rig, startRig, storedKey } from '../lib/gateway-rig.ts';
import { hello, playScenes, type Scenes } from '../lib/openai-scenes.ts';
import { chatEvent, doneEvent, events } from '../lib/upstream.ts';

let rig: Rig;
let scenes: Scenes;
let client: OpenAI;
before(async () => {
  rig = await startRig();
  scenes = playScenes(rig.upstream);
  client = new OpenAI({ baseURL: `${rig.url}/v1`, apiKey: good_key });
});
after(() => rig.close());

const model = 'smol';
const say = (content: string) => ({ model, messages: [{ role: 'user' as const, content }] });
const tool = (name: string) => ({
  type: 'function' as const,
  function: { name, parameters: { type: 'object', properties: { place: { type: 'string' } } } },
});

/** What a call fails with, as the package makes it. */
async function failure(work: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  const caught: unknown = await work.then(
    () => assert.fail('it did not fail'),
    (error: unknown) => error,
  );
  assert.ok(caught instanceof OpenAI.APIError, String(caught));
  return caught;
}

test('a chat comes whole, with its usage and its request id', async () => {
  const { data, request_id, response } = await client.chat.completions
    .create(say('hello'))
    .withResponse();
  assert.equal(data.choices[0]?.message.content, hello);
  assert.deepEqual([data.object, data.choices[0]?.finish_reason], ['chat.completion', 'stop']);
  assert.deepEqual([data.usage?.prompt_tokens, data.usage?.completion_tokens], [7, 4]);
  assert.equal(response.headers.get('x-request-id'), request_id);
  const { _request_id } = await client.chat.completions.create(say('hello'));
  assert.match(_request_id ?? '', /^r\d+$/);
  assert.match(response.headers.get('x-einsora-served-by') ?? '', /class=cpu-1/);
});

test('the stream helper gives content, the final chat, and usage only where asked', async () => {
  const pieces: string[] = [];
  const helper = client.chat.completions.stream(say('hello'));
  helper.on('content', (delta) => pieces.push(delta));
  const final = await helper.finalChatCompletion();
  assert.equal(pieces.join(''), hello);
  assert.ok(pieces.length > 3, 'word by word');
  assert.equal(final.choices[0]?.message.content, hello);
  assert.equal(final.usage, undefined, 'nobody asked for it');
  const asking = client.chat.completions.stream({
    ...say('hello'),
    stream_options: { include_usage: true },
  });
  assert.equal((await asking.totalUsage()).total_tokens, 11);
});

test('tool calls come by their index, streamed and not', async () => {
  const asked = { ...say('tools'), tools: [tool('weather'), tool('clock')] };
  const whole = await client.chat.completions.create(asked);
  const helper = client.chat.completions.stream(asked);
  const streamed = await helper.finalChatCompletion();
  for (const { choices } of [whole, streamed]) {
    assert.equal(choices[0]?.finish_reason, 'tool_calls');
    const calls = choices[0]?.message.tool_calls ?? [];
    assert.deepEqual(
      calls.map((call) => [call.id, call.type === 'function' ? call.function : null]),
      ['weather', 'clock'].map((name, index) => [
        `call_${index + 1}`,
        { name, arguments: '{"place":"Köln"}' },
      ]),
    );
  }
});

test('each refusal is an error of its class, once, with code and request id', async () => {
  const stranger = new OpenAI({ baseURL: `${rig.url}/v1`, apiKey: 'ept_wrong' });
  const cases = [
    ['bad', OpenAI.BadRequestError, 400, 'invalid_request_error'],
    ['long', OpenAI.BadRequestError, 400, 'context_length_exceeded'],
    ['odd', OpenAI.UnprocessableEntityError, 422, null],
    ['oops', OpenAI.InternalServerError, 500, 'server_error'],
  ] as const;
  for (const [scene, kind, status, code] of cases) {
    for (const stream of [false, true]) {
      const asked = scenes.asked(scene);
      const error = await failure(client.chat.completions.create({ ...say(scene), stream }));
      assert.ok(error instanceof kind, `${scene}: ${error.constructor.name}`);
      assert.deepEqual([error.status, error.code], [status, code]);
      assert.match(error.requestID ?? '', /^r\d+$/);
      assert.equal(scenes.asked(scene), asked + 1, `${scene} was asked for once`);
    }
  }
  const unknown = await failure(client.chat.completions.create({ ...say('hello'), model: 'no' }));
  assert.ok(unknown instanceof OpenAI.NotFoundError);
  assert.deepEqual([unknown.code, unknown.param], ['model_not_found', 'model']);
  const shut = await failure(stranger.models.list());
  assert.ok(shut instanceof OpenAI.AuthenticationError);
  assert.equal(shut.code, 'invalid_api_key');
});

test('an engine that loads is asked again by itself, after the time it was told', async () => {
  const began = systemClock.monotonic();
  const answer = await client.chat.completions.create(say('loading'));
  assert.equal(answer.choices[0]?.message.content, hello);
  assert.equal(scenes.asked('loading'), 2);
  assert.ok(systemClock.monotonic() - began >= 1_950, 'Retry-After was heeded');
});

test('a stream that is cut throws, and what came before it was given', async () => {
  const pieces: string[] = [];
  const error = await failure(
    (async () => {
      const stream = await client.chat.completions.create({ ...say('cut'), stream: true });
      for await (const { choices } of stream) pieces.push(choices[0]?.delta.content ?? '');
    })(),
  );
  assert.equal(pieces.join(''), 'so');
  assert.equal(error.code, 'engine_cut');
  const helper = client.chat.completions.stream(say('cut'));
  assert.equal((await failure(helper.finalChatCompletion())).code, 'engine_cut');
});

test('an answer that is no stream and is cut is an error, asked for once', async () => {
  const asked = scenes.asked('cut');
  const error = await failure(client.chat.completions.create(say('cut')));
  assert.ok(error instanceof OpenAI.InternalServerError, error.constructor.name);
  assert.deepEqual([error.status, error.code], [502, 'engine_cut']);
  assert.equal(scenes.asked('cut'), asked + 1);
});

test("the client's own timeout ends the question at the engine", async () => {
  for (const stream of [false, true]) {
    const options = { timeout: 300, maxRetries: 0 };
    const work = client.chat.completions.create({ ...say('silent'), stream }, options);
    const error = await failure(work);
    assert.ok(error instanceof OpenAI.APIConnectionTimeoutError);
    await client.chat.completions.create(say('after silent'), { timeout: 5_000, maxRetries: 0 });
  }
});

test('an abort in mid-stream ends the question at the engine', async () => {
  const ways = [
    async () => {
      const stream = await client.chat.completions.create({ ...say('endless'), stream: true });
      for await (const _ of stream) stream.controller.abort();
    },
    async () => {
      const stream = await client.chat.completions.create({ ...say('endless'), stream: true });
      for await (const _ of stream) break;
    },
    async () => {
      const helper = client.chat.completions.stream(say('endless'));
      helper.on('content', () => helper.abort());
      const error = await failure(helper.done());
      assert.ok(error instanceof OpenAI.APIUserAbortError);
    },
  ];
  for (const leave of ways) {
    await leave();
    await client.chat.completions.create(say('after endless'), { timeout: 5_000, maxRetries: 0 });
  }
});

test('completions, embeddings, responses, rerank and models answer', async () => {
  const legacy = { model, prompt: 'hello' };
  assert.equal((await client.completions.create(legacy)).choices[0]?.text, 'Hello, again');
  let text = '';
  for await (const { choices } of await client.completions.create({ ...legacy, stream: true })) {
    text += choices[0]?.text ?? '';
  }
  assert.equal(text, 'Hello, again');

  const { data, usage } = await client.embeddings.create({ model, input: 'hello' });
  assert.deepEqual(Array.from(data[0]?.embedding ?? []), [0.5, -1.25, 3]);
  assert.equal(usage.prompt_tokens, 3);

  const response = await client.responses.create({ model, input: 'hello' });
  assert.equal(response.output_text, hello);
  const deltas: string[] = [];
  const helper = client.responses.stream({ model, input: 'hello' });
  helper.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
  assert.equal((await helper.finalResponse()).output_text, hello);
  assert.equal(deltas.join(''), hello);

  const body = { model, query: 'hello', documents: ['a', 'b'] };
  const ranked = await client.post<{ results: { index: number }[] }>('/rerank', { body });
  assert.equal(ranked.results[0]?.index, 1);

  const listed: string[] = [];
  for await (const { id } of client.models.list()) listed.push(id);
  assert.deepEqual(listed, [model]);
  const one = await client.models.retrieve(model);
  assert.deepEqual([one.id, one.object, one.owned_by], [model, 'model', 'einsora']);
  assert.ok((await failure(client.models.retrieve('no'))) instanceof OpenAI.NotFoundError);
});

test('who is over a limit is told so by class, and comes through after the time it is told', async () => {
  const limits = { ...no_request_limits, concurrency: 1 };
  const limited = await startRig({
    findKey: async () => ({ ...storedKey, limits }),
    limiter: createLimiter(systemClock),
  });
  try {
    const played = playScenes(limited.upstream);
    const baseURL = `${limited.url}/v1`;
    const many = new OpenAI({ baseURL, apiKey: good_key, maxRetries: 5 });
    const open = await many.chat.completions.create({ ...say('endless'), stream: true });
    const once = many.chat.completions.create(say('hello'), { maxRetries: 0 });
    const error = await failure(once);
    assert.ok(error instanceof OpenAI.RateLimitError, error.constructor.name);
    assert.deepEqual([error.code, error.type], ['rate_limit_exceeded', 'concurrency']);
    assert.equal(played.asked('hello'), 0);
    const later = many.chat.completions.create(say('hello'));
    open.controller.abort();
    assert.equal((await later).choices[0]?.message.content, hello);
  } finally {
    await limited.close();
  }
});

test('who is kept waiting reads the answer past the comments, or the error', async () => {
  const slow = await startRig();
  try {
    for (const ends of ['well', 'badly']) {
      const held = Promise.withResolvers<void>();
      const [asked, advance] = [slow.upstream.next(), slow.clock.advance];
      slow.upstream.answer(async (reply, seen) => {
        await held.promise;
        if (ends === 'well') return events(chatEvent('at last'), doneEvent)(reply, seen);
        reply.destroy();
      });
      const client = new OpenAI({ baseURL: `${slow.url}/v1`, apiKey: good_key, maxRetries: 0 });
      const opening = client.chat.completions
        .create({ ...say('hello'), stream: true })
        .withResponse();
      await asked;
      advance(10_000);
      const { data: stream, response } = await opening;
      assert.equal(response.headers.get('x-einsora-served-by'), 'pending');
      advance(15_000);
      held.resolve();
      let text = '';
      const reading = (async () => {
        for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
      })();
      if (ends === 'badly') assert.equal((await failure(reading)).code, 'engine_cut');
      await reading.catch(() => {});
      assert.equal(text, ends === 'well' ? 'at last' : '');
    }
  } finally {
    await slow.close();
  }
});
