/**
 * Anything asked of the inference gateway by somebody with a good key: bodies that are nearly
 * OpenAI's, and bodies that are nothing. And names of models, which are parsed before all else.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { parseModelName } from '../../src/models/source-name.ts';
import { type Rig, send, startRig } from '../lib/gateway-rig.ts';
import { anyJson, oddText } from '../lib/schema-arbitrary.ts';
import { events, json, type Script } from '../lib/upstream.ts';

const given = {} as { rig: Rig };
before(async () => {
  given.rig = await startRig();
  given.rig.upstream.answer(asEngine);
});
after(() => given.rig.close());

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const choice = { index: 0, finish_reason: 'stop' };
const document = { object: 'list', data: [{ index: 0, embedding: [1] }], usage };
const response = { id: 'r', object: 'response', status: 'completed', output: [] };

/** What each path's engine says at once, and how it ends. */
const ends: Record<string, unknown> = {
  '/v1/chat/completions': { choices: [{ ...choice, delta: { content: 'Yes' } }], usage },
  '/v1/completions': { choices: [{ ...choice, text: 'Yes' }], usage },
  '/v1/responses': { type: 'response.completed', response },
};

/** Streams what is always asked for as a stream, and gives a document for the rest. */
const asEngine: Script = (reply, seen) => {
  const end = ends[seen.path];
  const script =
    end === undefined
      ? json(200, document)
      : events(`data: ${JSON.stringify(end)}\n\n`, 'data: [DONE]\n\n');
  return script(reply, seen);
};

const part = fc.record(
  {
    model: fc.oneof({ weight: 4, arbitrary: fc.constant('smol') }, anyJson),
    messages: fc.oneof(
      { weight: 3, arbitrary: fc.constant([{ role: 'user', content: 'Hello' }]) },
      anyJson,
      fc.array(fc.record({ role: oddText, content: anyJson }), { maxLength: 3 }),
    ),
    prompt: anyJson,
    stream: fc.oneof(fc.boolean(), anyJson),
    stream_options: fc.oneof(fc.constant({ include_usage: true }), anyJson),
    max_tokens: fc.oneof(fc.integer(), anyJson),
    tools: anyJson,
    n: anyJson,
  },
  { requiredKeys: ['model'] },
);
const body = fc.oneof({ weight: 6, arbitrary: part.map((one) => JSON.stringify(one)) }, oddText);
const asked = '/v1/chat/completions';
const path = fc.constantFrom(
  ...[asked, asked, asked, asked, asked],
  ...['/v1/chat/completions', '/v1/completions', '/v1/models', '/v1/embeddings', '/v1/chat/x'],
  ...['/v1/responses', '/v1/models/smol', '/v1/files/..', '/v1/audio/speech'],
);
const method = fc.constantFrom('POST', 'POST', 'POST', 'GET', 'PUT', 'DELETE', 'PATCH');

/** Node's client sends the body of these without saying how long it is. */
function bodyFor(verb: string, text: string): string {
  return verb === 'GET' || verb === 'DELETE' ? '' : text.toWellFormed();
}

test('whatever is asked with a good key, no answer is a failure of ours', async () => {
  const { rig } = given;
  const seen = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(method, path, body, async (verb, at, text) => {
      const got = await send(rig, { method: verb, path: at, body: bodyFor(verb, text) });
      seen.set(got.status, (seen.get(got.status) ?? 0) + 1);
      assert.ok(got.status < 500 || got.status === 501, `${got.status} ${got.text.slice(0, 300)}`);
      if (got.status >= 400) assert.equal(typeof JSON.parse(got.text).error.message, 'string');
    }),
    { seed: 6, numRuns: 500 },
  );
  assert.ok((seen.get(200) ?? 0) > 50, JSON.stringify([...seen]));
  const errors = rig.logged.filter(({ message }) => /fail|unexpected/.test(message));
  assert.deepEqual(errors, []);
});

test('whatever a model is called, its name is parsed or refused, never thrown at', () => {
  const scheme = fc.constantFrom(
    'hf://',
    'https://',
    'file://',
    'HF.co/',
    '/',
    'https://hf.co/',
    '',
  );
  const name = fc.oneof(oddText, fc.webUrl(), fc.webPath(), fc.string({ unit: 'grapheme' }));
  fc.assert(
    fc.property(
      scheme,
      name,
      fc.constantFrom('', '@main', ':Q4_K_M', '/x.gguf', '#', '?a=%'),
      (...parts) => {
        assert.equal(typeof parseModelName(parts.join('')).kind, 'string');
      },
    ),
    { seed: 7, numRuns: 5000 },
  );
});
