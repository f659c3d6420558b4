/**
 * Rows out of values.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRowMakers } from './row-maker.ts';

test('a row has the columns in their order, whatever they are called', () => {
  const makerOf = createRowMakers();
  const names = ['id', 'count(*)', 'a "b" \\ c', 'class'];
  const row = makerOf(names)([1, 'two', undefined, null]);
  assert.deepEqual(Object.keys(row), names);
  assert.deepEqual(Object.values(row), [1, 'two', null, null]);
  assert.equal(Object.getPrototypeOf(row), Object.prototype);
});

test('of two columns of one name the later counts; each row is its own', () => {
  const makerOf = createRowMakers();
  const toRow = makerOf(['id', 'id']);
  assert.deepEqual([toRow([1, 2]), toRow([3, 4])], [{ id: 2 }, { id: 4 }]);
  assert.equal(makerOf(['id', 'id']), toRow);
});
