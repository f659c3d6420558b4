/**
 * Canonical JSON: one text a value, whatever the order its keys came in.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { canonicalJson } from './canonical-json.ts';

test('keys are in the order of their UTF-16 units, and nothing else changes', () => {
  assert.equal(
    canonicalJson({ b: [1, { d: null, c: 'é\u2028"' }], a: 1e21, '\u{10000}': 0, '\uffff': true }),
    '{"a":1e+21,"b":[1,{"c":"é\u2028\\"","d":null}],"\u{10000}":0,"\uffff":true}',
  );
  assert.equal(canonicalJson({ a: undefined, b: -0 }), '{"b":0}');
});

test('it parses back to the same value, and a shuffled copy gives the same text', () => {
  const value = fc.jsonValue({ maxDepth: 4 });
  fc.assert(
    fc.property(value, (one) => {
      const text = canonicalJson(one);
      assert.equal(canonicalJson(JSON.parse(text)), text);
      assert.equal(canonicalJson(reversed(one)), text);
    }),
    { seed: 1, numRuns: 300 },
  );
});

test('what JSON cannot say is refused', () => {
  for (const wrong of [Number.NaN, Infinity, () => {}, 1n, Symbol('a')]) {
    assert.throws(() => canonicalJson({ wrong }));
  }
});

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([key, member]) => [key, reversed(member)]);
  return Object.fromEntries(members.reverse());
}
