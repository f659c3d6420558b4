import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSseParser } from './sse.ts';

const events = ['{"a":"größer 🙂"}', 'two\nlines', '[DONE]'];

function stream(end: string): Buffer {
  const lines = [
    ': a comment',
    `data: ${events[0]}`,
    '',
    'event: x',
    'data: two',
    'data:lines',
    '',
    'id: 7',
    '',
    `data: ${events[2]}`,
    '',
    '',
  ];
  return Buffer.from(lines.join(end));
}

for (const [name, end] of [
  ['LF', '\n'],
  ['CR', '\r'],
  ['CRLF', '\r\n'],
] as const) {
  test(`${name} streams give the same events, cut into pieces of any size`, () => {
    const bytes = stream(end);
    for (let size = 1; size <= bytes.length; size += 1) {
      const parser = createSseParser();
      const seen: string[] = [];
      for (let at = 0; at < bytes.length; at += size) {
        seen.push(...parser.push(bytes.subarray(at, at + size)));
      }
      assert.deepEqual(seen, events, `pieces of ${size}`);
    }
  });
}

test('an event without its blank line is not given', () => {
  const parser = createSseParser();
  assert.deepEqual(parser.push(Buffer.from('data: half\n')), []);
  assert.deepEqual(parser.push(Buffer.from('\n')), ['half']);
});

test('an event that never ends is refused', () => {
  const parser = createSseParser();
  const piece = Buffer.alloc(1024 * 1024, 'x');
  assert.throws(() => {
    for (let count = 0; count < 6; count += 1) parser.push(piece);
  }, /too large/);
});
