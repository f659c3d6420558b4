/**
 * Whole answers from streams: however an engine cuts its answer, nothing of it is lost.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createWhole, type StreamedApi } from './whole.ts';

type Json = Record<string, unknown>;

const plain = (value: unknown) => JSON.parse(JSON.stringify(value));

function built(api: StreamedApi, chunks: unknown[]): Json {
  const whole = createWhole(api);
  for (const chunk of chunks) whole.see(chunk);
  return plain(whole.result());
}

const chunk = (delta: Json, rest: Json = {}, index = 0) => ({
  ...{ id: 'c1', object: 'chat.completion.chunk', created: 7, model: 'mine' },
  choices: [{ index, delta, finish_reason: null, ...rest }],
});

// -- Any answer, cut anywhere ---------------------------------------------------------------------

/** Texts of all characters, cut between any two code units, as a tokenizer might. */
const text = fc.string({ unit: 'binary', maxLength: 12 });
const some = fc.oneof(text, fc.integer(), fc.boolean());
const unknown = fc.dictionary(text, some, { maxKeys: 2, noNullPrototype: true });
const logprob = fc.record({ token: text, logprob: fc.double({ noNaN: true, max: 0 }) });
const logprobs = fc.record(
  { content: fc.array(logprob, { maxLength: 4 }), refusal: fc.array(logprob, { maxLength: 2 }) },
  { requiredKeys: [] },
);
const call = fc.record({
  id: text,
  type: fc.constant('function'),
  function: fc.record({ name: text, arguments: text }),
});
const message = fc.record(
  {
    role: fc.constantFrom('assistant', 'tool'),
    content: text,
    refusal: text,
    reasoning_content: text,
    audio: fc.record({ id: text, data: text, transcript: text }),
    tool_calls: fc.array(call, { minLength: 1, maxLength: 3 }),
    engine_says: fc.record({ more: text, seen: fc.integer(), list: fc.array(text) }),
  },
  { requiredKeys: ['role', 'content'] },
);
const choice = fc.record(
  { message, logprobs, finish_reason: fc.constantFrom('stop', 'length', 'tool_calls') },
  { requiredKeys: ['message', 'finish_reason'] },
);
const answer = fc.record(
  {
    id: text,
    created: fc.nat(),
    model: text,
    system_fingerprint: text,
    service_tier: text,
    usage: fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat() }),
    timings: fc.record({ cache_n: fc.nat(), predicted_n: fc.nat() }),
    unknown_of_engine: unknown,
    choices: fc.array(choice, { minLength: 1, maxLength: 3 }),
  },
  { requiredKeys: ['id', 'choices'] },
);

/** Two parts that together say what the whole does: texts and lists are cut, the rest stays. */
function halves(name: string, value: unknown, at: number): [unknown, unknown] {
  if (['role', 'id', 'type', 'name', 'index'].includes(name)) return [value, value];
  if (typeof value === 'string') {
    const place = at % (value.length + 1);
    return [value.slice(0, place), value.slice(place)];
  }
  if (name === 'tool_calls' && Array.isArray(value)) {
    const both = value.map((one) => halves('', one, at));
    return [both.map(([first]) => first), both.map(([, second]) => second)];
  }
  if (Array.isArray(value)) {
    const place = at % (value.length + 1);
    return [value.slice(0, place), value.slice(place)];
  }
  if (typeof value !== 'object' || value === null) return [value, value];
  const both = Object.entries(value).map(([key, one]) => [key, halves(key, one, at)] as const);
  return [
    Object.fromEntries(both.map(([key, [first]]) => [key, first])),
    Object.fromEntries(both.map(([key, [, second]]) => [key, second])),
  ];
}

function pieces(value: Json, cuts: readonly number[]): Json[] {
  let rest = value;
  const found: Json[] = [];
  for (const at of cuts) {
    const [first, second] = halves('', rest, at) as [Json, Json];
    found.push(first);
    rest = second;
  }
  return [...found, rest];
}

function withIndexes(delta: Json): Json {
  const { tool_calls } = delta as { tool_calls?: Json[] };
  if (tool_calls === undefined) return delta;
  return { ...delta, tool_calls: tool_calls.map((one, index) => ({ ...one, index })) };
}

test('any answer of chat, cut anywhere and with its choices mixed, is built again', () => {
  const cuts = fc.array(fc.nat(), { maxLength: 4 });
  fc.assert(
    fc.property(answer, cuts, fc.infiniteStream(fc.nat()), (whole, places, order) => {
      const { choices, usage, ...top } = whole;
      const each = choices.map((one, index) =>
        pieces({ delta: one.message, logprobs: one.logprobs ?? null }, places).map((part, nth) => {
          const finish_reason = nth === places.length ? one.finish_reason : null;
          const delta = withIndexes(part.delta as Json);
          return { ...top, choices: [{ ...part, delta, index, finish_reason }], usage: null };
        }),
      );
      const chunks: unknown[] = [];
      for (let left = each.filter((one) => one.length > 0); left.length > 0; ) {
        chunks.push(left[order.next().value % left.length]?.shift());
        left = left.filter((one) => one.length > 0);
      }
      if (usage !== undefined) chunks.push({ ...top, choices: [], usage });
      const expected = {
        ...{ ...whole, object: 'chat.completion' },
        choices: choices.map((one, index) => ({ logprobs: null, ...one, index })),
      };
      assert.deepEqual(built('chat', plain(chunks)), plain(expected));
    }),
  );
});

test('a text of completions and its lists of logprobs grow together', () => {
  const part = (text: string, finish_reason: string | null, index = 0) => ({
    ...{ id: 'c1', object: 'text_completion' },
    choices: [
      {
        ...{ text, index, finish_reason },
        logprobs: { tokens: [text], token_logprobs: [-1], text_offset: [index] },
      },
    ],
  });
  const got = built('completions', [
    null,
    part('b', null, 1),
    part('a', null),
    part('a', 'length'),
    part('', 'stop', 1),
  ]);
  const lists = (...tokens: string[]) => ({ tokens, token_logprobs: tokens.map(() => -1) });
  assert.deepEqual(got, {
    ...{ id: 'c1', object: 'text_completion' },
    choices: [
      {
        ...{ text: 'aa', index: 0, finish_reason: 'length' },
        logprobs: { ...lists('a', 'a'), text_offset: [0, 0] },
      },
      {
        ...{ text: 'b', index: 1, finish_reason: 'stop' },
        logprobs: { ...lists('b', ''), text_offset: [1, 1] },
      },
    ],
  });
});

// -- One rule each --------------------------------------------------------------------------------

test('calls are put together by their index, in any order, and lose it', () => {
  const call = (index: number, parts: Json) => chunk({ tool_calls: [{ index, ...parts }] });
  const { choices } = built('chat', [
    chunk({ role: 'assistant', content: null }),
    call(1, { id: 'b', type: 'function', function: { name: 'two', arguments: '' } }),
    call(0, { id: 'a', type: 'function', function: { name: 'one', arguments: '{"x"' } }),
    call(1, { function: { arguments: '{}' } }),
    call(0, { function: { arguments: ':1}' } }),
    chunk({}, { finish_reason: 'tool_calls' }),
  ]) as { choices: { message: Json }[] };
  assert.deepEqual(choices[0]?.message, {
    role: 'assistant',
    content: '',
    tool_calls: [
      { id: 'a', type: 'function', function: { name: 'one', arguments: '{"x":1}' } },
      { id: 'b', type: 'function', function: { name: 'two', arguments: '{}' } },
    ],
  });
});

test('calls without an index are calls of their own', () => {
  const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } });
  const { choices } = built('chat', [
    chunk({ tool_calls: [call('a')] }),
    chunk({ tool_calls: [call('b')] }, { finish_reason: 'tool_calls' }),
  ]) as { choices: { message: Json }[] };
  assert.deepEqual(choices[0]?.message.tool_calls, [call('a'), call('b')]);
});

test('an answer without a word is an empty text, beside a refusal it is none', () => {
  const contentOf = (delta: Json) => {
    const got = built('chat', [chunk(delta, { finish_reason: 'stop' })]);
    return (got as { choices: { message: Json }[] }).choices[0]?.message.content;
  };
  assert.equal(contentOf({ role: 'assistant', content: null }), '');
  assert.equal(contentOf({ role: 'assistant' }), null, 'mlx_lm.server has none either');
  assert.equal(contentOf({ content: null, refusal: 'no' }), null);
});

test('of usage and of the fields of a chunk the last value counts, and null is none', () => {
  const got = built('chat', [
    { ...chunk({ content: 'a' }), usage: { completion_tokens: 1 }, service_tier: 'x' },
    { ...chunk({}, { finish_reason: 'stop' }), usage: { completion_tokens: 2 } },
    { id: 'c1', choices: [], usage: { completion_tokens: 3 }, service_tier: null },
  ]);
  assert.deepEqual([got.usage, got.service_tier], [{ completion_tokens: 3 }, 'x']);
});

test('the usage of all of it stands in the place of what the engine told last', () => {
  const whole = createWhole('chat');
  whole.see({ ...chunk({}, { finish_reason: 'stop' }), usage: { completion_tokens: 1 } });
  assert.deepEqual(whole.result({ completion_tokens: 2 }).usage, { completion_tokens: 2 });
  assert.deepEqual(whole.result(null).usage, { completion_tokens: 1 });
});

test('an answer is whole once each of its choices has ended', () => {
  const whole = createWhole('chat');
  assert.equal(whole.isWhole(), false);
  whole.see(chunk({ content: 'a' }, { finish_reason: 'stop' }));
  assert.equal(whole.isWhole(), true);
  whole.see(chunk({ content: 'b' }, {}, 1));
  assert.equal(whole.isWhole(), false);
});

test('what is no chunk and what has odd names does no harm', () => {
  const odd = JSON.parse('{"__proto__":{"x":1},"choices":[7,{"delta":{"__proto__":"y"}},null]}');
  const got = createWhole('chat');
  for (const chunk of [null, 7, 'text', [], odd]) got.see(chunk);
  assert.equal(
    JSON.stringify(got.result()),
    '{"__proto__":{"x":1},"object":"chat.completion","choices":[{"finish_reason":null,' +
      '"message":{"role":"assistant","content":null,"__proto__":"y"},"index":0}]}',
  );
});

test('a response is what its last event carries, however it ended', () => {
  for (const end of ['completed', 'incomplete', 'failed']) {
    const whole = createWhole('responses');
    const response = { id: 'r', object: 'response', status: end, output: [{ type: 'message' }] };
    whole.see({ type: 'response.created', response: { id: 'r', status: 'in_progress' } });
    whole.see({ type: 'response.output_text.delta', delta: 'a' });
    assert.equal(whole.isWhole(), false);
    whole.see({ type: `response.${end}`, response, timings: {} });
    assert.deepEqual([whole.isWhole(), whole.result()], [true, response]);
  }
});
