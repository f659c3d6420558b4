/**
 * A breaker opens by what an engine did, and by nothing that a client did.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../contract/limits.ts';
import { breakerState, failed, lets, newBreaker, worked } from './breaker.ts';

const { breaker_failures, breaker_open_ms, longest_breaker_ms } = limits;

test('a few failures in a row open it, with one that worked between them none do', () => {
  const breaker = newBreaker();
  for (let count = 1; count < breaker_failures; count += 1) failed(breaker, 0, false);
  worked(breaker);
  for (let count = 1; count < breaker_failures; count += 1) failed(breaker, 0, false);
  assert.equal(breakerState(breaker, 0), 'closed');
  failed(breaker, 0, false);
  assert.deepEqual([breakerState(breaker, 0), lets(breaker, 0)], ['open', false]);
});

test('a connection that could not be opened opens it at once', () => {
  const breaker = newBreaker();
  failed(breaker, 0, true);
  assert.equal(lets(breaker, breaker_open_ms - 1), false);
  assert.equal(breakerState(breaker, breaker_open_ms), 'half_open');
});

test('it stays open longer each time that its probe fails, up to a bound', () => {
  const breaker = newBreaker();
  const waits: number[] = [];
  for (let count = 0; count < 40; count += 1) {
    const now = breaker.open_until;
    failed(breaker, now, true);
    waits.push(breaker.open_until - now);
  }
  assert.deepEqual(waits.slice(0, 3), [breaker_open_ms, 2 * breaker_open_ms, 4 * breaker_open_ms]);
  assert.equal(Math.max(...waits), longest_breaker_ms);
  worked(breaker);
  failed(breaker, 0, true);
  assert.equal(breaker.open_until, breaker_open_ms, 'who worked begins anew');
});

test('failures of what was asked before it opened do not prolong it', () => {
  const breaker = newBreaker();
  failed(breaker, 0, true);
  for (let count = 0; count < 50; count += 1) failed(breaker, 100 + count, true);
  assert.equal(breaker.open_until, breaker_open_ms);
});

test('half open lets one through at a time', () => {
  const breaker = newBreaker();
  failed(breaker, 0, true);
  assert.equal(lets(breaker, breaker_open_ms), true);
  breaker.probes = 1;
  assert.equal(lets(breaker, breaker_open_ms), false);
});
