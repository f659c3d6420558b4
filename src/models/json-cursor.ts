/**
 * Reads JSON strictly from bytes, for headers and files that strangers wrote.
 *
 * `JSON.parse` takes the last of two equal names, rounds large numbers and recurses as deep as the
 * text says; other readers differ in each of these, and what two readers see differently can hide
 * something from one of them.
 *
 * Invariants: refuses a name that occurs twice in one object, text that is no UTF-8 or holds a lone
 * surrogate, nesting past the bound, and more values than the bound; linear in the text; objects
 * are Maps, so that no name means anything to JavaScript.
 */
import { isUtf8 } from 'node:buffer';
import { type ModelRule, must, Refusal } from './validate-refusal.ts';

export type JsonObject = ReadonlyMap<string, JsonValue>;
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

export type JsonOptions = {
  /** What is wrong when the bytes end before the value does. */
  end_rule: ModelRule;
  /** Takes numbers only where they are whole, from 0 to 2^53 - 1 and written plainly. */
  whole_numbers: boolean;
  depth: number;
  values: number;
  string_bytes: number;
};

/** Codes of the bytes that mean something. */
export const json_byte = {
  quote: 0x22,
  comma: 0x2c,
  colon: 0x3a,
  open_list: 0x5b,
  backslash: 0x5c,
  close_list: 0x5d,
  open_object: 0x7b,
  close_object: 0x7d,
} as const;

const spaces = new Set([0x20, 0x09, 0x0a, 0x0d]);
const words: readonly [string, JsonValue][] = [
  ['true', true],
  ['false', false],
  ['null', null],
];
const number_form = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const whole_form = /^(0|[1-9]\d{0,15})$/;
const number_signs = new Set(Buffer.from('+-.0123456789eE'));
/** A number longer than this is none that anybody meant. */
const number_bytes = 400;

export class JsonCursor {
  /** Where the next byte lies in the bytes given. */
  at = 0;
  /** How many values were read. */
  values = 0;
  readonly #bytes: Buffer;
  readonly #options: JsonOptions;

  constructor(bytes: Buffer, options: JsonOptions) {
    this.#bytes = bytes;
    this.#options = options;
  }

  /** The next byte that is no space, without taking it; undefined at the end. */
  peek(): number | undefined {
    while (spaces.has(this.#bytes[this.at] ?? -1)) this.at += 1;
    return this.#bytes[this.at];
  }

  /** Whether the next byte is this one; takes it if so. */
  takes(byte: number): boolean {
    if (this.peek() !== byte) return false;
    this.at += 1;
    return true;
  }

  /** Takes this byte, which must be next. */
  take(byte: number): void {
    if (!this.takes(byte)) this.#wrong(`"${String.fromCharCode(byte)}" is missing`);
  }

  string(limit = this.#options.string_bytes): string {
    this.take(json_byte.quote);
    const start = this.at;
    let escaped = false;
    for (;;) {
      const byte = this.#bytes[this.at];
      if (byte === undefined) this.#wrong('');
      if (byte === json_byte.quote) break;
      if (byte < 0x20) this.#wrong('a string holds a control character');
      if (byte === json_byte.backslash) {
        escaped = true;
        this.at += 1;
      }
      this.at += 1;
      must(this.at - start <= limit, 'json_string', () => `It has more than ${limit} bytes.`);
    }
    const end = this.at;
    this.at += 1;
    must(isUtf8(this.#bytes.subarray(start, end)), 'utf8', () => 'It is a string of JSON.');
    const text = this.#bytes.toString('utf8', start, end);
    return escaped ? this.#unescaped(text) : text;
  }

  value(depth = 0): JsonValue {
    must(depth <= this.#options.depth, 'json_depth');
    this.values += 1;
    must(this.values <= this.#options.values, 'json_size', () => 'It has too many values.');
    const byte = this.peek();
    if (byte === json_byte.quote) return this.string();
    if (byte === json_byte.open_object) return this.#object(depth);
    if (byte === json_byte.open_list) return this.#list(depth);
    for (const [word, value] of words) {
      if (this.#bytes.toString('latin1', this.at, this.at + word.length) !== word) continue;
      this.at += word.length;
      return value;
    }
    return this.#number();
  }

  #object(depth: number): JsonObject {
    const members = new Map<string, JsonValue>();
    this.take(json_byte.open_object);
    if (this.takes(json_byte.close_object)) return members;
    do {
      const name = this.string();
      must(!members.has(name), 'json_duplicate', () => `It is "${name.slice(0, 200)}".`);
      this.take(json_byte.colon);
      members.set(name, this.value(depth + 1));
    } while (this.takes(json_byte.comma));
    this.take(json_byte.close_object);
    return members;
  }

  #list(depth: number): JsonValue[] {
    const items: JsonValue[] = [];
    this.take(json_byte.open_list);
    if (this.takes(json_byte.close_list)) return items;
    do items.push(this.value(depth + 1));
    while (this.takes(json_byte.comma));
    this.take(json_byte.close_list);
    return items;
  }

  #number(): number {
    const start = this.at;
    while (number_signs.has(this.#bytes[this.at] ?? -1)) this.at += 1;
    if (this.at === this.#bytes.length) this.#wrong('');
    if (this.at === start) this.#wrong('a value is missing');
    must(this.at - start <= number_bytes, 'json_number', () => 'It has too many digits.');
    const text = this.#bytes.toString('latin1', start, this.at);
    if (!number_form.test(text)) this.#wrong(`"${text.slice(0, 40)}" is no number`);
    const value = Number(text);
    const fits = whole_form.test(text) && Number.isSafeInteger(value);
    must(fits || !this.#options.whole_numbers, 'json_number', () => `It is ${text.slice(0, 40)}.`);
    return value;
  }

  /** The text without its escapes, which JSON itself reads. */
  #unescaped(text: string): string {
    let plain = '';
    try {
      plain = JSON.parse(`"${text}"`);
    } catch {
      this.#wrong('a string holds an unknown escape');
    }
    must(plain.isWellFormed(), 'utf8', () => 'A string of JSON holds half a character.');
    return plain;
  }

  /** Ends the walk: what is wrong here, or that the bytes ended. */
  #wrong(what: string): never {
    if (this.at >= this.#bytes.length) throw new Refusal(this.#options.end_rule);
    throw new Refusal('json_syntax', `At byte ${this.at} of its text, ${what}.`);
  }
}
