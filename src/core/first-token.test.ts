/**
 * The histogram of first tokens.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  first_token_bounds_ms,
  first_token_buckets,
  firstTokenBucket,
  firstTokenQuantile,
} from './first-token.ts';

const counted = (times: readonly number[]) => {
  const counts = new Array<number>(first_token_buckets).fill(0);
  for (const ms of times) counts[firstTokenBucket(ms)] = (counts[firstTokenBucket(ms)] ?? 0) + 1;
  return counts;
};

test('of nothing there is no quantile', () => {
  assert.equal(firstTokenQuantile(counted([]), 0.5), null);
});

test('a bound belongs to its own bucket', () => {
  for (const [bucket, bound] of first_token_bounds_ms.entries()) {
    assert.equal(firstTokenBucket(bound), bucket);
    assert.equal(firstTokenBucket(bound + 1), bucket + 1);
  }
});

test('a quantile lies in the bucket of the true one', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 200_000 }), { minLength: 1, maxLength: 200 }),
      fc.constantFrom(0.5, 0.95, 0.99, 1),
      (times, share) => {
        const sorted = [...times].sort((a, b) => a - b);
        const truth = sorted[Math.ceil(times.length * share) - 1] ?? 0;
        const bucket = firstTokenBucket(truth);
        const told = firstTokenQuantile(counted(times), share) ?? Number.NaN;
        const from = bucket === 0 ? 0 : (first_token_bounds_ms[bucket - 1] ?? 0);
        const to = first_token_bounds_ms[bucket] ?? from;
        assert.ok(told >= from && told <= to, `${told} for ${truth}`);
      },
    ),
    { seed: 7 },
  );
});
