/**
 * The long form of test/fuzz/api.test.ts, from another seed each night.
 */
import { test } from 'node:test';
import { systemClock } from '../../src/lib/clock.ts';
import { fuzzApi } from '../lib/api-fuzz-run.ts';

test('40,000 calls, whatever they ask', { timeout: 3_600_000 }, async (t) => {
  const seed = Math.floor(systemClock.now() / 86_400_000);
  t.diagnostic(`seed ${seed}`);
  t.diagnostic((await fuzzApi({ seed, runs: 200, calls: 200 })).told);
});
