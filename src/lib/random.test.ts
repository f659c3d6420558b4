/**
 * Randomness: repeatable where it is seeded, spread where it is a fraction.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fraction, seededRandom, systemRandom } from './random.ts';

test('the same seed gives the same bytes, another one others', () => {
  const [a, b, c] = [seededRandom(1), seededRandom(1), seededRandom(2)];
  const bytes = a.bytes(32);
  assert.deepEqual(b.bytes(32), bytes);
  assert.notDeepEqual(c.bytes(32), bytes);
  assert.notDeepEqual(a.bytes(32), bytes, 'it goes on');
});

test('a fraction is in [0, 1), and every tenth is met', () => {
  const random = seededRandom(3);
  const tenths = new Set<number>();
  for (let count = 0; count < 1000; count += 1) {
    const value = fraction(random);
    assert.ok(value >= 0 && value < 1);
    tenths.add(Math.floor(value * 10));
  }
  assert.equal(tenths.size, 10);
  assert.equal(fraction({ bytes: (count) => new Uint8Array(count).fill(255) }) < 1, true);
});

test('the system gives as many bytes as were asked for, never the same', () => {
  assert.equal(systemRandom.bytes(32).length, 32);
  assert.notDeepEqual(systemRandom.bytes(32), systemRandom.bytes(32));
  const seen = new Set<string>();
  const lengths = [1, 7, 10, 32, 500, 512, 513, 5000];
  for (let round = 0; round < 400; round += 1) {
    const count = lengths[round % lengths.length] ?? 0;
    const bytes = systemRandom.bytes(count);
    assert.equal(bytes.length, count);
    if (count >= 10) seen.add(Buffer.from(bytes).toString('hex'));
  }
  assert.equal(seen.size, 300);
  for (const text of seen) assert.doesNotMatch(text, /^(?:00)+$/);
});

test('what was given is the caller’s own: nobody else’s changes with it', () => {
  const first = systemRandom.bytes(16);
  const copy = Uint8Array.from(first);
  for (let count = 0; count < 600; count += 1) systemRandom.bytes(16).fill(1);
  assert.deepEqual(first, copy);
});
