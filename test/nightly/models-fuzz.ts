/**
 * The long form of test/fuzz/models.test.ts, from another seed each night.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/lib/clock.ts';
import { fuzzModels } from '../lib/model-fuzz.ts';

const count = 40_000;

test('40,000 spoiled models get a verdict each', { timeout: 3_600_000 }, async (t) => {
  const first = Math.floor(systemClock.now() / 86_400_000) * count;
  t.diagnostic(`seeds from ${first} on`);
  const told = await fuzzModels(first, count);
  assert.equal(told.accepted + told.refused, count);
  t.diagnostic(JSON.stringify(told));
});
