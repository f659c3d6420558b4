/**
 * Walks the metadata section: keys and values, of which only what the rules ask about is kept.
 *
 * Invariants: every entry is checked for form, whoever reads it; memory is bounded by the number of
 * entries, not by their size; chat templates and tokens are checked while they pass and dropped.
 */
import { gguf_limits as limits } from './gguf-limits.ts';
import { checkTemplate } from './gguf-template.ts';
import { gguf_value_type as types, valueBytes } from './gguf-types.ts';
import { type VocabularyScan, VocabularyScanner } from './gguf-vocabulary.ts';
import { chunk_bytes, type ModelReader } from './validate-reader.ts';
import { isPlain, must, Refusal } from './validate-refusal.ts';

export type GgufValue =
  | { kind: 'number'; type: number; value: number }
  | { kind: 'bool'; value: boolean }
  /** `text` is null where nobody asks for it. */
  | { kind: 'string'; text: string | null }
  /** `items` is null for strings and for arrays longer than there can be blocks. */
  | { kind: 'array'; element_type: number; count: number; items: readonly number[] | null };

export type GgufMetadata = {
  values: ReadonlyMap<string, GgufValue>;
  /** What the tokens' own text shows; null without an array of tokens. */
  vocabulary: VocabularyScan | null;
  /** Whether a token says that it stands for a byte. */
  byte_kind: boolean;
  chat_template: boolean;
};

const kept_strings: ReadonlyMap<string, number> = new Map([
  ['general.architecture', limits.word_bytes],
  ['general.type', limits.word_bytes],
  ['general.name', limits.name_bytes],
  ['tokenizer.ggml.model', limits.word_bytes],
]);
const rope_scaling_key = '.rope.scaling.type';
export const tokens_key = 'tokenizer.ggml.tokens';
export const scores_key = 'tokenizer.ggml.scores';
export const kinds_key = 'tokenizer.ggml.token_type';
const template_key = 'tokenizer.chat_template';

/** Kinds of tokens: undefined, normal, unknown, control, user-defined, unused, byte. */
const byte_kind = 6;

type Walk = {
  values: Map<string, GgufValue>;
  vocabulary: VocabularyScan | null;
  byte_kind: boolean;
};

export async function readMetadata(reader: ModelReader, entries: number): Promise<GgufMetadata> {
  const walk: Walk = { values: new Map(), vocabulary: null, byte_kind: false };
  for (let index = 0; index < entries; index += 1) {
    const key = await readKey(reader, index);
    must(!walk.values.has(key), 'duplicate_key', () => `It is "${key}".`);
    await reader.need(4);
    walk.values.set(key, await readValue(reader, key, reader.u32(), walk));
    must(reader.offset <= limits.header_bytes, 'header_size');
  }
  const chat_template = walk.values.get(template_key)?.kind === 'string';
  return { ...walk, chat_template };
}

async function readKey(reader: ModelReader, index: number): Promise<string> {
  await reader.need(8);
  const length = reader.u64();
  must(length <= limits.key_bytes, 'key', () => `It is key ${index}.`);
  await reader.need(length);
  const key = reader.text(length, `key ${index}`);
  must(isPlain(key), 'key', () => `It is key ${index}.`);
  return key;
}

async function readValue(
  reader: ModelReader,
  key: string,
  type: number,
  walk: Walk,
): Promise<GgufValue> {
  if (type === types.string) return readString(reader, key);
  if (type === types.array) return readArray(reader, key, walk);
  const bytes = valueBytes(type);
  must(bytes !== undefined, 'value_type', () => `"${key}" has type ${type}.`);
  await reader.need(bytes);
  const value = readNumber(reader, type);
  if (type !== types.bool) return { kind: 'number', type, value };
  must(value <= 1, 'bool_value', () => `"${key}" is ${value}.`);
  return { kind: 'bool', value: value === 1 };
}

/** One value of a fixed-size type; the bytes must be there. */
function readNumber(reader: ModelReader, type: number): number {
  switch (type) {
    case types.i8:
      return (reader.u8() << 24) >> 24;
    case types.u16:
      return reader.u16();
    case types.i16:
      return (reader.u16() << 16) >> 16;
    case types.u32:
      return reader.u32();
    case types.i32:
      return reader.u32() | 0;
    case types.f32:
      return reader.f32();
    case types.u64:
      return reader.u64();
    case types.i64:
      return reader.i64();
    case types.f64:
      return reader.f64();
    default:
      return reader.u8();
  }
}

async function readString(reader: ModelReader, key: string): Promise<GgufValue> {
  await reader.need(8);
  const length = reader.u64();
  if (key.startsWith(template_key)) {
    must(length <= limits.template_bytes, 'template_size', () => `It has ${length} bytes.`);
    await reader.need(length);
    checkTemplate(reader.text(length, `"${key}"`));
    return { kind: 'string', text: null };
  }
  const limit = key.endsWith(rope_scaling_key) ? limits.word_bytes : kept_strings.get(key);
  must(length <= (limit ?? limits.header_bytes), 'string_size', () => `"${key}" has ${length}.`);
  if (limit === undefined) {
    reader.skip(length);
    return { kind: 'string', text: null };
  }
  await reader.need(length);
  return { kind: 'string', text: reader.text(length, `"${key}"`) };
}

async function readArray(reader: ModelReader, key: string, walk: Walk): Promise<GgufValue> {
  await reader.need(12);
  const element_type = reader.u32();
  const count = reader.u64();
  must(count <= limits.array_items, 'array_size', () => `"${key}" says ${count} items.`);
  if (element_type === types.string) {
    await readStrings(reader, key, count, walk);
    return { kind: 'array', element_type, count, items: null };
  }
  const bytes = valueBytes(element_type);
  must(bytes !== undefined, 'array_type', () => `"${key}" has element type ${element_type}.`);
  must(count * bytes <= reader.bytes_left, 'truncated', () => `It ends inside "${key}".`);
  const items = await readItems(reader, key, element_type, bytes, count, walk);
  return { kind: 'array', element_type, count, items };
}

async function readStrings(reader: ModelReader, key: string, count: number, walk: Walk) {
  // Each string takes at least the eight bytes of its length.
  must(count * 8 <= reader.bytes_left, 'truncated', () => `It ends inside "${key}".`);
  if (key !== tokens_key) {
    const too_long = new Refusal('string_size', `It is in the array "${key}".`);
    await reader.strings(count, limits.array_string_bytes, too_long, () => {});
    return;
  }
  must(count <= limits.vocabulary, 'vocabulary', () => `It has ${count} tokens.`);
  const scanner = new VocabularyScanner(count);
  await reader.strings(count, limits.token_bytes, new Refusal('token_size'), (bytes, start, end) =>
    scanner.token(bytes, start, end),
  );
  walk.vocabulary = scanner.result();
}

/** Keeps a short array, checks the two of the vocabulary, passes over any other. */
async function readItems(
  reader: ModelReader,
  key: string,
  type: number,
  bytes: number,
  count: number,
  walk: Walk,
): Promise<readonly number[] | null> {
  if (key === scores_key || key === kinds_key) {
    for (let left = count; left > 0; ) {
      const some = Math.min(left, Math.floor(chunk_bytes / bytes));
      await reader.need(some * bytes);
      if (key === scores_key) checkScores(reader, type, some);
      else if (checkKinds(reader, type, some)) walk.byte_kind = true;
      left -= some;
    }
    return null;
  }
  if (count > limits.kept_items) {
    reader.skip(count * bytes);
    return null;
  }
  await reader.need(count * bytes);
  return Array.from({ length: count }, () => readNumber(reader, type));
}

function checkScores(reader: ModelReader, type: number, count: number): void {
  for (let index = 0; index < count; index += 1) {
    if (Number.isNaN(readNumber(reader, type))) throw new Refusal('token_score');
  }
}

/** Whether one of them is the kind of bytes. */
function checkKinds(reader: ModelReader, type: number, count: number): boolean {
  let has_bytes = false;
  for (let index = 0; index < count; index += 1) {
    const kind = readNumber(reader, type);
    if (!(kind >= 0 && kind <= byte_kind)) throw new Refusal('token_kind', `It is ${kind}.`);
    if (kind === byte_kind) has_bytes = true;
  }
  return has_bytes;
}
