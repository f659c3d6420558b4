/**
 * The long form of test/fuzz/raw-http.test.ts, from another seed each night.
 */
import { test } from 'node:test';
import { systemClock } from '../../src/lib/clock.ts';
import { fuzzRawHttp } from '../lib/raw-http-fuzz.ts';

test('100,000 requests that no client would send', { timeout: 3_600_000 }, async (t) => {
  const seed = Math.floor(systemClock.now() / 86_400_000);
  t.diagnostic(`seed ${seed}`);
  t.diagnostic(`${await fuzzRawHttp({ seed, runs: 100_000 })} answers`);
});
