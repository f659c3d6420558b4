import assert from 'node:assert/strict';
import { test } from 'node:test';
import { guardMark, guardText } from './guard-view.ts';

test('a machine says how far it is given back, and why', () => {
  const free = { level: 0 as const, why: [], own_why: [] };
  assert.deepEqual(
    [guardText({}), guardText({ guard: free }), guardMark({ guard: free })],
    [...[null, null, '']],
  );
  const active = { level: 2 as const, why: ['owner_active' as const], own_why: [] };
  assert.equal(
    guardText({ guard: active }),
    'guests get nothing new, and little CPU: it is in use by its owner',
  );
  assert.equal(guardMark({ guard: active }), '');
  const why = ['owner_paused' as const];
  const paused = { guard: { level: 5 as const, why, own_why: why } };
  assert.equal(
    guardText(paused),
    'nothing new starts: it was paused by its owner; guests go at once: it was paused by its owner',
  );
  assert.equal(guardMark(paused), ', paused');
  const full = { level: 0 as const, why: [], own_why: ['disk_floor' as const] };
  assert.equal(guardMark({ guard: full }), ', starts nothing');
});
