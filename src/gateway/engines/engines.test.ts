/**
 * Engines: what each is asked, of what a client asked, and what its refusals come to.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Refusal } from '../errors.ts';
import type { GatewayApi } from '../request-record.ts';
import { estimatePrompt } from '../use/estimate.ts';
import type { Fields } from '../whole/fields.ts';
import { askOf, type EngineAsk } from './engine-question.ts';
import { engineNamed } from './engines.ts';
import { blamesClient, refusalOfEngine, refusalOfEvent } from './refusal.ts';

const names = ['llama-server', 'vllm', 'mlx'];
const apart = { salt: 'mine' };

function asked(
  name: string,
  fields: Fields,
  api: GatewayApi = 'chat',
  kept_apart: { salt: string } | null = null,
): EngineAsk {
  const prompt_tokens = estimatePrompt(fields);
  const question = { api, fields, name: 'smol', prompt_tokens, apart: kept_apart };
  const read = askOf(engineNamed(name), question);
  assert.ok(read.ok, JSON.stringify(read));
  return read.value;
}
const bodyOf = (ask: EngineAsk): Fields => JSON.parse(ask.body);

function refused(name: string, fields: Fields, api: GatewayApi): Refusal {
  const read = askOf(engineNamed(name), {
    ...{ api, fields, name: 'smol', prompt_tokens: 0, apart: null },
  });
  assert.ok(!read.ok);
  return read.refusal;
}

// -- Asked ----------------------------------------------------------------------------------------

test('an engine is asked for a stream, whatever its client asked for', () => {
  for (const name of names) {
    const { is_stream, path, ...rest } = asked(name, { messages: [], stream: false });
    assert.deepEqual([is_stream, path], [true, '/v1/chat/completions']);
    assert.equal(bodyOf({ is_stream, path, ...rest }).stream, true);
  }
});

test('embeddings and rerank are asked for in one piece, without the options of a stream', () => {
  for (const api of ['embeddings', 'rerank'] as const) {
    const ask = asked('llama-server', { input: 'a', stream: true, stream_options: {} }, api);
    assert.deepEqual([ask.is_stream, bodyOf(ask)], [false, { input: 'a', model: 'smol' }]);
  }
});

test('what an engine does not tell in a stream is asked for in one piece', () => {
  const whole = asked('mlx', { logprobs: true, stream_options: {} });
  assert.deepEqual(
    [whole.is_stream, bodyOf(whole)],
    [false, { logprobs: true, model: 'default_model' }],
  );
  assert.equal(asked('mlx', { logprobs: false }).is_stream, true);
  assert.equal(asked('vllm', { prompt_logprobs: 2 }, 'completions').is_stream, false);
  assert.equal(asked('llama-server', { logprobs: true }).is_stream, true);
  // Who asks for a stream gets one.
  assert.equal(asked('mlx', { logprobs: true, stream: true }).is_stream, true);
});

test('an engine is asked for its own name of the model', () => {
  for (const [name, model] of [
    ['llama-server', 'smol'],
    ['vllm', 'smol'],
    // Any other it would load, from the hub if need be.
    ['mlx', 'default_model'],
    ['an engine of tomorrow', 'smol'],
  ] as const) {
    assert.equal(bodyOf(asked(name, { model: 'acme/else' })).model, model);
  }
});

test('fields that reach into an engine do not get there, all others do', () => {
  const control = {
    ...{ id_slot: 3, slot_id: 3, lora: [], adapters: '/x', adapter_path: '/x', draft_model: 'x/y' },
    ...{ num_draft_tokens: 9, priority: -9, request_id: 'of another', kv_transfer_params: {} },
    ...{ ec_transfer_params: {}, logits_processors: ['x'], prompt_embeds: 'AAAA' },
    ...{ chat_template: '{{ x }}', role_mapping: {} },
  };
  const own = { temperature: 0, seed: 1, tools: [], grammar: 'root', x_unknown: { deep: [1] } };
  for (const name of names) {
    const { model, stream, stream_options, ...rest } = bodyOf(asked(name, { ...control, ...own }));
    assert.deepEqual(rest, own);
    assert.deepEqual([typeof model, stream], ['string', true]);
  }
});

test('an engine of one tenant may use what it remembers as the client says', () => {
  const fields = { cache_prompt: true, cache_salt: 'x', stream: true };
  assert.deepEqual(bodyOf(asked('llama-server', fields)), { ...fields, model: 'smol' });
});

test('where several tenants prompt an engine none is given what it remembers', () => {
  const greedy = { cache_prompt: true, cache_salt: 'of another', n_cache_reuse: 1, seed: 1 };
  const bodyFor = (name: string) => {
    const { stream: _, stream_options: __, ...body } = bodyOf(asked(name, greedy, 'chat', apart));
    return body;
  };
  assert.deepEqual(bodyFor('llama-server'), { model: 'smol', seed: 1, cache_prompt: false });
  assert.deepEqual(bodyFor('vllm'), { model: 'smol', seed: 1, cache_salt: 'mine' });
  assert.deepEqual(bodyFor('mlx'), { model: 'default_model', seed: 1 });
});

test('pictures and sounds go through as they were sent, and nobody here fetches any', () => {
  const content = [
    { type: 'text', text: 'What is it?' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
    { type: 'image_url', image_url: { url: 'https://elsewhere.example/a.png' } },
    { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
  ];
  const messages = [{ role: 'user', content }];
  for (const name of names) assert.deepEqual(bodyOf(asked(name, { messages })).messages, messages);
});

test('what an engine lacks is said at once', () => {
  const { status, code, message } = refused('mlx', {}, 'embeddings');
  assert.deepEqual([status, code], [400, 'not_supported']);
  assert.equal(message, 'The engine of smol (mlx) has no embeddings; it has chat, completions.');
});

test('mlx is not asked what it would not survive, nor what it would leave out', () => {
  for (const [field, value] of [
    ['prompt', ['one', 'two']],
    ['prompt', [1, 2]],
    ['n', 2],
  ] as const) {
    const { status, code, param } = refused('mlx', { [field]: value }, 'completions');
    assert.deepEqual([status, code, param], [400, 'not_supported', field]);
  }
  assert.equal(
    refused('mlx', { n: 2 }, 'chat').message,
    'The engine of smol (mlx) gives one choice: see `n`.',
  );
  asked('mlx', { prompt: 'one', n: 1 }, 'completions');
});

test('a response is not kept, and who builds on an earlier one is told so', () => {
  assert.equal(bodyOf(asked('vllm', { input: 'a', store: true }, 'responses')).store, false);
  for (const field of ['previous_response_id', 'conversation', 'background']) {
    const { status, param } = refused('vllm', { input: 'a', [field]: 'x' }, 'responses');
    assert.deepEqual([status, param], [400, field]);
  }
  const empty = { input: 'a', previous_response_id: null, background: false };
  assert.equal(asked('vllm', empty, 'responses').is_stream, true);
});

test('what nests too deeply is refused, not thrown', () => {
  const deep = JSON.parse(`{"messages":${'['.repeat(200_000)}${']'.repeat(200_000)}}`);
  assert.equal(refused('vllm', deep, 'chat').code, 'bad_request');
});

test('the meter of an attempt knows what was asked for beyond its client', () => {
  const end = { choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } };
  const beside = { choices: [{ index: 0, finish_reason: 'stop' }], usage: end.usage };
  const told = (name: string, chunk: Fields, fields: Fields = {}) =>
    asked(name, { stream: true, ...fields }).meter.see(chunk);
  const wants = { stream_options: { include_usage: true } };
  assert.equal(told('vllm', end), null);
  assert.equal(told('vllm', end, wants), end);
  assert.deepEqual(told('vllm', beside, wants), { choices: beside.choices });
  // It was not asked: what it tells is its own.
  assert.equal(told('llama-server', beside), beside);
  assert.equal(told('llama-server', beside, wants), beside);
  assert.equal(told('mlx', end), null);
  const attempt = asked('vllm', { stream: true, prompt: 'x'.repeat(40) }).meter;
  assert.equal(attempt.use(false).prompt_tokens, 10);
});

// -- Refused --------------------------------------------------------------------------------------

const of = (status: number, body: unknown) => {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const { message, ...rest } = refusalOfEngine(status, bytes);
  return { ...rest, message, is_client: blamesClient({ message, ...rest }) };
};
const coded = (status: number, body: unknown) => {
  const { status: told, code, is_client } = of(status, body);
  return [told, code, is_client];
};

test('what the client did is its own, whatever status an engine gives it', () => {
  const error = (message: string, type = 'server_error') => ({ error: { message, type } });
  const too_long = "This model's maximum context length is 4096 tokens. However, you requested 9";
  const rows: [number, unknown, string][] = [
    [500, error('Failed to parse messages: Missing role'), 'bad_request'],
    [500, error('Failed to parse tools: Expected an array'), 'bad_request'],
    [500, error('image input is not supported - hint: mmproj'), 'not_supported'],
    [501, error('This server does not support embeddings. Start it'), 'not_supported'],
    [500, error(too_long), 'context_length_exceeded'],
    [400, { object: 'error', message: too_long, code: 400 }, 'context_length_exceeded'],
    [
      400,
      error('request (9 tokens) exceeds the available context size', 'exceed_context_size_error'),
      'context_length_exceeded',
    ],
  ];
  for (const [status, body, code] of rows) {
    assert.deepEqual(coded(status, body), [400, code, true], JSON.stringify(body));
  }
});

test('every shape of an error gives its words', () => {
  const rows: [unknown, string][] = [
    [{ error: { message: 'of OpenAI', type: 'x', param: 'n', code: 400 } }, 'of OpenAI'],
    [{ error: 'of mlx' }, 'of mlx'],
    [{ detail: 'of FastAPI' }, 'of FastAPI'],
    [{ object: 'error', message: 'of vLLM', type: 'BadRequestError', code: 400 }, 'of vLLM'],
    [
      { detail: [{ loc: ['body', 'messages', 0], msg: 'Field required', type: 'missing' }] },
      'messages.0: Field required',
    ],
  ];
  for (const [body, message] of rows) {
    assert.deepEqual([of(400, body).message, of(400, body).status], [message, 400]);
  }
  assert.equal(of(400, { error: { message: 'x', param: 'n' } }).param, 'n');
});

test('what fails before the first token is 404 to mlx, and mostly the question is to blame', () => {
  assert.deepEqual(coded(404, { error: "Only 'text' content type is supported." }), [
    ...[400, null, true],
  ]);
  const memory = '[METAL] Command buffer execution failed: Insufficient Memory';
  for (const error of [memory, 'generation thread died']) {
    assert.deepEqual(coded(404, { error }), [502, 'engine_error', false]);
  }
});

test('a path that an engine lacks is of a model of another kind', () => {
  const of_llama = { error: { message: 'File Not Found', type: 'not_found_error' } };
  for (const said of ['Not Found', { detail: 'Not Found' }, of_llama]) {
    assert.deepEqual(coded(404, said), [400, 'not_supported', true]);
  }
  const message = 'The model `smol` does not exist.';
  const of_model = { error: { message, type: 'NotFoundError', param: 'model' } };
  assert.deepEqual(coded(404, of_model), [502, 'engine_error', false], 'its name is our doing');
});

test("vLLM's own names of errors give way to those of OpenAI", () => {
  for (const type of ['BadRequestError', 'Bad Request']) {
    const told = of(400, { error: { message: 'n must be 1', type, param: 'n', code: 400 } });
    assert.deepEqual([told.code, told.type, told.param], [null, undefined, 'n']);
  }
});

test('what is our own doing, or nothing that can be used, is no fault of the client', () => {
  for (const status of [100, 204, 302, 401, 403, 405, 411, 600]) {
    assert.deepEqual(coded(status, { error: { message: 'x' } }), [502, 'engine_error', false]);
  }
  for (const body of ['', '<html>', '[]', '{}', '{"error":{}}', '{"error":7}']) {
    assert.deepEqual(coded(500, body), [500, 'engine_error', false]);
    assert.deepEqual(coded(400, body), [400, 'engine_error', true]);
  }
  assert.deepEqual(coded(500, { error: { message: 'slot lost', type: 'server_error' } }), [
    ...[500, 'server_error', false],
  ]);
});

test('a busy engine says that waiting helps', () => {
  const loading = { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } };
  assert.deepEqual(
    [of(503, loading).message, of(503, loading).retry_after_s, ...coded(503, loading)],
    ['Loading model', 2, 503, 'not_ready', false],
  );
  assert.deepEqual([of(429, '').retry_after_s, ...coded(429, '')], [2, 429, 'engine_busy', false]);
});

test('an error inside a stream is read like any other', () => {
  const coded = (error: unknown) => {
    const refusal = refusalOfEvent(error);
    return [refusal.status, refusal.message];
  };
  assert.deepEqual(coded({ message: 'slot lost', code: 500 }), [500, 'slot lost']);
  assert.deepEqual(coded({ message: 'bad', type: 'x', code: 400 }), [400, 'bad']);
  assert.deepEqual(coded({ message: 'odd', code: 'text' }), [500, 'odd']);
  assert.deepEqual(coded('text'), [500, 'text']);
  assert.equal(coded(null)[0], 500);
});
