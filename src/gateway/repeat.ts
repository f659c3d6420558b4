/**
 * Recognises the frames of a chat stream that are like an earlier one but for the text they add, so
 * that they need not be read: nearly all of an answer (ADR-0071).
 *
 * Invariants: only a frame that has each byte of the earlier one around its text is recognised, and
 * only where that one says nothing else that grows; a text with an escape, or none, never is.
 */
import { type Fields, isFields } from './whole/fields.ts';

export type Repeat = {
  /** A frame with content that was read, and what it says. False: nothing is recognised by it. */
  learn(bytes: Buffer, from: number, to: number, chunk: Fields): boolean;
  /** Where the text of a frame begins that is like the one that was learnt last; null: it isn't. */
  textAt(bytes: Buffer, from: number, to: number): number | null;
  /** Of a recognised frame: where its text ends. */
  textEnd(to: number): number;
};

/** A frame, a character for each byte, and where in it the text stands. */
type Learnt = { frame: string; text_from: number; text_to: number };

const key = '"content":';
const quote = 0x22;
const backslash = 0x5c;
const space = 0x20;

export function createRepeat(): Repeat {
  return new LastOne();
}

/** A class, for each open answer has one. */
class LastOne implements Repeat {
  #learnt: Learnt | null = null;

  learn(bytes: Buffer, from: number, to: number, chunk: Fields): boolean {
    this.#learnt = learn(bytes, from, to, chunk);
    return this.#learnt !== null;
  }

  textAt(bytes: Buffer, from: number, to: number): number | null {
    if (this.#learnt === null) return null;
    const { frame, text_from, text_to } = this.#learnt;
    const start = from + text_from;
    const end = to - frame.length + text_to;
    if (end <= start) return null;
    if (!isLike(bytes, from, frame, 0, text_from)) return null;
    if (!isLike(bytes, end, frame, text_to, frame.length)) return null;
    return isPlain(bytes, start, end) ? start : null;
  }

  textEnd(to: number): number {
    const { frame, text_to } = this.#learnt ?? nothing;
    return to - frame.length + text_to;
  }
}

const nothing: Learnt = { frame: '', text_from: 0, text_to: 0 };

/** Null: another like it would say more than its text. */
function learn(bytes: Buffer, from: number, to: number, { choices }: Fields): Learnt | null {
  if (!Array.isArray(choices) || choices.length !== 1) return null;
  const [choice] = choices;
  if (!isFields(choice) || !isFields(choice.delta)) return null;
  const { delta } = choice;
  if (grows(choice, 'delta') || grows(delta, 'content')) return null;
  const frame = bytes.toString('latin1', from, to);
  const at = frame.indexOf(key);
  if (at < 0 || frame.indexOf(key, at + 1) >= 0) return null;
  const text_from = at + key.length + (frame.charCodeAt(at + key.length) === space ? 2 : 1);
  const text_to = frame.indexOf('"', text_from);
  if (frame.charCodeAt(text_from - 1) !== quote || text_to < 0) return null;
  if (!isPlain(bytes, from + text_from, from + text_to)) return null;
  const text = bytes.toString('utf8', from + text_from, from + text_to);
  return text === delta.content ? { frame, text_from, text_to } : null;
}

/** It says something that may not be said twice, beside one field. */
function grows(fields: Fields, but: string): boolean {
  for (const name of Object.keys(fields)) {
    const value = fields[name];
    if (name === but || value === null) continue;
    if (typeof value === 'object' || typeof value === 'string') return true;
  }
  return false;
}

/** What a frame says that is like one that said this, but for its text. */
export function chunkWith(chunk: Fields, text: string): Fields {
  const [choice] = Array.isArray(chunk.choices) ? chunk.choices : [];
  if (!isFields(choice) || !isFields(choice.delta)) return chunk;
  return { ...chunk, choices: [{ ...choice, delta: { ...choice.delta, content: text } }] };
}

/** Of so few bytes a look at each costs less than a call that compares them. */
function isLike(bytes: Buffer, at: number, frame: string, from: number, to: number): boolean {
  const ahead = at - from;
  for (let index = from; index < to; index += 1) {
    if (bytes[ahead + index] !== frame.charCodeAt(index)) return false;
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
