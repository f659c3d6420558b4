/**
 * The last minute, by key and model.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { requestRecord } from '../../../test/lib/request-records.ts';
import { limits } from '../../contract/limits.ts';
import { createLiveTally, live_window_ms } from './live-tally.ts';

test('requests count in the minute after they ended, and no longer', async () => {
  const clock = createFakeClock();
  const tally = createLiveTally(clock);
  tally.add(requestRecord({ key_id: 'a' }));
  await clock.advance(live_window_ms / 2);
  tally.add(requestRecord({ key_id: 'a', outcome: 'cut', first_token_ms: null }));
  tally.add(requestRecord({ key_id: 'b', outcome: 'client_left' }));
  const shown = () =>
    tally.rows().map(({ key_id, requests, errors, completion_tokens, firsts }) => {
      const first = firsts.reduce((sum, count) => sum + count, 0);
      return [key_id, requests, errors, completion_tokens, first].join(' ');
    });
  assert.deepEqual(shown(), ['a 2 1 10 1', 'b 1 0 5 1']);
  await clock.advance(live_window_ms / 2);
  assert.deepEqual(shown(), ['a 1 1 5 0', 'b 1 0 5 1']);
  await clock.advance(live_window_ms / 2);
  assert.deepEqual(shown(), []);
});

test('after a start the window is as long as there was something to count', async () => {
  const clock = createFakeClock();
  await clock.advance(5_000_000);
  const tally = createLiveTally(clock);
  assert.equal(tally.window_ms(), 1000);
  await clock.advance(9000);
  assert.equal(tally.window_ms(), 9000);
  await clock.advance(live_window_ms);
  assert.equal(tally.window_ms(), live_window_ms);
});

test('names that lead nowhere are one row, and pairs are bounded', () => {
  const tally = createLiveTally(createFakeClock());
  for (let one = 0; one < 20; one += 1) {
    tally.add(requestRecord({ workload_id: null, model: `made up ${one}` }));
  }
  assert.deepEqual(
    tally.rows().map(({ model, requests }) => [model, requests]),
    [['', 20]],
  );
  for (let one = 0; one < limits.live_pairs + 20; one += 1) {
    tally.add(requestRecord({ key_id: `k${one}` }));
  }
  assert.equal(tally.rows().length, limits.live_pairs);
});
