/**
 * What counts in a minute, against a plain list of all that was added.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fraction, seededRandom } from '../../lib/random.ts';
import { createWindow, minute_ms } from './window.ts';

test('a burst counts until its newest part is a minute old, and nothing counts for less', () => {
  const window = createWindow();
  window.add(0, 1);
  window.add(40, 2);
  window.add(50, 4);
  assert.equal(window.sum(minute_ms + 39), 7, 'what came within 50 ms goes together');
  assert.equal(window.sum(minute_ms + 40), 4);
  assert.equal(window.sum(minute_ms + 50), 0);
});

test('whatever is added, it counts all of the last minute and at most 50 ms before it', () => {
  for (let seed = 1; seed <= 5; seed += 1) {
    const random = seededRandom(seed);
    const below = (most: number) => Math.floor(fraction(random) * most);
    const window = createWindow();
    const all: [number, number][] = [];
    const since = (moment: number) =>
      all.reduce((sum, [at, amount]) => (at > moment ? sum + amount : sum), 0);
    let now = 0;
    for (let step = 0; step < 1500; step += 1) {
      now += below(4) === 0 ? below(9000) : below(60);
      if (below(3) > 0) {
        const amount = below(5);
        window.add(now, amount);
        all.push([now, amount]);
      }
      const sum = window.sum(now);
      assert.ok(sum >= since(now - minute_ms), `${seed} ${step}: something is forgotten`);
      assert.ok(sum <= since(now - minute_ms - 50), `${seed} ${step}: something stays`);
      const most = below(10);
      const wait = window.fallsTo(now, most);
      assert.ok(wait === 0 ? sum <= most : sum > most && wait <= minute_ms);
    }
  }
});

test('the moment that is told is the first at which so little counts', () => {
  const window = createWindow();
  for (const at of [0, 1000, 2000]) window.add(at, 10);
  assert.equal(window.fallsTo(2500, 30), 0);
  assert.equal(window.fallsTo(2500, 29), 57_500);
  assert.equal(window.fallsTo(2500, 10), 58_500);
  assert.equal(window.fallsTo(2500, 0), 59_500);
  assert.equal(window.sum(2500 + 58_499), 20);
  assert.equal(window.sum(2500 + 58_500), 10);
});
