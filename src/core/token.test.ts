/**
 * The form of tokens: what makeToken makes, checkToken takes, and nothing near it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { checkToken, hideTokens, makeToken, tokenPrefixes } from './token.ts';

const bytes = fc.uint8Array({ minLength: 32, maxLength: 48 });
const prefix = fc.constantFrom(...tokenPrefixes);

test('a token has its prefix, 30 characters and a checksum of 6', () => {
  fc.assert(
    fc.property(prefix, bytes, (kind, random) => {
      const token = makeToken(kind, random);
      assert.match(token, /^(ept|eat|ejt|tsk)_[0-9A-Za-z]{36}$/);
      assert.equal(token.slice(0, 4), kind);
      assert.equal(checkToken(kind, token), true);
    }),
  );
});

test('a token stays what it was made as, so that stored ones go on to work', () => {
  const token = makeToken('ept_', new Uint8Array(32).fill(7));
  assert.equal(token, 'ept_9KSulA8Ghct30vZz4HpdQ5c5b9cPF11NQsco');
});

test('any one character changed, dropped or doubled is noticed', () => {
  fc.assert(
    fc.property(bytes, fc.nat(39), fc.constantFrom(...'09AZaz_-= \n'), (random, at, other) => {
      const token = makeToken('ept_', random);
      const [head, tail] = [token.slice(0, at), token.slice(at + 1)];
      if (token[at] !== other) assert.equal(checkToken('ept_', head + other + tail), false);
      assert.equal(checkToken('ept_', head + tail), false);
      assert.equal(checkToken('ept_', head + token[at] + token[at] + tail), false);
    }),
  );
});

test('a token of one kind is none of another, even with its prefix exchanged', () => {
  fc.assert(
    fc.property(bytes, (random) => {
      const key = makeToken('ept_', random);
      assert.equal(checkToken('eat_', key), false);
      assert.equal(checkToken('eat_', `eat_${key.slice(4)}`), false);
    }),
  );
});

test('different bytes give different tokens', () => {
  fc.assert(
    fc.property(fc.uniqueArray(bytes, { minLength: 2, selector: String }), (list) => {
      const seen = new Set(list.map((random) => makeToken('ejt_', random.slice(0, 32))));
      assert.equal(seen.size, new Set(list.map((random) => String(random.slice(0, 32)))).size);
    }),
  );
});

test('too little randomness is refused', () => {
  assert.throws(() => makeToken('ept_', new Uint8Array(31)), /32 random bytes/);
});

test('tokens in a text are hidden, whatever stands around them, and nothing else is', () => {
  fc.assert(
    fc.property(prefix, bytes, (kind, random) => {
      const token = makeToken(kind, random);
      const path = `/v1/tokens/${token}/x`;
      assert.equal(hideTokens(path), `/v1/tokens/${kind}(hidden)/x`);
      assert.equal(hideTokens(`${token},${token}`), `${kind}(hidden),${kind}(hidden)`);
    }),
  );
  for (const text of ['', 'tsk_', '/v1/workloads/chat', 'task_list_of_everything', 'ept_a']) {
    assert.equal(hideTokens(text), text);
  }
});
