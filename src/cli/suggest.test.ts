import assert from 'node:assert/strict';
import { test } from 'node:test';
import { editDistance, nearNames } from './suggest.ts';

test('typing errors are counted, a swap of neighbours as one', () => {
  assert.equal(editDistance('smollm2', 'smollm2'), 0);
  assert.equal(editDistance('smolm2', 'smollm2'), 1);
  assert.equal(editDistance('mslollm2', 'smlollm2'), 1);
  assert.equal(editDistance('', 'abc'), 3);
});

test('near names come nearest first, far ones never', () => {
  const names = ['smollm2-135m', 'smollm2-135n', 'notebook-1', 'qwen'];
  assert.deepEqual(nearNames('smolm2-135m', names), ['smollm2-135m', 'smollm2-135n']);
  assert.deepEqual(nearNames('smol', names), ['smollm2-135m', 'smollm2-135n']);
  assert.deepEqual(nearNames('smolm2', names), ['smollm2-135m', 'smollm2-135n']);
  assert.deepEqual(nearNames('llama', names), []);
});
