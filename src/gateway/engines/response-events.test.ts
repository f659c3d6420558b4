import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Fields } from '../whole/fields.ts';
import { createResponseFill } from './response-events.ts';

/** As llama-server sends them: two items, of which the first has two parts. */
const told: Fields[] = [
  { type: 'response.created', response: { id: 'r', status: 'in_progress' } },
  { type: 'response.output_item.added', item: { id: 'a', type: 'message', content: [] } },
  { type: 'response.content_part.added', item_id: 'a', part: { type: 'output_text', text: '' } },
  { type: 'response.output_text.delta', item_id: 'a', delta: 'so' },
  { type: 'response.content_part.added', item_id: 'a', part: { type: 'refusal', refusal: '' } },
  { type: 'response.output_item.added', item: { id: 'b', type: 'function_call' } },
  { type: 'response.function_call_arguments.delta', item_id: 'b', delta: '{}' },
  { type: 'response.output_item.done', item: { id: 'a', type: 'message' } },
  { type: 'response.completed', response: { id: 'r', output: [1], usage: { input_tokens: 1 } } },
];

test('what an engine left out of its events is filled in, by what came before', () => {
  const fill = createResponseFill();
  const filled = told.map(fill);
  assert.deepEqual(
    filled.map(({ sequence_number }) => sequence_number),
    told.map((_, at) => at),
  );
  assert.deepEqual(
    filled.map(({ output_index, content_index }) => [output_index, content_index]),
    [
      [undefined, undefined],
      [0, undefined],
      [0, 0],
      [0, 0],
      [0, 1],
      [1, undefined],
      [1, undefined],
      [0, undefined],
      [undefined, undefined],
    ],
  );
  assert.deepEqual(filled[0]?.response, {
    ...{ error: null, incomplete_details: null, usage: null },
    ...{ id: 'r', status: 'in_progress', output: [] },
  });
  assert.deepEqual(filled[2]?.part, {
    ...{ annotations: [], logprobs: [] },
    ...{ type: 'output_text', text: '' },
  });
  assert.deepEqual(filled.at(-1)?.response, {
    ...{ error: null, incomplete_details: null },
    ...{ id: 'r', output: [1], usage: { input_tokens: 1 } },
  });
});

test('what is there stays as it is, and what is no event of a response goes through', () => {
  const fill = createResponseFill();
  const whole = {
    ...told[3],
    sequence_number: 7,
    output_index: 4,
    content_index: 2,
    logprobs: [1],
  };
  assert.deepEqual(fill(whole), whole);
  const other = { object: 'chat.completion.chunk' };
  assert.equal(fill(other), other);
});
