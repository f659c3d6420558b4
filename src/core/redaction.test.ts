/**
 * Redaction: no secret stays, every change is listed, and nothing else is changed (I-45).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../lib/clock.ts';
import { seededRandom } from '../lib/random.ts';
import { type Json, redact } from './redaction.ts';
import { makeToken, tokenPrefixes } from './token.ts';

const letters = (count: number) => 'aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA'.repeat(4).slice(0, count);
const own = tokenPrefixes.map((prefix) => makeToken(prefix, seededRandom(9).bytes(32)));

/** What stands in text, what must be gone from it, and the rule that says so. */
const shapes: [text: string, secret: string, rule: string][] = [
  ...own.map((token): [string, string, string] => [token, token, 'token.einsora']),
  ['https://ada:s3cret@example.org/x', 's3cret', 'uri.userinfo'],
  ['postgres://s3cretUser@db/x', 's3cretUser', 'uri.userinfo'],
  ['https://example.org/m.gguf?sig=s3cretSig', 's3cretSig', 'uri.query'],
  ['GET /v1/x?a=one1&b=two2 200', 'two2', 'uri.query'],
  ['http://localhost:4600/open#t=s3cretTicket', 's3cretTicket', 'uri.fragment'],
  [`hf_${letters(34)}`, letters(34), 'vendor.huggingface'],
  [`ghp_${letters(36)}`, letters(36), 'vendor.github'],
  [`sk-proj-${letters(40)}`, letters(40), 'vendor.openai'],
  [`sk-ant-api03-${letters(40)}`, letters(40), 'vendor.sk-ant'],
  ['AKIAIOSFODNN7EXAMPLE', 'IOSFODNN7', 'vendor.aws'],
  [`AIza${letters(35)}`, letters(35), 'vendor.google'],
  [`xoxb-${letters(24)}`, letters(24), 'vendor.slack'],
  [`glpat-${letters(20)}`, letters(20), 'vendor.gitlab'],
  [`nvapi-${letters(40)}`, letters(40), 'vendor.nvidia'],
  [`eyJ${letters(20)}.eyJ${letters(20)}.${letters(20)}`, letters(20), 'vendor.jwt'],
  ['Authorization: Bearer abc.def', 'abc.def', 'http.authorization'],
  ['curl -H "authorization: basic dXNlcjpwYXNz"', 'dXNlcjpwYXNz', 'http.authorization'],
  ['sent Bearer abcdef123', 'abcdef123', 'http.authorization'],
  ['DB_PASSWORD=hunter2', 'hunter2', 'text.assignment'],
  ['api_key: "q1w2e3"', 'q1w2e3', 'text.assignment'],
  ['{"access-key":"q1w2e3"}', 'q1w2e3', 'text.assignment'],
  ['serve --api-key q1w2e3 --port 80', 'q1w2e3', 'text.flag'],
  [
    '-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----',
    'MIIE',
    'text.private-key',
  ],
];

test('each shape of a secret is found in any text, by its rule, and the text around it stays', () => {
  for (const [text, secret, rule] of shapes) {
    for (const [before, after] of [
      ['', ''],
      ['it said: ', ' and went on'],
      ['line 1\n', '\nline 3'],
      ['("', '")'],
    ]) {
      const { value, redactions } = redact({ log: `${before}${text}${after}` });
      const log = (value as { log: string }).log;
      assert.equal(log.includes(secret), false, `${text} gave ${log}`);
      assert.ok(log.startsWith(before ?? '') && log.endsWith(after ?? ''), log);
      assert.ok(log.includes('REDACTED'));
      assert.ok(
        redactions.some((one) => one.pointer === '/log' && one.rule === rule),
        `${text}: ${JSON.stringify(redactions)}`,
      );
    }
  }
});

test('what only looks like a secret stays', () => {
  const innocent = {
    ...{ max_tokens: 512, token_count: 3, tokens: 12, key_id: 'k1', last_four: 'x9Yz' },
    log: 'n_tokens = 512, BOS token = 1, basic authentication, what? a = b; max_tokens: 16',
    url: 'https://example.org/models/a.gguf',
    sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    model: 'hf://org/name:Q4_K_M',
    flags: '--token-limit 5 --secret -v',
  };
  assert.deepEqual(redact(innocent), { value: innocent, redactions: [] });
});

test('fields are hidden by their name, down to their leaves, with a pointer to each', () => {
  const { value, redactions } = redact({
    env: { HOME: '/root', DEBUG: 1, EMPTY: '' },
    'a/b~c': { password: 'x', nested: [{ apiKey: 'y' }] },
    secret: { value: 'z', none: null },
    environment: ['NAME=value', 'plain'],
    hash: 'abc',
  });
  assert.deepEqual(value, {
    env: { HOME: 'REDACTED', DEBUG: 'REDACTED', EMPTY: '' },
    'a/b~c': { password: 'REDACTED', nested: [{ apiKey: 'REDACTED' }] },
    secret: { value: 'REDACTED', none: null },
    environment: ['NAME=REDACTED', 'REDACTED'],
    hash: 'REDACTED',
  });
  assert.deepEqual(
    redactions.map(({ pointer, rule }) => `${pointer} ${rule}`),
    [
      '/env/HOME field.env',
      '/env/DEBUG field.env',
      '/a~1b~0c/password field.password',
      '/a~1b~0c/nested/0/apiKey field.password',
      '/secret/value field.password',
      '/environment/0 field.env',
      '/environment/1 field.env',
      '/hash field.hash',
    ],
  );
});

const anySecret = fc.constantFrom(...shapes.map(([text]) => text));
/** Pieces of secrets with nothing, or with what rules look for, between them. */
const anyTangle = fc
  .array(
    fc.oneof(anySecret, fc.constantFrom(...' "\':=@?&#-x'.split(''), '://', 'REDACTED', 'token')),
    {
      maxLength: 8,
    },
  )
  .map((pieces) => pieces.join(''));
const anyText = fc.oneof(
  { weight: 3, arbitrary: anyTangle },
  { weight: 3, arbitrary: fc.string({ unit: 'grapheme' }) },
  { weight: 1, arbitrary: fc.constantFrom('a b c', 'tokens: 5', 'https://example.org/', '?', '=') },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.lorem(), anySecret, fc.lorem()).map((parts) => parts.join(' ')),
  },
);
const { doc } = fc.letrec<{ doc: Json }>((tie) => ({
  doc: fc.oneof(
    { maxDepth: 4 },
    anyText,
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('doc'), { maxLength: 4 }),
    fc.dictionary(
      fc.oneof(fc.string(), fc.constantFrom('env', 'password', 'details', 'log_tail', 'hash')),
      tie('doc'),
      { maxKeys: 4, noNullPrototype: true },
    ),
  ),
}));

/** Every leaf by its pointer. */
function leaves(value: Json, pointer = ''): Map<string, Json> {
  if (typeof value !== 'object' || value === null) return new Map([[pointer, value]]);
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return new Map(
    entries.flatMap(([key, member]) => {
      const name = String(key).replaceAll('~', '~0').replaceAll('/', '~1');
      return [...leaves(member, `${pointer}/${name}`)];
    }),
  );
}

test('of any document: what changed is listed, what is not listed is as it was, none stays', () => {
  fc.assert(
    fc.property(doc, (given) => {
      const copy = structuredClone(given);
      const { value, redactions } = redact(given);
      assert.deepEqual(given, copy, 'what was given is left alone');
      const [before, after] = [leaves(given), leaves(value)];
      assert.deepEqual([...after.keys()], [...before.keys()], 'the shape stays');
      const listed = new Set(redactions.map(({ pointer }) => pointer));
      for (const [pointer, leaf] of after) {
        if (listed.has(pointer)) assert.match(String(leaf), /REDACTED/);
        else assert.deepEqual(leaf, before.get(pointer));
      }
      const again = redact(value);
      assert.deepEqual(again, { value, redactions: [] }, 'a second pass finds nothing');
    }),
    { seed: 45, numRuns: 2000 },
  );
});

test('of any tangle of secrets none is found again', () => {
  fc.assert(
    fc.property(anyTangle, (text) => {
      const { value } = redact(text);
      assert.deepEqual(redact(value), { value, redactions: [] });
    }),
    { seed: 46, numRuns: 10_000 },
  );
});

test('no text takes long, however it is made to', () => {
  const hostile = [
    ...['token', 'a.', 'http://', 'x://a@', '?a=', 'authorization:  ', 'secret =', '-', 'eyJ'],
    ...['-----BEGIN PRIVATE KEY-----', 'sk-', 'https://a#', ' ', 'a', '@', '--token '],
  ];
  for (const part of hostile) {
    const text = part.repeat(Math.ceil(65_536 / part.length));
    const began = systemClock.monotonic();
    redact(text);
    const took = systemClock.monotonic() - began;
    assert.ok(took < 2000, `${JSON.stringify(part)} took ${Math.round(took)} ms`);
  }
});
