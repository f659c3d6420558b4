/**
 * What the settings must say so that an engine neither crashes nor misreads: bounds of the
 * architecture's numbers, and the agreement between vocabulary, special tokens and tensors.
 *
 * Invariants: pure; every number that the engine sizes a table by is bounded here.
 */
import { gguf_limits as limits } from './gguf-limits.ts';
import { type GgufMetadata, type GgufValue, kinds_key, scores_key } from './gguf-metadata.ts';
import { settingsOf } from './gguf-settings.ts';
import type { GgufTensors } from './gguf-tensors.ts';
import { gguf_value_type as types } from './gguf-types.ts';
import { must } from './validate-refusal.ts';

/** How the vectors of a text's tokens become the one that is its embedding, or its score. */
export const poolings = ['mean', 'cls', 'last', 'rank'] as const;
export type Pooling = (typeof poolings)[number];

export type ModelFacts = {
  architecture: string;
  /** Of a model that answers with embeddings, or (`rank`) scores; null where it writes. */
  pooling: Pooling | null;
  context_length: number;
  block_count: number;
  embedding_length: number;
  /** The largest of any layer; 0 where the architecture has no attention. */
  head_count: number;
  head_count_kv: number;
  vocabulary_size: number;
};

export type Shard = { index: number; count: number };

const default_alignment = 32;

/** Kinds of GGUF file that other loaders, with weaker checks, read beside a model. */
const companions = new Set(['clip', 'mmproj', 'controlvector', 'imatrix', 'adapter']);

/** Vocabularies in which the engine aborts on a token of the kind of bytes. */
const without_bytes = new Set(['gpt2', 'bert', 'rwkv']);

/** Special tokens an engine acts upon. A padding token may be absent or out of range. */
const special_tokens = ['bos', 'eos', 'eot', 'eom', 'unknown'];

export function alignmentOf({ values }: GgufMetadata): number {
  const value = values.get('general.alignment');
  if (value === undefined) return default_alignment;
  must(value.kind === 'number' && value.type === types.u32, 'key_type', () => 'The alignment.');
  const alignment = value.value;
  must(
    alignment >= limits.alignment_least &&
      alignment <= limits.alignment &&
      Number.isInteger(Math.log2(alignment)),
    'alignment',
    () => `It is ${alignment}.`,
  );
  return alignment;
}

/** The part of a split model, or null for a whole one. */
export function shardOf({ values }: GgufMetadata): Shard | null {
  const count = wholeNumber(values.get('split.count'));
  const index = wholeNumber(values.get('split.no'));
  if (count === undefined && index === undefined) return null;
  const fits =
    count !== undefined &&
    index !== undefined &&
    count >= 1 &&
    count <= limits.shards &&
    index >= 0 &&
    index < count;
  must(fits, 'shard', () => `It says part ${index} of ${count}.`);
  return count === 1 ? null : { index, count };
}

/** How many tensors all parts of a split model have, where it says so. */
export function splitTensors({ values }: GgufMetadata): number | null {
  return wholeNumber(values.get('split.tensors.count')) ?? null;
}

/** The facts of a model whose settings hold together. */
export function checkModel(
  metadata: GgufMetadata,
  tensors: GgufTensors,
  shard: Shard | null,
): ModelFacts {
  if (shard !== null && shard.index > 0 && !metadata.values.has('general.architecture')) {
    return {
      architecture: '',
      pooling: null,
      context_length: 0,
      block_count: 0,
      embedding_length: 0,
      head_count: 0,
      head_count_kv: 0,
      vocabulary_size: 0,
    };
  }
  const architecture = checkArchitecture(metadata);
  const settings = settingsOf(metadata, architecture);
  const vocabulary_size = checkVocabulary(metadata);
  checkSpecialTokens(metadata, vocabulary_size);
  const { not_a_weight } = tensors;
  must(
    not_a_weight === null || !settings.transformer,
    'weight_type',
    () => `It is "${not_a_weight}".`,
  );
  if (tensors.embedding !== null && settings.transformer) {
    const [width, rows] = tensors.embedding;
    must(
      width === settings.facts.embedding_length && rows === vocabulary_size,
      'embedding_shape',
      () => `It is ${tensors.embedding?.join(' x ')}.`,
    );
  }
  return { architecture, ...settings.facts, vocabulary_size };
}

function checkArchitecture({ values }: GgufMetadata): string {
  const architecture = wordOf(values, 'general.architecture');
  const type = values.has('general.type') ? wordOf(values, 'general.type') : 'model';
  must(/^[a-z0-9][a-z0-9._-]*$/i.test(architecture), 'architecture');
  must(
    type === 'model' && !companions.has(architecture),
    'not_a_language_model',
    () => `It says that it is "${type === 'model' ? architecture : type}".`,
  );
  return architecture;
}

function checkVocabulary({ values, vocabulary, byte_kind }: GgufMetadata): number {
  const kind = wordOf(values, 'tokenizer.ggml.model');
  const tokens = values.get('tokenizer.ggml.tokens');
  must(tokens !== undefined, 'vocabulary', () => 'It has no tokens.');
  must(
    tokens.kind === 'array' && tokens.element_type === types.string && vocabulary !== null,
    'token_array_type',
    () => 'The tokens must be strings.',
  );
  must(tokens.count >= 1, 'vocabulary', () => 'It has no tokens.');
  for (const [key, type, name] of [
    [scores_key, types.f32, '32-bit floats'],
    [kinds_key, types.i32, '32-bit integers'],
  ] as const) {
    const array = values.get(key);
    if (array === undefined) continue;
    must(
      array.kind === 'array' && array.element_type === type,
      'token_array_type',
      () => `"${key}" must hold ${name}.`,
    );
    must(
      array.count === tokens.count,
      'token_arrays',
      () => `"${key}" has ${array.count} for ${tokens.count} tokens.`,
    );
  }
  must(!vocabulary.duplicate, 'duplicate_token');
  must(!byte_kind || !without_bytes.has(kind), 'byte_kind', () => `It is "${kind}".`);
  // Only these two vocabularies spell bytes so; in others the text is a token like any other.
  const has_bytes = kind === 'llama' || kind === 'plamo2';
  const bad = vocabulary.bad_byte_token;
  must(!has_bytes || bad === null, 'byte_token', () => `It is "${bad}".`);
  must(!has_bytes || vocabulary.bytes === 256, 'byte_tokens', () => `It has ${vocabulary.bytes}.`);
  return tokens.count;
}

function checkSpecialTokens({ values }: GgufMetadata, vocabulary_size: number): void {
  for (const name of special_tokens) {
    const key = `tokenizer.ggml.${name}_token_id`;
    const value = values.get(key);
    if (value === undefined) continue;
    must(value.kind === 'number' && value.type === types.u32, 'key_type', () => `It is "${key}".`);
    must(
      value.value < vocabulary_size,
      'token_id',
      () => `"${key}" is ${value.value} of ${vocabulary_size}.`,
    );
  }
}

function wordOf(values: ReadonlyMap<string, GgufValue>, key: string): string {
  const value = values.get(key);
  must(value !== undefined, 'required_key', () => `It is "${key}".`);
  must(value.kind === 'string' && value.text !== null, 'key_type', () => `It is "${key}".`);
  return value.text;
}

function wholeNumber(value: GgufValue | undefined): number | undefined {
  if (value === undefined) return undefined;
  must(
    value.kind === 'number' && Number.isInteger(value.value),
    'key_type',
    () => 'It is a number of the split.',
  );
  return value.value;
}
