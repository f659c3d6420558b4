/**
 * Frames out of bytes, however they come; what a frame says; and which ones have to be read.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { mayMatter, readFrame } from './frame.ts';
import { createFrames } from './frames.ts';
import { readEvent } from './meaning.ts';

function framesOf(chunks: readonly Buffer[], limit = 1024 * 1024) {
  const found: string[] = [];
  const frames = createFrames(limit, (bytes, from, to) => {
    found.push(bytes.toString('latin1', from, to));
  });
  const fits = chunks.every((chunk) => frames.push(chunk));
  return { found, fits, unfinished: frames.unfinished() };
}

/** Cuts bytes at these places (modulo the length). */
function cut(bytes: Buffer, places: number[]): Buffer[] {
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length];
  const sorted = ends.toSorted((a, b) => a - b);
  return sorted.map((end, index) => bytes.subarray(sorted[index - 1] ?? 0, end));
}

const anyBytes = fc
  .array(fc.constantFrom('\n', '\r', '\r\n', '\n\n', 'data: {}', 'é', ': x', 'event: y'))
  .map((parts) => Buffer.from(parts.join('')));

test('whatever the cuts, frames begin and end alike, and no byte is lost', () => {
  fc.assert(
    fc.property(anyBytes, fc.array(fc.nat(), { maxLength: 9 }), (bytes, places) => {
      const whole = framesOf([bytes]);
      const pieces = framesOf(cut(bytes, places));
      const all = (one: typeof whole) => one.found.join('').length + one.unfinished;
      assert.equal(all(pieces), bytes.length);
      assert.equal(all(whole), bytes.length);
      // Half an end of a line may have come too late for the frame that it ends.
      const plain = ({ found }: typeof whole) =>
        found.map((one) => one.replaceAll(/[\r\n]+/g, '\n')).filter((one) => one.trim() !== '');
      assert.deepEqual(
        plain(pieces).map((one) => one.trim()),
        plain(whole).map((one) => one.trim()),
      );
    }),
  );
});

test('each end of a line ends a frame when it comes twice', () => {
  for (const end of ['\n', '\r', '\r\n']) {
    const frame = `: x${end}data: 1${end}${end}`;
    assert.deepEqual(framesOf([Buffer.from(frame + frame)]).found, [frame, frame]);
    assert.deepEqual(framesOf([Buffer.from(`data: 1${end}`)]).found, []);
  }
});

test('a frame that came in one chunk is not copied', () => {
  const chunk = Buffer.from('data: 1\n\ndata: 2\n\n');
  createFrames(100, (bytes) => assert.equal(bytes, chunk)).push(chunk);
});

test('a frame of more than the limit is told, in one chunk or in many', () => {
  const giant = Buffer.from(`data: ${'x'.repeat(200)}\n\n`);
  assert.equal(framesOf([giant], 100).fits, false);
  assert.equal(framesOf(cut(giant, [50, 90, 150]), 100).fits, false);
  assert.equal(framesOf(cut(giant, [50, 90, 150]), 300).fits, true);
});

test('a frame is read as its fields say', () => {
  const read = (text: string) => readFrame(Buffer.from(text), 0, Buffer.byteLength(text));
  assert.deepEqual(read(': ping\n\n'), { event: null, data: null });
  assert.deepEqual(read('event: x\r\ndata: {\r\ndata:}\r\n\r\n'), { event: 'x', data: '{\n}' });
  assert.deepEqual(read('error: {"message":"m"}\n\n').data, '{"error":{"message":"m"}}');
  assert.deepEqual(read('id: 7\rdata:  a\r\r').data, ' a');
});

const spaced = (text: string) => fc.constantFrom(text, `${text} `, ` ${text}`);
const value = fc.oneof(
  fc.string(),
  fc.constantFrom('usage', '"usage"', 'error', '[DONE]'),
  fc.nat(),
);
const plain = fc.record({ index: fc.nat(3), delta: fc.record({ content: value }) });
const weighty = fc.oneof(
  fc.constantFrom<Record<string, unknown>>(
    { error: { message: 'x' } },
    { choices: [{ finish_reason: 'stop' }] },
    { choices: [{ finish_reason: 'abort' }] },
    { choices: [], usage: null },
    { choices: [], usage: { prompt_tokens: 1 } },
    { choices: [], timings: {} },
    { type: 'response.completed', response: {} },
    { type: 'response.failed', response: { error: null } },
  ),
  fc.record({ choices: fc.array(plain), usage: fc.record({ prompt_tokens: fc.nat() }) }),
);

test('a frame that is more than a piece of an answer is never passed over', () => {
  fc.assert(
    fc.property(weighty, spaced(':'), fc.constantFrom('\n', '\r\n', '\r'), (said, colon, end) => {
      const text = JSON.stringify(said).replaceAll('":', `"${colon}`);
      for (const start of ['data: ', 'data:', `event: response.x${end}data: `]) {
        const bytes = Buffer.from(`${start}${text}${end}${end}`);
        assert.equal(mayMatter(bytes, 0, bytes.length), true, bytes.toString());
      }
    }),
  );
  for (const text of [
    'data: [DONE]\n\n',
    ': x\n\n',
    'event: error\ndata: {}\n\n',
    'data: {"a"\n\n',
  ]) {
    assert.equal(mayMatter(Buffer.from(text), 0, text.length), true, text);
  }
});

test('a piece of an answer is passed over without being read', () => {
  const pieces = [
    { choices: [{ index: 0, delta: { content: 'hi' }, finish_reason: null }] },
    { choices: [{ index: 0, text: 'say "usage": or \\"error\\"', finish_reason: null }] },
    { type: 'response.output_text.delta', delta: 'hi' },
  ];
  for (const piece of pieces) {
    const bytes = Buffer.from(`xx\n\ndata: ${JSON.stringify(piece)}\n\ndata: [DONE]\n\n`);
    assert.equal(mayMatter(bytes, 4, bytes.length - 14), false, JSON.stringify(piece));
  }
});

const meaningOf = (said: unknown, api: 'chat' | 'responses' = 'chat') =>
  readEvent(api, { event: null, data: JSON.stringify(said) }).meaning.is;
const delta = (one: object) => ({ choices: [{ index: 0, delta: one, finish_reason: null }] });

test('all that a client could show is content, and what announces it is none', () => {
  const content = [
    delta({ content: 'a' }),
    delta({ content: [{ type: 'text', text: 'a' }] }),
    delta({ reasoning_content: 'a' }),
    delta({ reasoning: 'a' }),
    delta({ refusal: 'a' }),
    delta({ audio: { id: 'a' } }),
    delta({ tool_calls: [{ index: 0, function: { name: 'f' } }] }),
    delta({ tool_calls: [{ index: 0, function: { arguments: '{' } }] }),
    delta({ function_call: { name: 'f' } }),
    { choices: [{ text: 'a' }] },
    { choices: [{ delta: {} }, { delta: { content: 'b' } }] },
  ];
  for (const said of content) assert.equal(meaningOf(said), 'content', JSON.stringify(said));
  const nothing = [
    {},
    { choices: [] },
    { choices: 'x' },
    { choices: [null, 3] },
    delta({}),
    delta({ role: 'assistant', content: '' }),
    delta({ content: null, tool_calls: [] }),
    delta({ tool_calls: [{ index: 0, id: 'x', function: { name: '', arguments: '' } }] }),
    { choices: [{ text: '' }] },
  ];
  for (const said of nothing) assert.equal(meaningOf(said), 'nothing', JSON.stringify(said));
  assert.equal(meaningOf({ choices: [{ delta: {}, finish_reason: 'length' }] }), 'finish');
  for (const finish_reason of ['abort', 'error']) {
    assert.equal(meaningOf({ choices: [{ delta: { content: 'a' }, finish_reason }] }), 'failed');
  }
});

test('of a response each delta and each call is content, and its end is one', () => {
  const is = (said: unknown) => meaningOf(said, 'responses');
  assert.equal(is({ type: 'response.created', response: {} }), 'nothing');
  assert.equal(is({ type: 'response.output_item.added', item: { type: 'message' } }), 'nothing');
  assert.equal(
    is({ type: 'response.output_item.added', item: { type: 'function_call' } }),
    'content',
  );
  assert.equal(is({ type: 'response.reasoning_text.delta', delta: 'a' }), 'content');
  assert.equal(is({ type: 'response.completed', response: {} }), 'finish');
  assert.equal(is({ type: 'response.incomplete', response: {} }), 'finish');
  assert.equal(is({ type: 'response.failed', response: { error: { message: 'x' } } }), 'failed');
  assert.equal(is({ type: 'error', message: 'x' }), 'failed');
});
