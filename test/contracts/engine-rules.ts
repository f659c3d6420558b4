/**
 * The rules of the contract of engines, each on one engine behind the gateway.
 */
import assert from 'node:assert/strict';
import type { GatewayApi, RequestRecord, TokenUse } from '../../src/gateway/request-record.ts';
import { errorOf, type Got } from '../lib/gateway-rig.ts';
import type { EngineUnderTest } from './engine.ts';

export type Fields = Record<string, unknown>;
type Usage = { prompt_tokens: number; completion_tokens: number; total_tokens: number };
type Chunk = { choices: Fields[]; usage?: Usage | null };

/** One engine behind the gateway. */
export type AtEngine = {
  under: EngineUnderTest;
  ask(api: GatewayApi, fields: Fields): Promise<Got>;
  /** What the engine itself answers. */
  own(api: GatewayApi, fields: Fields): Promise<string>;
  /** Who asks from now on, and whether several tenants prompt the endpoint. */
  asTenant(tenant_id: string, is_apart: boolean): void;
  /** Of the record of the last request. */
  lastUse(): Promise<TokenUse | undefined>;
};

export type EngineRule = [name: string, body: (at: AtEngine) => Promise<void>];

const sentence = 'Einsora runs this tiny model on your own machine.';
const tokens = 10;
const questions = {
  chat: { messages: [{ role: 'user', content: 'Who are you?' }] },
  completions: { prompt: 'Who are you?' },
} as const;

export const answerRules = (['chat', 'completions'] as const).flatMap((api): EngineRule[] => {
  const question = questions[api];
  return [
    [
      `${api}: an answer in one piece has all that was said, and its use`,
      async (at) => {
        const answer = await built(at, api, question);
        const [choice] = answer.choices;
        assert.equal(textOf(choice), sentence);
        assert.deepEqual([choice?.index, choice?.finish_reason], [0, 'stop']);
        assert.equal(answer.object, api === 'chat' ? 'chat.completion' : 'text_completion');
        const [prompt, completion] = countsOf(answer.usage);
        assert.deepEqual([completion, answer.usage?.total_tokens], [tokens, prompt + tokens]);
        assertUse(await at.lastUse(), answer.usage);
      },
    ],
    [
      `${api}: a stream says the same, and tells its use to the record alone`,
      async (at) => {
        const { usage } = await built(at, api, question);
        const got = await at.ask(api, { ...question, stream: true });
        const chunks = chunksOf(got);
        assert.equal(chunks.map(({ choices: [choice] }) => textOf(choice)).join(''), sentence);
        assert.ok(chunks.every(({ choices }) => choices.length === 1));
        // Of completions llama-server tells it unasked.
        const tells = at.under.engine === 'llama-server' && api === 'completions';
        if (!tells) assert.doesNotMatch(got.text, /usage/);
        assertUse(await at.lastUse(), usage);
      },
    ],
    [
      `${api}: who asks for the use in a stream gets it at its end, once`,
      async (at) => {
        const { usage } = await built(at, api, question);
        const stream_options = { include_usage: true };
        const chunks = chunksOf(await at.ask(api, { ...question, stream: true, stream_options }));
        const told = chunks.filter((chunk) => chunk.usage);
        assert.equal(told.length, 1);
        assert.equal(told[0], chunks.at(-1));
        assert.deepEqual(countsOf(told[0]?.usage), countsOf(usage));
      },
    ],
    [
      `${api}: a limit of tokens is kept and told`,
      async (at) => {
        const answer = await built(at, api, { ...question, max_tokens: 3 });
        const [choice] = answer.choices;
        assert.deepEqual([textOf(choice), choice?.finish_reason], ['Einsora runs this', 'length']);
        assert.equal(answer.usage?.completion_tokens, 3);
      },
    ],
    [
      `${api}: nothing is lost beside the engine's own answer`,
      async (at) => {
        const logprobs = api === 'chat' ? { logprobs: true, top_logprobs: 1 } : {};
        for (const more of [{}, logprobs]) {
          const asked = { ...question, temperature: 0, max_tokens: 4, ...more };
          const own = comparable(JSON.parse(await at.own(api, asked)));
          assert.deepEqual(comparable(await built(at, api, asked)), own, JSON.stringify(more));
        }
      },
    ],
  ];
});

export const refusalRules: EngineRule[] = [
  [
    'fields that would reach into the engine change nothing',
    async (at) => {
      const reaching = { adapters: '/x', draft_model: 'a/b', id_slot: 99, priority: 'high' };
      const asked = { ...questions.chat, ...reaching, request_id: 7 };
      assert.equal(textOf((await built(at, 'chat', asked)).choices[0]), sentence);
    },
  ],
  [
    'a question that is not one is refused in the shape of OpenAI',
    async (at) => {
      for (const body of [{}, { messages: [{ content: 7 }] }, { stream: true }]) {
        const got = await at.ask('chat', body);
        assert.equal(got.status, 400, got.text);
        const { message, request_id } = errorOf(got);
        assert.equal(typeof message, 'string');
        assert.equal(request_id, got.headers['x-request-id']);
      }
      assert.equal(textOf((await built(at, 'chat', questions.chat)).choices[0]), sentence);
    },
  ],
  [
    'several prompts are answered or refused, and the engine lives on',
    async (at) => {
      const got = await at.ask('completions', { prompt: ['Who?', 'And where?'], max_tokens: 3 });
      if (at.under.engine === 'mlx') assert.equal(errorOf(got).code, 'not_supported');
      else {
        const { choices, usage } = JSON.parse(got.text) as Chunk;
        assert.deepEqual(choices.map(textOf), ['Einsora runs this', 'Einsora runs this']);
        assert.equal(usage?.completion_tokens, 6);
      }
      assert.equal(textOf((await built(at, 'chat', questions.chat)).choices[0]), sentence);
    },
  ],
  [
    'several choices are counted together, told once, or refused',
    async (at) => {
      const asked = { ...questions.chat, n: 2, temperature: 0.5, max_tokens: 3 };
      const got = await at.ask('chat', asked);
      if (at.under.engine === 'mlx') return assert.equal(errorOf(got).code, 'not_supported');
      const { choices, usage } = JSON.parse(got.text) as Chunk;
      assert.deepEqual(choices.map(textOf), ['Einsora runs this', 'Einsora runs this']);
      assert.equal(usage?.completion_tokens, 6);
      assertUse(await at.lastUse(), usage);
      const stream_options = { include_usage: true };
      const chunks = chunksOf(await at.ask('chat', { ...asked, stream: true, stream_options }));
      const told = chunks.flatMap((chunk) => (chunk.usage ? [countsOf(chunk.usage)] : []));
      assert.deepEqual(told, [countsOf(usage)]);
    },
  ],
  [
    'what its model or the engine lacks is no failure of it',
    async (at) => {
      for (const api of ['embeddings', 'rerank'] as const) {
        const got = await at.ask(api, { input: 'a', query: 'a', documents: ['a'] });
        assert.deepEqual([got.status, errorOf(got).code], [400, 'not_supported'], got.text);
      }
    },
  ],
];

/** Of engines that can keep tenants apart: by its speed none learns what another asked. */
export const apartRules: EngineRule[] = [
  [
    'an endpoint of one tenant reuses the beginnings of its prompts',
    async (at) => {
      at.asTenant('t1', false);
      const [first, second] = [await cachedOf(at, 'alone'), await cachedOf(at, 'alone')];
      // Every prompt begins with the same marks.
      assert.ok(first < 32 && second > 100, `${first}, then ${second}`);
    },
  ],
  [
    'where several tenants prompt it none is served faster for what another asked',
    async (at) => {
      at.asTenant('t1', false);
      await cachedOf(at, 'shared');
      at.asTenant('t1', true);
      assert.equal(await cachedOf(at, 'shared'), 0, 'nor for what was asked before it was opened');
      const again = await cachedOf(at, 'shared');
      assert.equal(again > 0, at.under.apart === 'own', 'its own');
      at.asTenant('t2', true);
      assert.equal(await cachedOf(at, 'shared'), 0, "another's");
    },
  ],
];

/** How much of a long prompt the engine had from before, as it counts itself. */
async function cachedOf(at: AtEngine, about: string): Promise<number> {
  const messages = [{ role: 'user', content: `${about}: ${'tell me more. '.repeat(22)}` }];
  await built(at, 'chat', { messages, max_tokens: 2 });
  return (await at.lastUse())?.cached_tokens ?? -1;
}

/** Of engines that refuse a prompt that is too long. */
export const limitRules: EngineRule[] = [
  [
    'a prompt that is too long is the fault of the question',
    async (at) => {
      const messages = [{ role: 'user', content: 'a '.repeat(4000) }];
      for (const stream of [false, true]) {
        const got = await at.ask('chat', { messages, stream });
        const expected = [400, 'context_length_exceeded'];
        assert.deepEqual([got.status, errorOf(got).code], expected, got.text);
      }
    },
  ],
];

/** Of engines that have the responses API. */
export const responseRules: EngineRule[] = [
  [
    'a response, in one piece and as a stream',
    async (at) => {
      const asked = { input: 'Who are you?', max_output_tokens: 20, max_tokens: undefined };
      const answer = await built(at, 'responses', asked);
      assert.deepEqual([answer.object, answer.status], ['response', 'completed']);
      assert.ok(JSON.stringify(answer.output).includes(sentence));
      const use = await at.lastUse();
      assert.deepEqual([use?.completion_tokens, use?.is_estimated], [tokens, false]);
      const { text } = await at.ask('responses', { ...asked, stream: true });
      assert.match(text, /event: response\.completed\r?\ndata: .*\r?\n\r?\n$/);
      assert.deepEqual(await at.lastUse(), use);
    },
  ],
];

async function built(at: AtEngine, api: GatewayApi, fields: Fields): Promise<Fields & Chunk> {
  const got = await at.ask(api, fields);
  assert.equal(got.status, 200, got.text);
  return JSON.parse(got.text);
}

function textOf(choice: Fields | undefined): string {
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

function countsOf(usage: Usage | null | undefined): [prompt: number, completion: number] {
  return [usage?.prompt_tokens ?? -1, usage?.completion_tokens ?? -1];
}

function assertUse(use: RequestRecord['use'] | undefined, usage: Usage | null | undefined): void {
  assert.deepEqual([use?.prompt_tokens, use?.completion_tokens], countsOf(usage));
  assert.equal(use?.is_estimated, false);
}

/** Without what differs between any two answers, and what says only that there is nothing. */
function comparable(answer: Fields): Fields {
  const varies = ['id', 'created', 'model', 'prompt_tokens_details', 'timings'];
  const text = JSON.stringify(answer, (name, value) =>
    value === null || (Number.isNaN(Number(name)) && varies.includes(name)) ? undefined : value,
  );
  return JSON.parse(text);
}
