/**
 * Signatures: made, checked, and refused where anything differs.
 */
import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey, verify } from 'node:crypto';
import { test } from 'node:test';
import { isSignature, makePrivateKey, publicKeyOf, signText } from './ed25519.ts';

const key = makePrivateKey(new Uint8Array(32).fill(7));

test('a signature holds for its text and key alone', () => {
  const public_key = publicKeyOf(key);
  const signature = signText(key, 'text');
  assert.equal(isSignature(public_key, 'text', signature), true);
  assert.equal(isSignature(public_key, 'other', signature), false);
  const other = publicKeyOf(makePrivateKey(new Uint8Array(32).fill(8)));
  assert.equal(isSignature(other, 'text', signature), false);
});

test('what is no key or no signature is false, not an error', () => {
  const signature = signText(key, 'text');
  for (const [public_key, given] of [
    ['', signature],
    ['not base64 at all', signature],
    [publicKeyOf(key), ''],
    [publicKeyOf(key), 'AAAA'],
  ] as const) {
    assert.equal(isSignature(public_key, 'text', given), false);
  }
});

test('another program can use the key: it is plain PKCS #8', () => {
  const read = createPrivateKey(key.reveal());
  assert.equal(read.asymmetricKeyType, 'ed25519');
  const signature = Buffer.from(signText(key, 'text'), 'base64');
  assert.equal(verify(null, Buffer.from('text'), createPublicKey(read), signature), true);
  assert.throws(() => makePrivateKey(new Uint8Array(31)));
});
