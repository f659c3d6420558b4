/**
 * Whether a file that is a good model is something else as well, for a reader that looks elsewhere:
 * ZIP archives are read from their end, and a pickle may begin with any bytes.
 *
 * Invariants: bounded reads and steps; chance is not enough: a ZIP must have its end record with
 * the directory before it, a pickle must run from the first byte to a call of something imported.
 */
import type { ModelReader } from './validate-reader.ts';
import { must } from './validate-refusal.ts';

/** The end record of a ZIP archive with the longest comment. */
const zip_tail_bytes = 22 + 0xffff;
const end_record = Buffer.from('PK\u0005\u0006');
const directory_entry = Buffer.from('PK\u0001\u0002');
const zip64_locator = Buffer.from('PK\u0006\u0007');

/** End records that are followed; by chance there is none. */
const most_records = 64;

/** Steps of a pickle that are followed; what reads as one for so long is one. */
const most_steps = 2000;
/** How long a line of a pickle may be. */
const window_bytes = 64 << 10;

export async function refusePolyglots(reader: ModelReader): Promise<void> {
  must(!(await isZip(reader)), 'polyglot_zip');
  must(!(await isPickle(reader)), 'polyglot_pickle');
}

async function isZip(reader: ModelReader): Promise<boolean> {
  const start = Math.max(0, reader.file_bytes - zip_tail_bytes);
  const tail = await reader.readAt(start, zip_tail_bytes);
  let candidates = 0;
  for (let at = tail.lastIndexOf(end_record); at >= 0; at = before(tail, at)) {
    candidates += 1;
    if (candidates > most_records) return true;
    if (at + 22 > tail.length) continue;
    if (at >= 20 && tail.subarray(at - 20, at - 16).equals(zip64_locator)) return true;
    const position = start + at - tail.readUInt32LE(at + 12);
    if (tail.readUInt16LE(at + 10) === 0 || position < 0) continue;
    if ((await reader.readAt(position, 4)).equals(directory_entry)) return true;
  }
  return false;
}

function before(tail: Buffer, at: number): number {
  return at === 0 ? -1 : tail.lastIndexOf(end_record, at - 1);
}

/** How an opcode's argument is told: fixed bytes, a length before it, or one or two lines. */
type Argument = { bytes: number } | { length_bytes: 1 | 4 | 8 } | { lines: 1 | 2 };

const opcodes = new Map<number, Argument>();
const note = (signs: string, argument: Argument) => {
  for (const byte of Buffer.from(signs, 'latin1')) opcodes.set(byte, argument);
};
note('(.012NQRabdes})]tlou\u0081\u0085\u0086\u0087\u0088\u0089\u008f\u0090\u0091\u0092', {
  bytes: 0,
});
note('\u0093\u0094\u0097\u0098', { bytes: 0 });
note('Khq\u0080\u0082', { bytes: 1 });
note('M\u0083', { bytes: 2 });
note('Jjr\u0084', { bytes: 4 });
note('G\u0095', { bytes: 8 });
note('UC\u008a\u008c', { length_bytes: 1 });
note('TXB\u008b', { length_bytes: 4 });
note('\u008d\u008e\u0096', { length_bytes: 8 });
note('FILSVPgp', { lines: 1 });
note('ci', { lines: 2 });

const imports = new Set(Buffer.from('ci\u0082\u0083\u0084\u0093', 'latin1'));
const stop = 0x2e;
const calls = new Set(Buffer.from('Roib\u0081\u0092', 'latin1'));

async function isPickle(reader: ModelReader): Promise<boolean> {
  let imported = false;
  let base = 0;
  let window = await reader.readAt(0, window_bytes);
  let at = 0;
  const moveTo = async (position: number) => {
    base = position;
    window = await reader.readAt(base, window_bytes);
  };
  for (let step = 0; step < most_steps; step += 1) {
    if (at >= reader.file_bytes) return false;
    if (at + 16 > base + window.length) await moveTo(at);
    const code = window[at - base] ?? 0;
    const argument = opcodes.get(code);
    if (argument === undefined || code === stop) return false;
    if (imports.has(code)) imported = true;
    if (imported && calls.has(code)) return true;
    let bytes = argumentBytes(argument, window, at + 1 - base);
    if (bytes === null && at > base) {
      await moveTo(at);
      bytes = argumentBytes(argument, window, 1);
    }
    if (bytes === null) return false;
    at += 1 + bytes;
  }
  return true;
}

/** The bytes of an argument that begins at `start` of the window, or null when it does not end. */
function argumentBytes(argument: Argument, window: Buffer, start: number): number | null {
  if ('bytes' in argument) return argument.bytes;
  if ('lines' in argument) {
    let end = start;
    for (let line = 0; line < argument.lines; line += 1) {
      end = window.indexOf(0x0a, end) + 1;
      if (end === 0) return null;
    }
    return end - start;
  }
  const { length_bytes } = argument;
  if (start + length_bytes > window.length) return null;
  let length = 0;
  for (let at = length_bytes - 1; at >= 0; at -= 1)
    length = length * 256 + (window[start + at] ?? 0);
  return Number.isSafeInteger(length) ? length_bytes + length : null;
}
