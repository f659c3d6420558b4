/**
 * Spoils bytes in the ways that find mistakes in parsers of binary formats and JSON.
 *
 * Invariants: the same seed makes the same bytes of the same bytes; at most 64 KB are added.
 */
import { seededRandom } from '../../src/lib/random.ts';

/** Lengths and counts at which arithmetic goes wrong. */
const odd_numbers = [
  ...[0n, 1n, 2n, 7n, 31n, 0x7fn, 0xffn, 0xffffn, 0x10000n, 0xfffffn],
  ...[2n ** 31n - 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n],
  ...[2n ** 61n, 2n ** 62n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n],
];
const odd_texts = [
  ...[
    '{',
    '}',
    '[',
    ']',
    '"',
    ',',
    ':',
    '\\',
    '\\u0000',
    '\\ud800',
    '\0',
    '\n',
    ' '.repeat(70_000),
  ],
  ...['-1', '0.5', '1e999', '9007199254740993', '[[[[', '{"a":', '"dtype"', '"__metadata__"'],
  ...[
    '{%',
    '%}',
    '{{',
    '}}',
    '{#',
    '{% for i in range(9) %}',
    '{% if x %}',
    '((((',
    'PK\u0005\u0006',
  ],
];

type Dice = (sides: number) => number;
type Change = (bytes: Buffer, dice: Dice) => Buffer;

const changes: readonly Change[] = [
  flipBits,
  setNumber,
  setNumber,
  cut,
  drop,
  double,
  insert,
  digit,
];

export function mutate(bytes: Buffer, seed: number): Buffer {
  const random = seededRandom(seed);
  const dice: Dice = (sides) => Buffer.from(random.bytes(4)).readUInt32LE() % Math.max(1, sides);
  let result = Buffer.from(bytes);
  for (let round = dice(3); round >= 0; round -= 1) {
    const change = changes[dice(changes.length)] ?? flipBits;
    result = Buffer.from(change(result, dice));
  }
  return result;
}

/** Most of what matters stands near the start. */
function place(bytes: Buffer, dice: Dice): number {
  return dice(2) === 0 ? dice(Math.min(bytes.length, 512)) : dice(bytes.length);
}

function flipBits(bytes: Buffer, dice: Dice): Buffer {
  for (let count = dice(8); count >= 0 && bytes.length > 0; count -= 1) {
    const at = place(bytes, dice);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << dice(8));
  }
  return bytes;
}

function setNumber(bytes: Buffer, dice: Dice): Buffer {
  const value = odd_numbers[dice(odd_numbers.length)] ?? 0n;
  const at = place(bytes, dice);
  if (at + 8 > bytes.length) return bytes;
  if (dice(2) === 0) bytes.writeBigUInt64LE(value, at);
  else bytes.writeUInt32LE(Number(value & 0xffffffffn), at);
  return bytes;
}

function cut(bytes: Buffer, dice: Dice): Buffer {
  return bytes.subarray(0, place(bytes, dice));
}

function drop(bytes: Buffer, dice: Dice): Buffer {
  const at = place(bytes, dice);
  return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + dice(64))]);
}

function double(bytes: Buffer, dice: Dice): Buffer {
  const at = place(bytes, dice);
  const end = at + 1 + dice(256);
  return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)]);
}

function insert(bytes: Buffer, dice: Dice): Buffer {
  const at = place(bytes, dice);
  const text = odd_texts[dice(odd_texts.length)] ?? '';
  return Buffer.concat([bytes.subarray(0, at), Buffer.from(text, 'latin1'), bytes.subarray(at)]);
}

/** Another digit for a digit: shapes and places of JSON that no longer fit. */
function digit(bytes: Buffer, dice: Dice): Buffer {
  const digits = [...bytes.keys()].filter((at) => (bytes[at] ?? 0) >= 48 && (bytes[at] ?? 0) <= 57);
  const at = digits[dice(digits.length)];
  if (at !== undefined) bytes[at] = 48 + dice(10);
  return bytes;
}
