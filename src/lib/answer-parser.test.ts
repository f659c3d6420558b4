/**
 * Answers as they come off a connection: however they are cut, and whatever is wrong with them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createAnswerParser } from './answer-parser.ts';

type Read = {
  status: number | null;
  headers: Record<string, string>;
  body: string;
  end: string;
  is_kept: boolean | null;
  has_rest: boolean;
};

/** What is read of an answer that comes in these pieces, and then nothing more. */
function read(pieces: readonly Uint8Array[]): Read {
  const parser = createAnswerParser();
  const got: Read = {
    ...{ status: null, headers: {}, body: '', end: 'cut', is_kept: null, has_rest: false },
  };
  for (const piece of pieces) {
    const { is, head, body, has_rest } = parser.push(Buffer.from(piece));
    if (head !== null) {
      got.status = head.status;
      got.headers = Object.fromEntries(head.headers);
      got.is_kept = head.is_kept;
    }
    got.body += body?.toString('latin1') ?? '';
    got.has_rest = has_rest;
    if (is !== 'more') return { ...got, end: is };
  }
  return parser.isWholeAtEnd() ? { ...got, end: 'whole at end' } : got;
}

const whole = (text: string) => read([Buffer.from(text, 'latin1')]);
const lines = (...all: string[]) => all.join('\r\n');

const answers = [
  lines('HTTP/1.1 200 OK', 'Content-Length: 5', '', 'hello'),
  lines('HTTP/1.1 200 OK', 'Content-Length: 0', '', ''),
  lines('HTTP/1.1 204 No Content', '', ''),
  lines('HTTP/1.1 200', 'Connection: close', '', 'until the end'),
  lines('HTTP/1.0 200 OK', 'Content-Length: 2', '', 'ok'),
  lines(
    'HTTP/1.1 100 Continue',
    '',
    'HTTP/1.1 103 Early',
    'Link: a',
    '',
    'HTTP/1.1 201 Made',
    '',
  ).concat(lines('content-length:  3 ', '', 'yes')),
  lines(
    'HTTP/1.1 200 OK',
    'Transfer-Encoding: chunked',
    '',
    '5',
    'hello',
    'A;x="y"',
    '0123456789',
  ).concat(lines('', '0', 'Trailer: a', '', '')),
  lines('HTTP/1.1 200 OK', 'transfer-encoding: Chunked', 'X: a', 'X: b', '', '000', '', ''),
];

test('heads, lengths, chunks with extensions and trailers, and bodies until the end', () => {
  const found = answers.map((text) => {
    const { status, body, end, is_kept } = whole(text);
    return [status, body, end, is_kept];
  });
  assert.deepEqual(found, [
    [200, 'hello', 'over', true],
    [200, '', 'over', true],
    [204, '', 'over', true],
    [200, 'until the end', 'whole at end', false],
    [200, 'ok', 'over', false],
    [201, 'yes', 'over', true],
    [200, 'hello0123456789', 'over', true],
    [200, '', 'over', true],
  ]);
  assert.equal(whole(answers[7] ?? '').headers.x, 'a, b');
});

test('any cutting of the bytes gives the same answer', () => {
  const cut = fc.tuple(fc.constantFrom(...answers), fc.array(fc.nat(200), { maxLength: 12 }));
  fc.assert(
    fc.property(cut, ([text, places]) => {
      const bytes = Buffer.from(text, 'latin1');
      const at = [0, ...places.map((place) => place % bytes.length), bytes.length];
      const sorted = at.sort((a, b) => a - b);
      const pieces = sorted.slice(1).map((to, index) => bytes.subarray(sorted[index], to));
      assert.deepEqual(read(pieces), whole(text));
    }),
    { seed: 72, numRuns: 500 },
  );
  for (const text of answers) {
    const bytes = Buffer.from(text, 'latin1');
    const single = Array.from(bytes, (byte) => Uint8Array.of(byte));
    assert.deepEqual(read(single), whole(text));
  }
});

test('chunks that come together are handed on in one piece', () => {
  const parser = createAnswerParser();
  const head = lines('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', '', '');
  const { body } = parser.push(Buffer.from(`${head}1\r\na\r\n1\r\nb\r\n1\r\nc\r\n`));
  assert.equal(body?.toString(), 'abc');
});

test('what can be read in two ways, or is no answer at all, is refused', () => {
  const ok = 'HTTP/1.1 200 OK';
  const chunked = 'Transfer-Encoding: chunked';
  const bad = [
    'SSH-2.0-OpenSSH\r\n\r\n',
    lines('HTTP/2 200 OK', '', ''),
    lines('HTTP/1.1 99 Less', '', ''),
    lines('HTTP/1.1 2000 More', '', ''),
    lines('HTTP/1.1 101 Switching Protocols', '', ''),
    lines(ok, 'Content-Length: 5', chunked, '', 'hello'),
    lines(ok, 'Content-Length: 5', 'Content-Length: 5', '', 'hello'),
    lines(ok, 'Content-Length: -1', '', ''),
    lines(ok, 'Content-Length: 0x5', '', 'hello'),
    lines(ok, 'Content-Length: 1e1', '', 'hello'),
    lines(ok, 'Content-Length:', '', 'hello'),
    lines(ok, 'Transfer-Encoding: gzip, chunked', '', ''),
    lines(ok, chunked, 'Transfer-Encoding: identity', '', ''),
    lines(ok, 'X: folded', ' here', '', ''),
    lines(ok, 'X : a', '', ''),
    lines(ok, ': a', '', ''),
    lines(ok, 'no colon', '', ''),
    lines(ok, 'X: a\nY: b', '', ''),
    lines(ok, chunked, '', 'g', ''),
    lines(ok, chunked, '', '', ''),
    lines(ok, chunked, '', '-1', ''),
    lines(ok, chunked, '', '123456789', ''),
    lines(ok, chunked, '', '1', 'ab', ''),
    lines(ok, chunked, '', '1\na'),
    lines(ok, chunked, '', '1;x\na'),
    lines(ok, chunked, '', '0', 'a\nb'),
    lines(ok, chunked, '', '0', '\ra'),
  ];
  for (const text of bad) assert.equal(whole(text).end, 'bad', JSON.stringify(text));
});

test('heads, announcements, extensions and trailers are bounded', () => {
  const long = 'x'.repeat(17 * 1024);
  const chunked = lines('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', '', '');
  const announced = lines('HTTP/1.1 103 Early', `X: ${'x'.repeat(4096)}`, '', '').repeat(5);
  for (const text of [long, announced, `${chunked}1;${long}`, `${chunked}0\r\na:${long}`]) {
    assert.equal(whole(text).end, 'bad');
  }
});

test('what comes after an answer is told, and an answer that breaks off is not whole', () => {
  assert.equal(whole(`${answers[0]}HTTP`).has_rest, true);
  assert.equal(whole(`${answers[6]}x`).has_rest, true);
  for (const text of answers.filter((one) => !one.includes('until the end'))) {
    assert.equal(whole(text.slice(0, -1)).end, 'cut');
  }
});
