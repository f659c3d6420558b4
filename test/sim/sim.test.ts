/**
 * The simulator itself: its stories repeat to the letter.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PlayOptions, play } from './play.ts';

const options: PlayOptions = {
  ...{ seed: 7, hours: 0.5, machines: 4, mode: 'safety' },
  ...{ keep: null, read: null },
};

test('the same seed gives the same trace, whatever was played before it', async () => {
  const first = await play(options);
  await play({ ...options, seed: 8 });
  const second = await play(options);
  assert.equal(second.hash, first.hash);
  assert.equal(second.events, first.events);
  assert.ok(first.events > 1000);
});
