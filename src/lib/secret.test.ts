/**
 * Secrets: printed by nobody, whatever they are put into.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { format, inspect } from 'node:util';
import { digest, Secret, sameSecret } from './secret.ts';

test('a secret prints as redacted, however it is printed', () => {
  const secret = new Secret('hunter2');
  const ways = [
    String(secret),
    `${secret}`,
    secret.toString(),
    JSON.stringify({ secret }),
    JSON.stringify([secret]),
    inspect(secret),
    inspect({ deep: { secret } }, { depth: 9, showHidden: true, getters: true }),
    format('%s %o %j', secret, secret, secret),
    Object.entries(secret).join(),
    new Error(`no: ${secret}`).message,
  ];
  for (const said of ways) assert.equal(said.includes('hunter2'), false, said);
  assert.match(ways.slice(0, 8).join(), /^(?:.*\[redacted\])+/s);
  assert.equal(structuredClone({ ...secret }) instanceof Secret, false);
  assert.equal(secret.reveal(), 'hunter2');
});

test('a digest is the SHA-256 that every other program makes', () => {
  const expected = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';
  assert.equal(digest('abc'), expected);
  assert.equal(digest(Buffer.from('abc')), expected);
});

test('two secrets are the same only when they are', () => {
  assert.equal(sameSecret('abc', 'abc'), true);
  for (const other of ['', 'ab', 'abcd', 'abC']) assert.equal(sameSecret('abc', other), false);
});
