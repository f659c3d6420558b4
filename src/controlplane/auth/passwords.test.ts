/**
 * Hashing passwords: the real function, bounded, and the same work for who is not there.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../contract/limits.ts';
import { seededRandom } from '../../lib/random.ts';
import { createPasswords, usual_cost } from './passwords.ts';

const cheap = { memory_kib: 64, passes: 1 };
const open = (cost = cheap) => createPasswords({ random: seededRandom(1), cost });

test('a hash is a PHC string of argon2id with the parameters asked for', async () => {
  const passwords = createPasswords({ random: seededRandom(1) });
  const stored = await passwords.hash('a long enough word');
  assert.match(stored, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
  assert.equal(await passwords.verify('a long enough word', stored), true);
  assert.equal(await passwords.verify('a long enough Word', stored), false);
  assert.deepEqual(usual_cost, { memory_kib: 19_456, passes: 2 });
});

test('a hash made elsewhere is understood', async () => {
  // The reference program: echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1 -l 32 -e
  const known =
    '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc';
  assert.equal(await open().verify('password', known), true);
  assert.equal(await open().verify('passwore', known), false);
});

test('two hashes of one password differ, and composed characters are the same', async () => {
  const passwords = open();
  assert.notEqual(await passwords.hash('p\u00e5ssword'), await passwords.hash('p\u00e5ssword'));
  assert.equal(
    await passwords.verify('pa\u030assword', await passwords.hash('p\u00e5ssword')),
    true,
  );
});

test('nobody, and a string that is none of ours, match no password', async () => {
  const passwords = open();
  const stored = await passwords.hash('a long enough word');
  const odd = [
    null,
    '',
    'a long enough word',
    '$argon2id$v=19$m=64,t=1,p=1$$',
    '$argon2i$v=19$m=64,t=1,p=1$c29tZXNhbHQ$AAAA',
    stored.replace('p=1', 'p=9'),
    stored.slice(0, -4),
    `${stored}\n`,
  ];
  for (const one of odd) assert.equal(await passwords.verify('a long enough word', one), false);
});

test('older parameters are told from those of now', async () => {
  const stored = await open().hash('a long enough word');
  assert.equal(open().isOutdated(stored), false);
  assert.equal(open({ memory_kib: 128, passes: 1 }).isOutdated(stored), true);
  assert.equal(open({ memory_kib: 64, passes: 2 }).isOutdated(stored), true);
  assert.equal(open().isOutdated('something else'), true);
});

test('so many are hashed and so many wait; the rest is refused at once', async () => {
  const passwords = open();
  const room = limits.password_hashes_at_once + limits.password_hashes_waiting;
  const asked = Array.from({ length: 64 }, () => passwords.hash('a long enough word'));
  const settled = await Promise.allSettled(asked);
  const refused = settled.filter((one) => one.status === 'rejected');
  assert.equal(refused.length, 64 - room);
  for (const one of refused) assert.equal(one.reason.code, 'too_many_requests');
  assert.match(
    await passwords.hash('a long enough word'),
    /^\$argon2id/,
    'and later there is room',
  );
});
