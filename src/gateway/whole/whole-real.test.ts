/**
 * Answers built from streams beside those that the real llama-server builds itself, field by field.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { writeKnownAnswerModel } from '../../../test/lib/known-answer.ts';
import {
  known_calls,
  known_thought,
  known_tools,
  writeThinkingModel,
  writeTwoCallsModel,
} from '../../../test/lib/known-turns.ts';
import { needs } from '../../../test/lib/parts.ts';
import { type RealEngine, smolModel, startRealEngine } from '../../../test/lib/real-engine.ts';
import { createUseTotal } from '../use/total.ts';
import { createWhole, type StreamedApi } from './whole.ts';

const real = { ...needs('llama', 'smollm2'), timeout: 600_000 };
const folder = mkdtempSync(join(tmpdir(), 'einsora-whole-'));
let known: RealEngine;
let smol: RealEngine;
before(async () => {
  if (real.skip !== false) return;
  const path = join(folder, 'known.gguf');
  writeKnownAnswerModel(path);
  known = await startRealEngine({ model_path: path, parallel: 4 });
  smol = await startRealEngine({ model_path: await smolModel(), context_length: 512 });
});
after(async () => {
  await known?.stop();
  await smol?.stop();
  rmSync(folder, { recursive: true });
});

type Json = Record<string, unknown>;
const paths = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  responses: '/v1/responses',
} as const;
// Nothing is reused, so that both answers come about in the same way.
const base = { model: 'mine', temperature: 0, seed: 1, cache_prompt: false };

/** What differs between any two answers: when, under which id, how fast. */
function comparable(answer: Json): Json {
  const text = JSON.stringify(answer, (name, value) => {
    if (name.endsWith('_ms') || name.endsWith('_per_second')) return undefined;
    if (['created', 'created_at', 'completed_at'].includes(name)) return undefined;
    // A call has an id of letters and figures alone.
    if (typeof value !== 'string') return value;
    return /^(?:chatcmpl-|resp_|msg_)|^\w{32}$/.test(value) ? 'an id' : value;
  });
  return JSON.parse(text);
}

async function both(engine: RealEngine, api: StreamedApi, question: Json, n = 1) {
  const body = { ...base, ...question };
  const asked = api === 'responses' ? {} : { stream_options: { include_usage: true } };
  const own = await engine.call(paths[api], body);
  assert.equal(own.status, 200, own.text);
  const streamed = await engine.call(paths[api], { ...body, stream: true, ...asked });
  const whole = createWhole(api);
  const use = createUseTotal('choice', n);
  for (const [, data = ''] of streamed.text.matchAll(/^data: (.*)$/gm)) {
    const chunk = data === '[DONE]' ? null : JSON.parse(data);
    whole.see(chunk);
    if (chunk !== null) use.add(chunk);
  }
  assert.equal(whole.isWhole(), true, streamed.text);
  return { own: comparable(JSON.parse(own.text)), built: comparable(whole.result(use.total())) };
}

async function assertSame(engine: RealEngine, api: StreamedApi, question: Json): Promise<Json> {
  const { own, built } = await both(engine, api, question);
  if (api !== 'responses') assert.deepEqual(built, own);
  // Its event leaves out what the engine's own answer tells of its end.
  else assert.deepEqual({ ...own, ...built }, own);
  return built;
}

const say = (content: string) => ({ messages: [{ role: 'user', content }] });

test('the known answer: chat, completions, responses', real, async () => {
  const chat = await assertSame(known, 'chat', say('Who?'));
  assert.match(JSON.stringify(chat), /Einsora runs this tiny model on your own machine\./);
  await assertSame(known, 'chat', { ...say('Who?'), max_tokens: 3 });
  await assertSame(known, 'completions', { prompt: 'Who?' });
  await assertSame(known, 'responses', { input: 'Who?' });
});

test('an answer that ends before its first word', real, async () => {
  await assertSame(known, 'chat', { ...say('Who?'), stop: ['Einsora'] });
  await assertSame(known, 'completions', { prompt: 'Who?', stop: ['Einsora'] });
});

test('logprobs', real, async () => {
  const few = { max_tokens: 4 };
  await assertSame(smol, 'chat', { ...say('Hi'), ...few, logprobs: true, top_logprobs: 2 });
  await assertSame(smol, 'completions', { prompt: 'Hi', ...few, logprobs: 2 });
});

test('structured output', real, async () => {
  const schema = {
    type: 'object',
    properties: { city: { type: 'string', maxLength: 8 }, big: { type: 'boolean' } },
    required: ['city', 'big'],
  };
  const json_schema = { name: 'city', schema };
  const built = await assertSame(smol, 'chat', {
    ...{ ...say('Name a city.'), max_tokens: 60 },
    response_format: { type: 'json_schema', json_schema },
  });
  const { choices } = built as { choices: { message: { content: string } }[] };
  assert.equal(typeof JSON.parse(choices[0]?.message.content ?? '').big, 'boolean');
});

/** What one answer of another model says, built as the engine builds it itself. */
async function messageOf(
  write: (path: string) => void,
  asked: Json,
  cut_at: number,
): Promise<Json> {
  const path = join(folder, 'other.gguf');
  write(path);
  const engine = await startRealEngine({ model_path: path, context_length: 1024 });
  try {
    const built = await assertSame(engine, 'chat', asked);
    await assertSame(engine, 'chat', { ...asked, max_tokens: cut_at });
    return (built as { choices: { message: Json }[] }).choices[0]?.message ?? {};
  } finally {
    await engine.stop();
  }
}

test('calls of tools, one after the other, and one that is cut', real, async () => {
  const tools = { tools: known_tools, parallel_tool_calls: true };
  const asked = { ...say('Weather?'), ...tools };
  // Before it has a name the engine holds a call back: a stream says nothing of it.
  const { tool_calls } = await messageOf(writeTwoCallsModel, asked, 6);
  assert.deepEqual(
    (tool_calls as Json[]).map((call) => call.function),
    known_calls,
  );
});

test('what is thought before it is said, and a thought that is cut', real, async () => {
  const { reasoning_content, content } = await messageOf(writeThinkingModel, say('Hi'), 2);
  assert.deepEqual({ reasoning_content, content }, known_thought);
});

test('several choices and several prompts, with the use of all of them', real, async () => {
  const { own, built } = await both(known, 'chat', { ...say('Who?'), n: 2 }, 2);
  assert.deepEqual(built.choices, own.choices);
  const usage = own.usage as { prompt_tokens: number; completion_tokens: number };
  const { prompt_tokens, completion_tokens } = usage;
  // The engine's own answer tells of one choice only.
  assert.deepEqual(built.usage, {
    ...usage,
    completion_tokens: 2 * completion_tokens,
    total_tokens: prompt_tokens + 2 * completion_tokens,
  });
  const prompts = await both(known, 'completions', { prompt: ['Who?', 'And where?'] });
  assert.deepEqual(prompts.built.choices, prompts.own.choices);
});
