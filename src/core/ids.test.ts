/**
 * Ids: sorted by time, of one form, and never the same twice.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isId, makeId } from './ids.ts';

const noise = fc.uint8Array({ minLength: 10, maxLength: 16 });
const moment = fc.integer({ min: 0, max: 2 ** 48 - 1 });

test('an id is 26 characters that a host name can hold', () => {
  fc.assert(
    fc.property(moment, noise, (now, random) => {
      const id = makeId(now, random);
      assert.equal(isId(id), true, id);
      assert.match(`w-${id}`, /^[a-z0-9-]{1,63}$/);
    }),
    { seed: 2 },
  );
});

test('ids sort by the time they were made at', () => {
  fc.assert(
    fc.property(moment, moment, noise, noise, (a, b, one, two) => {
      if (a === b) return;
      const earlier = makeId(Math.min(a, b), one);
      const later = makeId(Math.max(a, b), two);
      assert.ok(earlier < later, `${earlier} < ${later}`);
    }),
    { seed: 3 },
  );
});

test('in one millisecond, 74 bits of noise tell ids apart', () => {
  fc.assert(
    fc.property(moment, noise, fc.nat(9), fc.nat(7), (now, random, byte, bit) => {
      // The ten bytes hold 80 bits, of which the six highest find no place.
      if (byte === 0 && bit > 1) return;
      const other = Uint8Array.from(random);
      other[byte] = (other[byte] ?? 0) ^ (1 << bit);
      assert.notEqual(makeId(now, random), makeId(now, other));
    }),
    { seed: 4 },
  );
});

test('an id is a UUID of version 7 in other letters', () => {
  const id = makeId(1_800_000_000_000, new Uint8Array(10).fill(255));
  let bits = 0n;
  for (const letter of id) {
    bits = (bits << 5n) | BigInt('0123456789abcdefghjkmnpqrstvwxyz'.indexOf(letter));
  }
  assert.equal(Number(bits >> 80n), 1_800_000_000_000);
  assert.equal((bits >> 76n) & 0xfn, 7n);
  assert.equal((bits >> 62n) & 3n, 2n);
});

test('what is no id is told', () => {
  const id = makeId(1, new Uint8Array(10));
  for (const bad of ['', id.slice(1), `${id}0`, id.toUpperCase(), `8${id.slice(1)}`, 'desk']) {
    assert.equal(isId(bad) && bad !== id, false, bad);
  }
});
