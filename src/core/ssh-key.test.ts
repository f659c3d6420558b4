/**
 * Public keys are read as OpenSSH writes them, and nothing else is taken for one.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isSameKey, parseAuthorizedKeys } from './ssh-key.ts';

function field(value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function line(...fields: (string | Uint8Array)[]): string {
  return `${fields[0]} ${Buffer.concat(fields.map(field)).toString('base64')}`;
}

const ed25519 = line('ssh-ed25519', Buffer.alloc(32, 7));
const ecdsa = line('ecdsa-sha2-nistp256', 'nistp256', Buffer.alloc(65, 4));
const rsa = line(
  'ssh-rsa',
  Buffer.from([1, 0, 1]),
  Buffer.concat([Buffer.of(0), Buffer.alloc(256, 9)]),
);

test('keys of each kind are read, with comments, blank lines and lines of Windows', () => {
  const keys = parseAuthorizedKeys(
    `# mine\r\n${ed25519} ada@desk\r\n\r\n${ecdsa}\n${rsa} two words\n`,
  );
  assert.ok(Array.isArray(keys));
  assert.deepEqual(
    keys.map((key) => key.type),
    ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ssh-rsa'],
  );
});

test('the same key is the same whatever its comment, and another is not', () => {
  const [key] = parseAuthorizedKeys(`${ed25519} a comment`) as never[];
  const blob = Buffer.from(ed25519.split(' ')[1] ?? '', 'base64');
  assert.ok(key !== undefined && isSameKey(key, 'ssh-ed25519', blob));
  assert.ok(!isSameKey(key, 'ssh-rsa', blob));
  assert.ok(!isSameKey(key, 'ssh-ed25519', Buffer.concat([blob, Buffer.of(0)])));
});

const refused: [string, string, RegExp][] = [
  ['nothing', '', /no public key/],
  ['comments alone', '# nothing\n', /no public key/],
  ['options', `command="rm -rf /" ${ed25519}`, /options/],
  ['a restriction', `restrict,pty ${ed25519}`, /options/],
  ['a private key', '-----BEGIN OPENSSH PRIVATE KEY-----\nabc', /private key/],
  ['a certificate', line('ssh-ed25519-cert-v01@openssh.com', 'x'), /not taken/],
  ['a key that needs a touch', line('sk-ssh-ed25519@openssh.com', 'x'), /not taken/],
  ['DSA', line('ssh-dss', 'x'), /not taken/],
  ['half a key', ed25519.slice(0, -8), /cut off/],
  ['a key whose bytes say another type', `ssh-rsa ${ed25519.split(' ')[1]}`, /cut off/],
  ['a key with more after it', line('ssh-ed25519', Buffer.alloc(32), 'more'), /cut off/],
  ['a key of 31 bytes', line('ssh-ed25519', Buffer.alloc(31)), /cut off/],
  ['another curve than the name says', line('ecdsa-sha2-nistp256', 'nistp384', 'x'), /cut off/],
  ['1024 bits of RSA', line('ssh-rsa', 'e', Buffer.alloc(128, 1)), /2048/],
  ['prose', 'let me in', /no public key/],
  ['a second line that is none', `${ed25519}\nlet me in`, /no public key/],
  ['too many', Array.from({ length: 21 }, () => ed25519).join('\n'), /more than 20/],
];
for (const [what, text, says] of refused) {
  test(`refused: ${what}`, () => {
    assert.match(String(parseAuthorizedKeys(text)), says);
  });
}
