/**
 * The whole program and the real llama.cpp, asked by the npm package `openai` for all that its
 * engine can do: what the engine says reaches the package as it is.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { launch } from '../lib/bad-day.ts';
import {
  type KnownAnswer,
  writeEmbeddingModel,
  writeKnownAnswerModel,
  writeToolModel,
} from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const real = { ...needs('llama', 'bwrap', 'cgroup'), timeout: 240_000 };
const data_dir = temporaryFolder();
const user = (content: string) => [{ role: 'user' as const, content }];
let program: Program | null = null;
let known: KnownAnswer = { sentence: '', completion_tokens: 0 };
const clients = new Map<string, OpenAI>();

before(async () => {
  if (real.skip !== false) return;
  program = await startProgram({ data_dir, args: ['--offer-cpu', '2'] });
  known = writeKnownAnswerModel(join(data_dir, 'known.gguf'));
  writeToolModel(join(data_dir, 'calls.gguf'));
  writeEmbeddingModel(join(data_dir, 'embeds.gguf'));
  for (const name of ['known', 'calls']) await serve(program, name);
});
after(() => cleanUp(data_dir, program));

async function serve(by: Program, name: string): Promise<void> {
  const { code, document } = await launch(by, join(data_dir, `${name}.gguf`));
  assert.equal(code, 0, JSON.stringify(document.error));
  const baseURL = `${by.url}/v1`;
  clients.set(name, new OpenAI({ baseURL, apiKey: document.key ?? '', maxRetries: 0 }));
}

function clientOf(name: string): OpenAI {
  const client = clients.get(name);
  assert.ok(client !== undefined);
  return client;
}

test('several answers at once, with the chances of their tokens', real, async () => {
  const asked = { model: 'known', messages: user('Who?'), n: 2, logprobs: true, top_logprobs: 2 };
  const whole = await clientOf('known').chat.completions.create(asked);
  const streamed = await clientOf('known').chat.completions.stream(asked).finalChatCompletion();
  for (const { choices } of [whole, streamed]) {
    assert.deepEqual(
      choices.map(({ index, message, finish_reason }) => [index, message.content, finish_reason]),
      [0, 1].map((index) => [index, known.sentence, 'stop']),
    );
    for (const { logprobs } of choices) {
      const tokens = logprobs?.content ?? [];
      assert.equal(tokens.map(({ token }) => token).join(''), known.sentence);
      assert.equal(tokens[0]?.top_logprobs.length, 2);
    }
  }
});

test('an answer in the form that was asked for', real, async () => {
  const schema = {
    type: 'object',
    properties: { machines: { type: 'integer' }, kind: { enum: ['cpu', 'gpu'] } },
    required: ['machines', 'kind'],
    additionalProperties: false,
  };
  for (const stream of [false, true]) {
    const helper = clientOf('known').chat.completions;
    const asked = {
      model: 'known',
      messages: user('How many?'),
      max_tokens: 200,
      response_format: {
        type: 'json_schema' as const,
        json_schema: { name: 'machines', schema, strict: true },
      },
    };
    const answer = stream
      ? await helper.stream(asked).finalChatCompletion()
      : await helper.create(asked);
    const said = JSON.parse(answer.choices[0]?.message.content ?? '');
    assert.deepEqual(Object.keys(said).sort(), ['kind', 'machines']);
    assert.ok(Number.isInteger(said.machines) && ['cpu', 'gpu'].includes(said.kind));
  }
});

test('a call of a tool, streamed and not, and by the helper that runs it', real, async () => {
  const parameters = {
    type: 'object',
    properties: { place: { type: 'string' } },
    required: ['place'],
  };
  const tools = [{ type: 'function' as const, function: { name: 'weather', parameters } }];
  const asked = { model: 'calls', messages: user('How is it in Paris?'), tools };
  const { completions } = clientOf('calls').chat;
  const whole = await completions.create(asked);
  const streamed = await completions.stream(asked).finalChatCompletion();
  for (const { choices } of [whole, streamed]) {
    assert.equal(choices[0]?.finish_reason, 'tool_calls');
    const [call, ...more] = choices[0]?.message.tool_calls ?? [];
    assert.ok(call?.type === 'function' && more.length === 0);
    assert.ok(call.id !== '');
    assert.equal(call.function.name, 'weather');
    assert.deepEqual(JSON.parse(call.function.arguments), { place: 'Paris' });
  }
  const places: string[] = [];
  const runner = completions.runTools(
    {
      model: 'calls',
      messages: user('How is it in Paris?'),
      tools: [
        {
          type: 'function',
          function: {
            name: 'weather',
            parameters,
            description: 'Tells the weather of a place.',
            function: (text: string) => {
              places.push(JSON.parse(text).place);
              return 'Fine.';
            },
          },
        },
      ],
    },
    { maxChatCompletions: 2 },
  );
  await runner.done();
  assert.deepEqual(places, ['Paris', 'Paris'], 'it never says anything else');
});

test('completions and responses, streamed and not', real, async () => {
  const client = clientOf('known');
  const legacy = { model: 'known', prompt: 'Who?' };
  const plain = await client.completions.create(legacy);
  assert.equal(plain.choices[0]?.text, known.sentence);
  assert.equal(plain.usage?.completion_tokens, known.completion_tokens);
  let text = '';
  for await (const { choices } of await client.completions.create({ ...legacy, stream: true })) {
    text += choices[0]?.text ?? '';
  }
  assert.equal(text, known.sentence);
  const whole = await client.responses.create({ model: 'known', input: 'Who?' });
  assert.equal(whole.output_text, known.sentence);
  assert.equal(whole.usage?.output_tokens, known.completion_tokens);
  assert.equal(whole.status, 'completed');
  const helper = client.responses.stream({ model: 'known', input: 'Who?' });
  let said = '';
  helper.on('response.output_text.delta', ({ delta }) => {
    said += delta;
  });
  const streamed = await helper.finalResponse();
  assert.deepEqual([said, streamed.output_text], [known.sentence, known.sentence]);
  assert.equal(streamed.usage?.output_tokens, known.completion_tokens);
});

test('a response calls a tool, streamed and not', real, async () => {
  const parameters = { type: 'object', properties: { place: { type: 'string' } } };
  const tools = [{ type: 'function' as const, name: 'weather', parameters, strict: false }];
  const asked = { model: 'calls', input: 'How is it in Paris?', tools };
  const { responses } = clientOf('calls');
  const whole = await responses.create(asked);
  const streamed = await responses.stream(asked).finalResponse();
  for (const { output } of [whole, streamed]) {
    const [call, ...more] = output;
    assert.ok(call?.type === 'function_call' && more.length === 0);
    assert.equal(call.name, 'weather');
    assert.deepEqual(JSON.parse(call.arguments), { place: 'Paris' });
  }
});

test('embeddings of several texts, in both forms', real, async () => {
  assert.ok(program !== null);
  const removed = await program.cli(['rm', 'calls']);
  assert.equal(removed.code, 0, removed.stderr);
  await serve(program, 'embeds');
  const { embeddings } = clientOf('embeds');
  const input = ['one', 'two'];
  const packed = await embeddings.create({ model: 'embeds', input });
  const plain = await embeddings.create({ model: 'embeds', input, encoding_format: 'float' });
  for (const { data, usage } of [packed, plain]) {
    assert.deepEqual(
      data.map(({ index }) => index),
      [0, 1],
    );
    assert.ok(data.every(({ embedding }) => embedding.length > 100 && embedding.some(Boolean)));
    assert.ok(usage.prompt_tokens > 0);
  }
  assert.deepEqual(Array.from(packed.data[0]?.embedding ?? []), plain.data[0]?.embedding);
});

test('a prompt that is too long is 400 context_length_exceeded, each time', real, async () => {
  const messages = user('too long '.repeat(3000));
  for (let turn = 0; turn < 3; turn += 1) {
    for (const stream of [false, true]) {
      const error = await clientOf('known')
        .chat.completions.create({ model: 'known', messages, stream })
        .then(() => assert.fail('it went through'))
        .catch((caught: unknown) => caught);
      assert.ok(error instanceof OpenAI.BadRequestError, String(error));
      assert.equal(error.code, 'context_length_exceeded');
      assert.match(error.message, /context size/);
    }
  }
  const after = await clientOf('known').chat.completions.create({
    model: 'known',
    messages: user('Still there?'),
  });
  assert.equal(after.choices[0]?.message.content, known.sentence, 'no breaker has tripped');
});

test('what the engine was not started for is refused once, and trips nothing', real, async () => {
  const client = clientOf('known');
  for (let turn = 0; turn < 4; turn += 1) {
    for (const ask of [
      () => client.embeddings.create({ model: 'known', input: 'x' }),
      () => client.post('/rerank', { body: { model: 'known', query: 'x', documents: ['y'] } }),
    ]) {
      const error = await ask()
        .then(() => assert.fail('it went through'))
        .catch((caught: unknown) => caught);
      assert.ok(error instanceof OpenAI.APIError, String(error));
      assert.match(error.message, /does not support/);
    }
  }
  const one = await client.chat.completions.create({ model: 'known', messages: user('Who?') });
  assert.equal(one.choices[0]?.message.content, known.sentence);
});
