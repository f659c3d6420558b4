/**
 * Recognises the frames of a chat stream that are like an earlier one but for the text they add, so
 * that they need not be read: nearly all of an answer (ADR-0071).
 *
 * Invariants: only a frame that has each byte of the earlier one around its text is recognised, and
 * only where that one says nothing else that grows; a text with an escape, or none, never is.
 */
import { type Fields, isFields } from './whole/fields.ts';

export type Repeat = {
  /** A frame with content that was read, and what it says. */
  learn(bytes: Buffer, from: number, to: number, chunk: Fields): void;
  /** Where the text of a frame begins that is like the one that was learnt last; null: it isn't. */
  textAt(bytes: Buffer, from: number, to: number): number | null;
  /** Of a recognised frame: where its text ends. */
  textEnd(to: number): number;
  /** What a frame like it says that adds this text. */
  chunkWith(text: string): Fields;
};

type Learnt = { before: Buffer; after: Buffer; chunk: Fields; choice: Fields; delta: Fields };

const key = Buffer.from('"content":');
const quote = 0x22;
const backslash = 0x5c;
const space = 0x20;

export function createRepeat(): Repeat {
  let learnt: Learnt | null = null;
  return {
    learn(bytes, from, to, chunk) {
      learnt = learn(bytes.subarray(from, to), chunk);
    },
    textAt(bytes, from, to) {
      if (learnt === null) return null;
      const { before, after } = learnt;
      const start = from + before.length;
      const end = to - after.length;
      if (end <= start) return null;
      if (!isAt(bytes, from, before) || !isAt(bytes, end, after)) return null;
      return isPlain(bytes, start, end) ? start : null;
    },
    textEnd: (to) => to - (learnt?.after.length ?? 0),
    chunkWith(text) {
      const { chunk = {}, choice = {}, delta = {} } = learnt ?? {};
      return { ...chunk, choices: [{ ...choice, delta: { ...delta, content: text } }] };
    },
  };
}

/** Null: another like it would say more than its text. */
function learn(frame: Buffer, chunk: Fields): Learnt | null {
  const [choice, ...others] = Array.isArray(chunk.choices) ? chunk.choices : [];
  if (others.length > 0 || !isFields(choice) || !isFields(choice.delta)) return null;
  const { delta, ...rest } = choice;
  const says = { ...delta, content: null };
  const grows = [...Object.values(rest), ...Object.values(says)].some(isGrowing);
  if (grows || typeof delta.content !== 'string') return null;
  const at = frame.indexOf(key);
  if (at < 0 || frame.indexOf(key, at + 1) >= 0) return null;
  const start = at + key.length + (frame[at + key.length] === space ? 2 : 1);
  const end = frame.indexOf(quote, start);
  if (frame[start - 1] !== quote || end < 0 || !isPlain(frame, start, end)) return null;
  if (frame.toString('utf8', start, end) !== delta.content) return null;
  const [before, after] = [frame.subarray(0, start), frame.subarray(end)].map(copyOf);
  if (before === undefined || after === undefined) return null;
  return { before, after, chunk, choice, delta };
}

/** Said twice it may not be what it is said once. */
function isGrowing(value: unknown): boolean {
  return typeof value === 'object' ? value !== null : typeof value === 'string';
}

/** Of so few bytes a look at each costs less than a call that compares them. */
function isAt(bytes: Buffer, from: number, wanted: Buffer): boolean {
  for (let at = 0; at < wanted.length; at += 1) {
    if (bytes[from + at] !== wanted[at]) return false;
  }
  return true;
}

/** Bytes between quotes that stand for themselves. */
function isPlain(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte < space || byte === quote || byte === backslash) return false;
  }
  return true;
}

/** Of its own: the chunk that it came in need not be kept. */
function copyOf(bytes: Buffer): Buffer {
  return Buffer.from(bytes);
}
