/**
 * The architecture's own numbers ("llama.block_count" and its like), bounded.
 *
 * Invariants: pure; no number that passes makes the engine abort on an assertion known to us.
 */
import { gguf_limits as limits } from './gguf-limits.ts';
import type { GgufMetadata, GgufValue } from './gguf-metadata.ts';
import { type ModelFacts, poolings } from './gguf-rules.ts';
import { gguf_value_type as types } from './gguf-types.ts';
import { type ModelRule, must } from './validate-refusal.ts';

export type Settings = {
  facts: Omit<ModelFacts, 'architecture' | 'vocabulary_size'>;
  /** Whether the stricter rules for plain transformers were applied. */
  transformer: boolean;
};

/** Architectures whose attention and norm are those of Llama, so that more can be demanded. */
const transformers = new Set(
  (
    'llama llama4 mistral3 qwen2 qwen2moe qwen3 qwen3moe gemma gemma2 gemma3 phi3 olmo olmo2 ' +
    'granite smollm3 minicpm internlm2 baichuan exaone xverse'
  ).split(' '),
);

const rope_scalings = ['none', 'linear', 'yarn', 'longrope'];

/** Other sizes: name, least, most. Scalars or one value for each layer. */
const sizes: readonly [name: string, least: number, most: number][] = [
  ['feed_forward_length', 0, limits.feed_forward],
  ['expert_feed_forward_length', 0, limits.feed_forward],
  ['attention.key_length', 1, limits.head_length],
  ['attention.value_length', 1, limits.head_length],
  ['rope.dimension_count', 0, limits.head_length],
  ['vocab_size', 1, limits.vocabulary],
];

export function settingsOf(metadata: GgufMetadata, architecture: string): Settings {
  const read = new SettingReader(metadata, architecture);
  const block_count = read.required('block_count', 1, limits.blocks, 'block_count');
  const context_length = read.required('context_length', 1, limits.context, 'context_length');
  const embedding_length = read.required('embedding_length', 1, limits.embedding);
  const transformer = transformers.has(architecture);
  for (const [name, least, most] of sizes) read.all(name, block_count, least, most);
  read.optional('nextn_predict_layers', 0, block_count);
  checkRopeScaling(read);
  checkFloats(metadata, architecture);
  checkEpsilon(read, transformer);
  checkExperts(read);
  const heads = read.all('attention.head_count', block_count, 0, limits.heads);
  const kv = read.all('attention.head_count_kv', block_count, 0, limits.heads);
  if (transformer) checkHeads(read, heads, kv, embedding_length);
  const head_count = Math.max(0, ...heads);
  const head_count_kv = kv.length === 0 ? head_count : Math.max(...kv);
  // 0 says that there is none.
  const pooling = poolings[(read.optional('pooling_type', 0, poolings.length) ?? 0) - 1] ?? null;
  return {
    facts: { pooling, context_length, block_count, embedding_length, head_count, head_count_kv },
    transformer,
  };
}

/** Reads unsigned 32-bit settings, the only type that engines take for these. */
class SettingReader {
  readonly #values: ReadonlyMap<string, GgufValue>;
  readonly #architecture: string;

  constructor(metadata: GgufMetadata, architecture: string) {
    this.#values = metadata.values;
    this.#architecture = architecture;
  }

  value(name: string): GgufValue | undefined {
    return this.#values.get(`${this.#architecture}.${name}`);
  }

  required(name: string, least: number, most: number, rule?: ModelRule): number {
    const value = this.optional(name, least, most, rule);
    must(value !== undefined, 'required_key', () => `It is "${this.#architecture}.${name}".`);
    return value;
  }

  optional(name: string, least: number, most: number, rule?: ModelRule): number | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    must(value.kind === 'number' && value.type === types.u32, 'key_type', () => `"${name}".`);
    this.#bounded(name, value.value, least, most, rule);
    return value.value;
  }

  /** One value, or one for each layer; empty when there is none. */
  all(name: string, layers: number, least: number, most: number): readonly number[] {
    const value = this.value(name);
    if (value?.kind !== 'array') {
      const scalar = this.optional(name, least, most);
      return scalar === undefined ? [] : [scalar];
    }
    const whole = value.element_type === types.u32 || value.element_type === types.i32;
    must(whole && value.items !== null, 'key_type', () => `It is "${name}".`);
    must(value.count >= layers, 'layer_array', () => `"${name}" has ${value.count} of ${layers}.`);
    for (const item of value.items) this.#bounded(name, item, Math.min(least, 0), most);
    return value.items;
  }

  #bounded(name: string, value: number, least: number, most: number, rule?: ModelRule): void {
    must(
      value >= least && value <= most,
      rule ?? 'setting_bounds',
      () => `"${name}" is ${value}; it may be ${least} to ${most}.`,
    );
  }
}

/** The engine asserts that it knows the word. */
function checkRopeScaling(read: SettingReader): void {
  const value = read.value('rope.scaling.type');
  if (value === undefined) return;
  must(value.kind === 'string' && value.text !== null, 'key_type', () => '"rope.scaling.type".');
  const { text } = value;
  must(rope_scalings.includes(text), 'rope_scaling', () => `It is "${text}".`);
}

/** No honest setting is infinite or not a number, and engines compute with them unasked. */
function checkFloats({ values }: GgufMetadata, architecture: string): void {
  for (const [key, value] of values) {
    if (value.kind !== 'number' || !key.startsWith(`${architecture}.`)) continue;
    if (value.type !== types.f32 && value.type !== types.f64) continue;
    // The epsilon has a rule of its own, which says what it does to the engine.
    if (key.endsWith('_epsilon')) continue;
    must(Number.isFinite(value.value), 'float_value', () => `"${key}" is ${value.value}.`);
  }
}

function checkEpsilon(read: SettingReader, transformer: boolean): void {
  const names = ['attention.layer_norm_rms_epsilon', 'attention.layer_norm_epsilon'];
  const found = names.filter((name) => read.value(name) !== undefined);
  must(!transformer || found.length > 0, 'required_key', () => `It is "${names[0]}".`);
  for (const name of found) {
    const value = read.value(name);
    must(value?.kind === 'number' && value.type === types.f32, 'key_type', () => `"${name}".`);
    must(value.value > 0 && value.value <= 1, 'epsilon', () => `It is ${value.value}.`);
  }
}

/** The engine asserts each of these. */
function checkExperts(read: SettingReader): void {
  const count = read.optional('expert_count', 0, limits.experts, 'expert_count') ?? 0;
  const used = read.optional('expert_used_count', 0, count, 'expert_count') ?? 0;
  must(count === 0 || used > 0, 'expert_count', () => `It uses ${used} of ${count}.`);
  const most = Math.max(0, count - 1);
  const groups = read.optional('expert_group_count', 0, most, 'expert_count') ?? 0;
  const group_used = read.optional('expert_group_used_count', 0, groups, 'expert_count') ?? 0;
  if (groups <= 1) return;
  must(
    count % groups === 0 && group_used > 0 && group_used < groups,
    'expert_count',
    () => `It has ${groups} groups and uses ${group_used}.`,
  );
}

function checkHeads(
  read: SettingReader,
  heads: readonly number[],
  kv: readonly number[],
  embedding_length: number,
): void {
  must(heads.length > 0, 'required_key', () => 'It is "attention.head_count".');
  const [count = 0, kv_count = count] = [heads[0], kv[0]];
  // One number for each layer differs by design, down to none at all.
  if (heads.length > 1 || kv.length > 1) return;
  const key_length = read.optional('attention.key_length', 1, limits.head_length);
  must(
    count >= 1 && kv_count >= 1 && count % kv_count === 0,
    'head_count',
    () => `It has ${count} heads and ${kv_count} of keys and values.`,
  );
  must(
    key_length !== undefined || embedding_length % count === 0,
    'head_count',
    () => `${embedding_length} does not divide by ${count} heads.`,
  );
  const length = key_length ?? embedding_length / count;
  const turned = read.optional('rope.dimension_count', 0, limits.head_length) ?? length;
  must(
    turned <= length && turned % 2 === 0,
    'head_count',
    () => `Rotation turns ${turned} of ${length} dimensions.`,
  );
}
