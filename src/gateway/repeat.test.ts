/**
 * Frames that are like an earlier one but for their text, and those that only look so.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { chunkWith, createRepeat } from './repeat.ts';
import type { Fields } from './whole/fields.ts';
import { createWhole } from './whole/whole.ts';
import { createWholeSink } from './whole-sink.ts';

const chunkOf = (content: string, more: Fields = {}, of_delta: Fields = {}) => ({
  ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'smol', ...more },
  choices: [{ index: 0, delta: { ...of_delta, content }, finish_reason: null }],
});
const frameOf = (chunk: unknown) => Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`);

/** The text that is read of a frame after another was learnt; null: it is to be read. */
function textAfter(learnt: Fields, frame: Buffer): string | null {
  const repeat = createRepeat();
  const bytes = frameOf(learnt);
  repeat.learn(bytes, 0, bytes.length, learnt);
  const at = repeat.textAt(frame, 0, frame.length);
  return at === null ? null : frame.toString('utf8', at, repeat.textEnd(frame.length));
}

test('a frame like the last one but for its text is recognised by its bytes', () => {
  assert.equal(textAfter(chunkOf('Hello'), frameOf(chunkOf(' wörld'))), ' wörld');
  const spaced = Buffer.from('x: y\n\ndata: {"choices": [{"delta": {"content": "a"}}]}\n\n');
  const repeat = createRepeat();
  repeat.learn(spaced, 6, spaced.length, { choices: [{ delta: { content: 'a' } }] });
  assert.equal(repeat.textAt(spaced, 6, spaced.length), spaced.indexOf('a"}}'));
  assert.deepEqual(chunkWith({ choices: [{ delta: { content: 'a' } }] }, 'b'), {
    choices: [{ delta: { content: 'b' } }],
  });
});

test('one that differs in anything else, has an escape or no text, is not', () => {
  const learnt = chunkOf('Hello');
  const others = [
    chunkOf('Hello', { id: 'd' }),
    chunkOf('Hello', { usage: {} }),
    chunkOf('Hello', {}, { tool_calls: [] }),
    chunkOf('say "so"'),
    chunkOf('a\nb'),
    chunkOf(''),
    { ...learnt, choices: [{ ...learnt.choices[0], finish_reason: 'stop' }] },
  ];
  for (const other of others) assert.equal(textAfter(learnt, frameOf(other)), null);
  assert.equal(textAfter(learnt, Buffer.from('data: [DONE]\n\n')), null);
  assert.equal(createRepeat().textAt(frameOf(learnt), 0, 9), null);
});

test('what says more than its text is not learnt', () => {
  const [choice] = chunkOf('a').choices;
  const more = [
    chunkOf('a', {}, { reasoning_content: 'b' }),
    chunkOf('a', {}, { tool_calls: [{ index: 0 }] }),
    chunkOf('a', { meta: { content: 'b' } }),
    chunkOf('a "b"'),
    { ...chunkOf('a'), choices: [{ ...choice, logprobs: { content: [] } }] },
    { ...chunkOf('a'), choices: [choice, choice] },
    { ...chunkOf('a'), choices: [] },
    { choices: [{ delta: { content: null } }] },
  ];
  for (const learnt of more) assert.equal(textAfter(learnt, frameOf(learnt)), null);
});

const anyText = fc.oneof(fc.string(), fc.string({ unit: 'grapheme' }), fc.constant('word'));

test('an answer is the same, whatever of it was recognised', () => {
  const pieces = fc.array(fc.tuple(anyText, fc.constantFrom({}, {}, { id: 'd' })));
  fc.assert(
    fc.property(pieces, (said) => {
      const chunks = said.map(([text, more]) => chunkOf(text, more));
      const last = { ...chunkOf(''), choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
      const plain = createWhole('chat');
      for (const chunk of [...chunks, last]) plain.see(chunk);
      let counted = 0;
      const sink = createWholeSink('chat', createWhole('chat'), {
        pieces: (count) => {
          counted += count;
        },
        said: (_, has_content) => {
          if (has_content) counted += 1;
          return 'as it is';
        },
        usage: () => null,
        reads_all: false,
      });
      for (const chunk of [...chunks, last]) sink.take(frameOf(chunk));
      const ending = sink.take(Buffer.from('data: [DONE]\n\n'));
      assert.ok(typeof ending === 'object' && ending.is === 'whole');
      assert.deepEqual(JSON.parse(ending.last.toString()), plainOf(plain.result()));
      assert.equal(counted, said.filter(([text]) => text !== '').length + 1);
    }),
    { seed: 72, numRuns: 300 },
  );
});

const plainOf = (value: unknown) => JSON.parse(JSON.stringify(value));
