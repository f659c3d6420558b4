/**
 * Passes over one string of JSON that may be longer than memory should hold.
 *
 * Invariants: holds no more than the reader's chunk; refuses what `JsonCursor` refuses in a string,
 * but for its length.
 */
import { isUtf8 } from 'node:buffer';
import { json_byte } from './json-cursor.ts';
import type { ModelReader } from './validate-reader.ts';
import { must } from './validate-refusal.ts';

/** Two escapes of six bytes make one character. */
const longest_escape = 12;

/** `reader` stands at the quote that opens it and is left behind the one that closes it. */
export async function skipJsonString(reader: ModelReader, end: number): Promise<void> {
  reader.skip(1);
  for (;;) {
    const left = end - reader.offset;
    await reader.need(Math.min(left, longest_escape));
    const bytes = reader.buffered(left);
    const is_last = bytes.length === left;
    const at = scan(bytes, is_last);
    const closes = bytes[at] === json_byte.quote;
    must(closes || !is_last, 'json_syntax', () => 'A string does not end.');
    const whole = at < bytes.length ? at : wholeCharacters(bytes);
    must(isUtf8(bytes.subarray(0, whole)), 'utf8', () => 'It is a string of JSON.');
    reader.skip(closes ? whole + 1 : whole);
    if (closes) return;
  }
}

/** Where the string closes, an escape begins that may be cut, or the bytes end. */
function scan(bytes: Buffer, is_last: boolean): number {
  let at = 0;
  while (at < bytes.length) {
    const byte = bytes[at] ?? 0;
    if (byte === json_byte.quote) return at;
    must(byte >= 0x20, 'json_syntax', () => 'A string holds a control character.');
    if (byte !== json_byte.backslash) {
      at += 1;
      continue;
    }
    if (!is_last && bytes.length - at < longest_escape) return at;
    const length = escapeLength(bytes, at);
    must(length > 0, 'json_syntax', () => 'A string holds an unknown escape.');
    at += length;
  }
  return at;
}

/** The length without a character that is cut at the end. */
function wholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(4, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return bytes.length;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return back < length ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

const short_escapes = new Set(Buffer.from('"\\/bfnrt'));

/** Bytes of the escape at `at`, both halves of a pair together; 0 when it is none. */
function escapeLength(bytes: Buffer, at: number): number {
  if (short_escapes.has(bytes[at + 1] ?? 0)) return 2;
  const first = unitAt(bytes, at);
  if (first < 0 || (first >= 0xdc00 && first < 0xe000)) return 0;
  if (first < 0xd800 || first >= 0xe000) return 6;
  const second = unitAt(bytes, at + 6);
  return second >= 0xdc00 && second < 0xe000 ? 12 : 0;
}

/** The UTF-16 unit that `\uXXXX` at `at` names, or -1. */
function unitAt(bytes: Buffer, at: number): number {
  const text = bytes.toString('latin1', at, at + 6);
  return /^\\u[\da-fA-F]{4}$/.test(text) ? Number.parseInt(text.slice(2), 16) : -1;
}
