/**
 * Token use: read in every shape, asked for, taken out again, and estimated where it was cut.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Fields } from '../whole/fields.ts';
import { askForUse, wantedUse } from './ask-for-use.ts';
import { estimatePrompt, mostTokens } from './estimate.ts';
import { createUseMeter, type MeterOptions } from './meter.ts';
import { type ReportedUse, readUsage, usageOf } from './reported.ts';
import { createUseTotal } from './total.ts';

const plain = (value: unknown) => JSON.parse(JSON.stringify(value));
const used = (prompt_tokens: number, completion_tokens: number, cached_tokens = 0) => ({
  ...{ prompt_tokens, completion_tokens, cached_tokens },
});
const usage = (prompt_tokens: number, completion_tokens: number, cached_tokens = 0) => ({
  ...{ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  prompt_tokens_details: { cached_tokens },
});

// -- Read -----------------------------------------------------------------------------------------

function readUse(answer: Fields): ReportedUse | null {
  const told = usageOf(answer);
  return told === null ? null : readUsage(told);
}

test('use is read in every shape in which engines tell it', () => {
  const shapes: [Fields, unknown][] = [
    [{ usage: usage(5, 7, 3) }, used(5, 7, 3)],
    [{ usage: { prompt_tokens: 5, completion_tokens: 7 } }, used(5, 7)],
    [{ timings: { cache_n: 32, prompt_n: 1, predicted_n: 6 } }, used(33, 6, 32)],
    [{ usage: null, timings: { prompt_n: 4, predicted_n: 6 } }, used(4, 6)],
    [{ usage: usage(5, 7), timings: { cache_n: 0, prompt_n: 1, predicted_n: 1 } }, used(5, 7)],
    [
      {
        type: 'response.completed',
        response: {
          usage: {
            ...{ input_tokens: 33, output_tokens: 6, total_tokens: 39 },
            input_tokens_details: { cached_tokens: 32 },
          },
        },
      },
      used(33, 6, 32),
    ],
    [{ object: 'list', usage: { prompt_tokens: 9, total_tokens: 9 } }, used(9, 0)],
    [{ results: [], usage: { total_tokens: 12 } }, used(12, 0)],
    [{ usage: null }, null],
    [{ usage: {} }, null],
    [{ choices: [] }, null],
  ];
  for (const [answer, expected] of shapes) assert.deepEqual(readUse(answer), expected);
});

test('what is no count is none', () => {
  for (const odd of [-1, 0.5, Number.NaN, 1e300, '7', null, {}, true]) {
    assert.equal(readUse({ usage: { prompt_tokens: odd, completion_tokens: odd } }), null);
    assert.deepEqual(readUse({ usage: { prompt_tokens: 5, completion_tokens: odd } }), used(5, 0));
  }
  assert.deepEqual(
    readUse({ usage: usage(5, 1, 99) }),
    used(5, 1, 5),
    'more than all is not cached',
  );
  fc.assert(
    fc.property(fc.object(), (anything) => {
      const read = readUse(anything) ?? readUse({ usage: anything });
      if (read === null) return;
      for (const count of Object.values(read)) assert.ok(Number.isSafeInteger(count) && count >= 0);
    }),
  );
});

// -- Summed ---------------------------------------------------------------------------------------

test('of usage in every chunk the last counts, and the one at the end most', () => {
  const total = createUseTotal('answer', 1);
  assert.equal(total.total(), null);
  total.add({ choices: [{ index: 0 }], usage: usage(5, 1) });
  total.add({ choices: [{ index: 0 }], usage: usage(5, 2) });
  total.add({ choices: [{ index: 0 }], usage: null });
  assert.deepEqual([total.total(), total.isFinal()], [usage(5, 2), false]);
  total.add({ choices: [], usage: usage(5, 3) });
  assert.deepEqual([total.total(), total.isFinal()], [usage(5, 3), true]);
});

test('usage so far of several choices is summed, and their prompt counts once', () => {
  const total = createUseTotal('answer', 2);
  for (const [index, completion] of [0, 1, 0, 1].entries()) {
    total.add({ choices: [{ index: index % 2 }], usage: usage(5, completion + index) });
  }
  assert.deepEqual(total.total(), usage(5, 2 + 4));
});

test('where each choice ends with a usage of its own they are summed', () => {
  const total = createUseTotal('choice', 2);
  total.add({ choices: [], usage: usage(30, 4, 20) });
  total.add({ choices: [], usage: usage(30, 6, 20) });
  assert.deepEqual(total.total(), usage(30, 10, 20));
  // It tells its times beside the choice as well, where an answer has but one chunk.
  const short = createUseTotal('choice', 1);
  short.add({ choices: [{ index: 0 }], timings: { cache_n: 0, prompt_n: 24, predicted_n: 1 } });
  short.add({ choices: [], usage: usage(24, 1) });
  assert.deepEqual(short.total(), usage(24, 1));
  const prompts = createUseTotal('choice', 1);
  prompts.add({ choices: [{ index: 1 }], usage: usage(3, 4) });
  prompts.add({ choices: [{ index: 0 }], usage: usage(2, 6) });
  assert.deepEqual(prompts.total(), usage(5, 10));
});

// -- Asked for ------------------------------------------------------------------------------------

const silent = { is_told_anyway: false, continuous: false };
const anyway = { is_told_anyway: true, continuous: false };
const each = { is_told_anyway: false, continuous: true };

test('an engine is asked to tell, whatever its client wants', () => {
  const fields = { stream: true, stream_options: { include_usage: true } };
  const told = { fields, was_injected: true };
  assert.deepEqual(askForUse('chat', {}, silent), told);
  assert.deepEqual(askForUse('chat', { stream: true }, silent), told);
  assert.deepEqual(askForUse('chat', { stream: true, stream_options: null }, silent), told);
  const no_stream = { stream: false, stream_options: { a: 1 } };
  assert.deepEqual(askForUse('completions', no_stream, silent), told);
  const mine = { ...fields, stream_options: { other: 1, include_usage: false } };
  assert.deepEqual(askForUse('chat', mine, silent), {
    fields: { ...fields, stream_options: { other: 1, include_usage: true } },
    was_injected: true,
  });
  assert.deepEqual(askForUse('chat', fields, silent), { fields, was_injected: false });
});

test('an engine that can tells with each chunk', () => {
  const stream_options = { include_usage: true, continuous_usage_stats: true };
  const fields = { stream: true, stream_options };
  const at_end = { stream: true, stream_options: { include_usage: true } };
  for (const given of [{}, at_end]) {
    assert.deepEqual(askForUse('chat', given, each), { fields, was_injected: true });
  }
  assert.deepEqual(askForUse('chat', fields, each), { fields, was_injected: false });
});

test('an engine that tells anyway is asked where an answer is built, which has usage', () => {
  const fields = { stream: true };
  assert.deepEqual(askForUse('chat', fields, anyway), { fields, was_injected: false });
  const { stream_options } = askForUse('chat', {}, anyway).fields;
  assert.deepEqual(stream_options, { include_usage: true });
});

test('the responses API tells by itself and has other options', () => {
  const fields = { stream: true, stream_options: { include_obfuscation: false } };
  assert.deepEqual(askForUse('responses', fields, each), { fields, was_injected: false });
  const { fields: built } = askForUse('responses', { input: 'a' }, silent);
  assert.deepEqual(built, { input: 'a', stream: true });
});

test('what a client wants counts for streams alone', () => {
  const stream_options = { include_usage: true, continuous_usage_stats: true };
  assert.deepEqual(wantedUse({ stream: true, stream_options }), { at_end: true, continuous: true });
  assert.deepEqual(wantedUse({ stream_options }), { at_end: false, continuous: false });
  assert.deepEqual(wantedUse({ stream: true, stream_options: 7 }), {
    ...{ at_end: false, continuous: false },
  });
});

// -- Metered --------------------------------------------------------------------------------------

const meter = (changes: Partial<MeterOptions> = {}) =>
  createUseMeter({
    total: createUseTotal('answer', 1),
    prompt_tokens: 11,
    wanted: { at_end: false, continuous: false },
    was_injected: true,
    ...changes,
  });
const piece = { choices: [{ index: 0, delta: { content: 'a' } }] };
const end = { choices: [], usage: usage(5, 3) };

test('who did not ask gets neither the chunk of the usage nor the usage of a chunk', () => {
  const mine = meter();
  assert.equal(mine.see(piece), piece);
  assert.deepEqual(mine.see({ ...piece, usage: null }), piece);
  assert.deepEqual(mine.see({ ...piece, usage: usage(5, 1) }), piece);
  assert.equal(mine.see(end), null);
});

test('who asked gets what it asked for', () => {
  const at_end = meter({ wanted: { at_end: true, continuous: false } });
  assert.deepEqual(at_end.see({ ...piece, usage: usage(5, 1) }), piece);
  assert.equal(at_end.see(end), end);
  const each = meter({ wanted: { at_end: true, continuous: true } });
  const chunk = { ...piece, usage: usage(5, 1) };
  assert.equal(each.see(chunk), chunk);
});

test('who asked gets one usage, also where the engine tells one of each choice', () => {
  const total = createUseTotal('choice', 2);
  const mine = meter({ total, was_injected: false, wanted: { at_end: true, continuous: false } });
  assert.equal(mine.see({ choices: [], usage: usage(5, 3) }), null);
  assert.equal(mine.see(piece), piece, 'the other choice goes on');
  assert.deepEqual(mine.see({ choices: [], usage: usage(5, 4) }), {
    ...{ choices: [], usage: usage(5, 7) },
  });
});

test('what an engine tells by itself goes through as it is', () => {
  const chunk = { ...piece, usage: usage(5, 1) };
  const mine = meter({ was_injected: false });
  assert.deepEqual([mine.see(chunk) === chunk, mine.see(end) === end], [true, true]);
});

test('an answer that ended is counted by its engine', () => {
  const mine = meter();
  for (let count = 0; count < 9; count += 1) mine.pieces(1);
  mine.see(end);
  assert.deepEqual(mine.use(true), { ...used(5, 3), is_estimated: false });
  // All of it was told, though its client left before the very end.
  assert.deepEqual(mine.use(false), { ...used(5, 3), is_estimated: false });
  const timed = meter();
  timed.see({ ...piece, timings: { cache_n: 2, prompt_n: 3, predicted_n: 4 } });
  assert.deepEqual(timed.use(true), { ...used(5, 4, 2), is_estimated: false });
});

test('an answer that was cut is estimated by its pieces, or by what was told so far', () => {
  const mine = meter();
  assert.deepEqual(mine.use(false), { ...used(11, 0), is_estimated: true });
  mine.pieces(1);
  mine.pieces(1);
  assert.deepEqual(mine.use(false), { ...used(11, 2), is_estimated: true });
  mine.see({ ...piece, usage: usage(5, 4, 1) });
  assert.deepEqual(mine.use(false), { ...used(5, 4, 1), is_estimated: true });
});

test('an end without a word of use is estimated', () => {
  const mine = meter();
  mine.pieces(1);
  assert.deepEqual(mine.use(true), { ...used(11, 1), is_estimated: true });
});

test('embeddings tell it in their answer, or it is estimated', () => {
  const told = meter({ was_injected: false });
  told.see({ data: [], usage: { prompt_tokens: 3, total_tokens: 3 } });
  assert.deepEqual(told.use(true), { ...used(3, 0), is_estimated: false });
  const silent = meter({ was_injected: false });
  silent.see({ data: [] });
  assert.deepEqual(silent.use(true), { ...used(11, 0), is_estimated: true });
});

// -- Estimated ------------------------------------------------------------------------------------

test('four bytes of a prompt are a token, whatever field of it they stand in', () => {
  assert.equal(estimatePrompt({ prompt: 'abcdefgh' }), 2);
  assert.equal(estimatePrompt({ prompt: 'é'.repeat(4) }), 2, 'bytes, not characters');
  assert.equal(estimatePrompt({ prompt: [1, 2, 3] }), 3, 'tokens are tokens');
  assert.equal(estimatePrompt({ messages: [{ content: 'abcdefgh' }] }), 2);
  assert.equal(estimatePrompt({ model: 'x'.repeat(999), stop: 'x'.repeat(999) }), 0);
  const image_url = { url: `data:image/png;base64,${'A'.repeat(99_999)}` };
  const seen = { messages: [{ content: [{ type: 'image_url', image_url }] }] };
  assert.ok(estimatePrompt(seen) < 600);
  const deep = JSON.parse(`{"prompt":${'['.repeat(50_000)}"abcd"${']'.repeat(50_000)}}`);
  assert.equal(estimatePrompt(deep), 1);
});

test('the most tokens of an answer are those of all its choices', () => {
  assert.equal(mostTokens({ max_tokens: 10 }), 10);
  assert.equal(mostTokens({ max_tokens: 10, max_completion_tokens: 20, n: 2 }), 40);
  assert.equal(mostTokens({ max_output_tokens: 7 }), 7);
  for (const odd of [undefined, null, -1, 'x', 1.5]) {
    assert.equal(mostTokens({ max_tokens: odd }), null);
  }
  assert.equal(mostTokens({ max_tokens: 10, n: 'x' }), 10);
});

test('nothing that is asked for or taken out changes what was given', () => {
  const fields = Object.freeze({ stream: true, stream_options: Object.freeze({ other: 1 }) });
  askForUse('chat', fields, silent);
  const chunk = Object.freeze({ ...piece, usage: null });
  meter().see(chunk);
  assert.deepEqual(plain([fields.stream_options, chunk.usage]), [{ other: 1 }, null]);
});
