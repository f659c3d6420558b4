/**
 * What every engine must come to when it is asked through the gateway: the same answers, the same
 * counts, the same errors, whichever it is. Each serves the known answer.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { after, before, test } from 'node:test';
import type { GatewayApi, RequestRecord } from '../../src/gateway/request-record.ts';
import { errorOf, type Got, type Rig, replica, send, smol, startRig } from '../lib/gateway-rig.ts';

export type EngineUnderTest = {
  /** The adapter's name. */
  engine: string;
  /** Under which its own API knows the model. */
  own_model: string;
  /** Whether it refuses a prompt that is too long. */
  has_limit: boolean;
  has_responses: boolean;
  start(): Promise<{ dial(): Promise<Socket>; stop(): Promise<void> }>;
};

type Json = Record<string, unknown>;
type Usage = { prompt_tokens: number; completion_tokens: number; total_tokens: number };
type Chunk = { choices: Json[]; usage?: Usage | null };

const sentence = 'Einsora runs this tiny model on your own machine.';
const tokens = 10;
const paths = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  responses: '/v1/responses',
  embeddings: '/v1/embeddings',
  rerank: '/v1/rerank',
} as const satisfies Record<GatewayApi, string>;
const questions = {
  chat: { messages: [{ role: 'user', content: 'Who are you?' }] },
  completions: { prompt: 'Who are you?' },
} as const;

export function engineContract(
  under: EngineUnderTest,
  options: { skip?: string | false; timeout?: number } = {},
): void {
  let rig: Rig;
  let engine: Awaited<ReturnType<EngineUnderTest['start']>>;
  const records: RequestRecord[] = [];
  const { endpoint } = smol(replica);
  before(async () => {
    if (options.skip) return;
    engine = await under.start();
    rig = await startRig({
      findEndpoint: async () => ({ ok: true, endpoint: { ...endpoint, engine: under.engine } }),
      dial: () => engine.dial(),
      record: (record) => void records.push(record),
    });
  }, options);
  after(async () => {
    await rig?.close();
    await engine?.stop();
  });

  const ask = async (api: GatewayApi, fields: Json): Promise<Got> => {
    const body = { model: 'smol', temperature: 0, max_tokens: 20, ...fields };
    return send(rig, { path: paths[api], body });
  };
  const built = async (api: GatewayApi, fields: Json): Promise<Json & Chunk> => {
    const got = await ask(api, fields);
    assert.equal(got.status, 200, got.text);
    return JSON.parse(got.text);
  };
  const lastUse = async () => {
    await rig.settled();
    return records.at(-1)?.use;
  };
  const check = (name: string, body: () => Promise<void>) =>
    test(`${under.engine}: ${name}`, options, body);

  for (const api of ['chat', 'completions'] as const) {
    const question = questions[api];

    check(`${api}: an answer in one piece has all that was said, and its use`, async () => {
      const answer = await built(api, question);
      const [choice] = answer.choices;
      assert.equal(textOf(choice), sentence);
      assert.deepEqual([choice?.index, choice?.finish_reason], [0, 'stop']);
      assert.equal(answer.object, api === 'chat' ? 'chat.completion' : 'text_completion');
      const { prompt_tokens, completion_tokens, total_tokens } = answer.usage ?? {};
      assert.deepEqual([completion_tokens, total_tokens], [tokens, (prompt_tokens ?? 0) + tokens]);
      assertUse(await lastUse(), answer.usage);
    });

    check(`${api}: a stream says the same, and tells its use to the record alone`, async () => {
      const { usage } = await built(api, question);
      const got = await ask(api, { ...question, stream: true });
      const chunks = chunksOf(got);
      assert.equal(chunks.map(({ choices: [choice] }) => textOf(choice)).join(''), sentence);
      assert.ok(chunks.every(({ choices }) => choices.length === 1));
      // Of completions llama-server tells it unasked.
      if (under.engine !== 'llama-server' || api === 'chat') assert.doesNotMatch(got.text, /usage/);
      assertUse(await lastUse(), usage);
    });

    check(`${api}: who asks for the use in a stream gets it at its end, once`, async () => {
      const { usage } = await built(api, question);
      const stream_options = { include_usage: true };
      const chunks = chunksOf(await ask(api, { ...question, stream: true, stream_options }));
      const told = chunks.filter((chunk) => chunk.usage);
      assert.equal(told.length, 1);
      assert.equal(told[0], chunks.at(-1));
      assert.deepEqual(countsOf(told[0]?.usage), countsOf(usage));
    });

    check(`${api}: a limit of tokens is kept and told`, async () => {
      const answer = await built(api, { ...question, max_tokens: 3 });
      const [choice] = answer.choices;
      assert.deepEqual([textOf(choice), choice?.finish_reason], ['Einsora runs this', 'length']);
      assert.equal(answer.usage?.completion_tokens, 3);
    });

    check(`${api}: nothing is lost beside the engine's own answer`, async () => {
      const fields = { ...question, temperature: 0, max_tokens: 4 };
      const logprobs = api === 'chat' ? { logprobs: true, top_logprobs: 1 } : {};
      for (const more of [{}, logprobs]) {
        const asked = { ...fields, ...more };
        const own = await post(await engine.dial(), paths[api], {
          ...{ ...asked, model: under.own_model },
        });
        const mine = comparable(await built(api, asked));
        assert.deepEqual(mine, comparable(JSON.parse(own.text)), JSON.stringify(more));
      }
    });
  }

  check('fields that would reach into the engine change nothing', async () => {
    const reaching = { adapters: '/x', draft_model: 'a/b', id_slot: 99, priority: 'high' };
    const answer = await built('chat', { ...questions.chat, ...reaching, request_id: 7 });
    assert.equal(textOf(answer.choices[0]), sentence);
  });

  check('a question that is not one is refused in the shape of OpenAI', async () => {
    for (const body of [{}, { messages: [{ content: 7 }] }, { stream: true }]) {
      const got = await ask('chat', body);
      assert.equal(got.status, 400, got.text);
      const { message, request_id } = errorOf(got);
      assert.equal(typeof message, 'string');
      assert.equal(request_id, got.headers['x-request-id']);
    }
    assert.equal(textOf((await built('chat', questions.chat)).choices[0]), sentence);
  });

  check('what its model or the engine lacks is no failure of it', async () => {
    for (const api of ['embeddings', 'rerank'] as const) {
      const got = await ask(api, { input: 'a', query: 'a', documents: ['a'] });
      assert.deepEqual([got.status, errorOf(got).code], [400, 'not_supported'], got.text);
    }
  });

  if (under.has_limit) {
    check('a prompt that is too long is the fault of the question', async () => {
      const messages = [{ role: 'user', content: 'a '.repeat(4000) }];
      for (const stream of [false, true]) {
        const got = await ask('chat', { messages, stream });
        const expected = [400, 'context_length_exceeded'];
        assert.deepEqual([got.status, errorOf(got).code], expected, got.text);
      }
    });
  }

  if (under.has_responses) {
    check('a response, in one piece and as a stream', async () => {
      const asked = { input: 'Who are you?', max_output_tokens: 20, max_tokens: undefined };
      const answer = await built('responses', asked);
      assert.deepEqual([answer.object, answer.status], ['response', 'completed']);
      assert.ok(JSON.stringify(answer.output).includes(sentence));
      const use = await lastUse();
      assert.deepEqual([use?.completion_tokens, use?.is_estimated], [tokens, false]);
      const { text } = await ask('responses', { ...asked, stream: true });
      assert.match(text, /event: response\.completed\r?\ndata: .*\r?\n\r?\n$/);
      assert.deepEqual(await lastUse(), use);
    });
  }
}

function textOf(choice: Json | undefined): string {
  const { text, message, delta } = (choice ?? {}) as { [name: string]: unknown };
  const said = (message ?? delta ?? { content: text }) as { content?: string | null };
  return said.content ?? '';
}

function chunksOf({ status, text, whole }: Got): Chunk[] {
  assert.deepEqual([status, whole], [200, true], text);
  const data = [...text.matchAll(/^data: (.*)$/gm)].map(([, one = '']) => one);
  assert.equal(data.pop(), '[DONE]');
  return data.map((one) => JSON.parse(one));
}

function countsOf(usage: Usage | null | undefined): number[] {
  return [usage?.prompt_tokens ?? -1, usage?.completion_tokens ?? -1];
}

function assertUse(use: RequestRecord['use'] | undefined, usage: Usage | null | undefined): void {
  assert.deepEqual([use?.prompt_tokens, use?.completion_tokens], countsOf(usage));
  assert.equal(use?.is_estimated, false);
}

/** Without what differs between any two answers, and what says only that there is nothing. */
function comparable(answer: Json): Json {
  const varies = ['id', 'created', 'model', 'prompt_tokens_details', 'timings'];
  const text = JSON.stringify(answer, (name, value) =>
    value === null || (Number.isNaN(Number(name)) && varies.includes(name)) ? undefined : value,
  );
  return JSON.parse(text);
}

/** One call of the engine itself. */
function post(connection: Socket, path: string, body: Json): Promise<{ text: string }> {
  const text = Buffer.from(JSON.stringify(body));
  const headers = { 'Content-Type': 'application/json', 'Content-Length': text.length };
  return new Promise((resolve, reject) => {
    const how = { method: 'POST', path, headers, createConnection: () => connection };
    const asked = request(how, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => {
        connection.destroy();
        resolve({ text: Buffer.concat(chunks).toString('utf8') });
      });
    });
    asked.on('error', reject);
    asked.end(text);
  });
}
