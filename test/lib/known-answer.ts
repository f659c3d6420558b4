/**
 * Two synthetic language models that a real llama.cpp loads, for tests that need exact answers.
 *
 * The known-answer model's blocks are all zeros, so that a token's embedding (one-hot) reaches the
 * output unchanged, and the output matrix is a table "which token follows which": the engine says
 * the same sentence to every prompt, at any sane temperature. The slow model does the same with an
 * endless cycle and many blocks, so that it never ends by itself and takes long for each token.
 *
 * Invariants: the same bytes every time; both files pass the validator.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { entry, type GgufEntry, type GgufTensor, ggufFile } from './gguf-writer.ts';

const sentence = 'Einsora runs this tiny model on your own machine.';
const end_of_turn = '<|im_end|>';
const chat_template =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] " +
  "+ '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/** Logit of the wanted successor; the others have 0, so a sampler at 0.8 has no doubt. */
const certain = 60;

export type KnownAnswer = {
  /** The whole answer, to any prompt. */
  sentence: string;
  /** Tokens the engine reports for it: one for each word, and the end of the turn. */
  completion_tokens: number;
};

/** Writes the known-answer model, about 2.6 MB. */
export function writeKnownAnswerModel(path: string): KnownAnswer {
  const words = sentence.split(' ').map((word, index) => (index === 0 ? word : `▁${word}`));
  writeFileSync(
    path,
    ggufFile(
      successorModel({ name: 'Einsora known answer', words, ends: true, width: 384, blocks: 1 }),
    ),
  );
  return { sentence, completion_tokens: words.length + 1 };
}

/** Writes a model that gives every text the same embedding of length 384: 1, then nothing but 0. */
export function writeEmbeddingModel(path: string): void {
  const model = successorModel({
    ...{ name: 'Einsora embedding', words: ['▁one'], ends: true, width: 384, blocks: 1 },
  });
  const pooling = entry.u32('llama.pooling_type', 3);
  writeFileSync(path, ggufFile({ ...model, entries: [...model.entries, pooling] }));
}

/** Writes the slow model; its answer "on and on and on ..." ends only with the context. */
export function writeSlowModel(path: string): void {
  const words = ['▁on', '▁and'];
  writeFileSync(
    path,
    ggufFile(successorModel({ name: 'Einsora slow', words, ends: false, width: 64, blocks: 512 })),
  );
}

/** Writes a model that counts to forty and takes its time for it: some milliseconds a word. */
export function writeCountingModel(path: string): KnownAnswer {
  const words = Array.from({ length: 40 }, (_, index) => `${index === 0 ? '' : '▁'}word${index}`);
  writeFileSync(
    path,
    ggufFile(successorModel({ name: 'Einsora counts', words, ends: true, width: 64, blocks: 64 })),
  );
  const sentence = words.join('').replaceAll('▁', ' ');
  return { sentence, completion_tokens: words.length + 1 };
}

/** Writes a model that calls the tool `weather` for Paris, whatever it is asked. */
export function writeToolModel(path: string): void {
  const call = ['▁"weather",', '▁"arguments":', '▁{"place":', '▁"Paris"}}'];
  const words = ['<tool_call>', '\n{"name":', ...call, '\n</tool_call>'];
  const template = readFileSync(join(import.meta.dirname, 'honest/templates/qwen3.jinja'), 'utf8');
  const said = { name: 'Einsora calls', words, ends: true, width: 384, blocks: 1, template };
  writeFileSync(path, ggufFile(successorModel(said)));
}

export type SuccessorModel = {
  name: string;
  /** Tokens said one after the other, in SentencePiece spelling. */
  words: readonly string[];
  /** Whether the last word is followed by the end of the turn, or by the first word again. */
  ends: boolean;
  /** Embedding length; at least one more than there are words. */
  width: number;
  blocks: number;
  /** Of its chat; a plain one where left out. */
  template?: string;
};

/** The file's content, for tests that want to change it before it is written. */
export function successorModel(model: SuccessorModel): {
  entries: GgufEntry[];
  tensors: GgufTensor[];
} {
  const tokens = vocabulary(model.words);
  return {
    entries: metadata(model, tokens),
    tensors: [...edges(model, tokens), ...blocks(model.width, model.blocks)],
  };
}

type Token = { text: string; kind: 1 | 2 | 3 | 6 };

/** Unknown, start, end, the two chat marks, 256 bytes, printable characters, then the words. */
function vocabulary(words: readonly string[]): Token[] {
  const special = ['<s>', '</s>', '<|im_start|>', end_of_turn];
  const hex = (byte: number) => byte.toString(16).toUpperCase().padStart(2, '0');
  const printable = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index));
  return [
    { text: '<unk>', kind: 2 },
    ...special.map((text): Token => ({ text, kind: 3 })),
    ...Array.from({ length: 256 }, (_, byte): Token => ({ text: `<0x${hex(byte)}>`, kind: 6 })),
    ...['▁', ...printable, ...words].map((text): Token => ({ text, kind: 1 })),
  ];
}

function metadata(model: SuccessorModel, tokens: readonly Token[]): GgufEntry[] {
  const id = (text: string) => tokens.findIndex((token) => token.text === text);
  return [
    entry.string('general.architecture', 'llama'),
    entry.string('general.name', model.name),
    entry.u32('llama.block_count', model.blocks),
    entry.u32('llama.context_length', 32_768),
    entry.u32('llama.embedding_length', model.width),
    entry.u32('llama.feed_forward_length', 32),
    entry.u32('llama.attention.head_count', 4),
    entry.u32('llama.attention.head_count_kv', 1),
    entry.f32('llama.attention.layer_norm_rms_epsilon', 1e-5),
    entry.u32('llama.rope.dimension_count', model.width / 4),
    entry.string('tokenizer.ggml.model', 'llama'),
    entry.strings(
      'tokenizer.ggml.tokens',
      tokens.map((token) => token.text),
    ),
    // Negative scores by position: no two pieces ever merge into a word of the sentence.
    entry.f32s(
      'tokenizer.ggml.scores',
      tokens.map((_, index) => -index),
    ),
    entry.i32s(
      'tokenizer.ggml.token_type',
      tokens.map((token) => token.kind),
    ),
    entry.u32('tokenizer.ggml.unknown_token_id', 0),
    entry.u32('tokenizer.ggml.bos_token_id', id('<s>')),
    entry.u32('tokenizer.ggml.eos_token_id', id(end_of_turn)),
    entry.bool('tokenizer.ggml.add_bos_token', 1),
    entry.bool('tokenizer.ggml.add_space_prefix', 0),
    entry.string('tokenizer.chat_template', model.template ?? chat_template),
  ];
}

/**
 * Embedding, output norm and successor table. Dimension 0 stands for every token that is not one of
 * the words; the word with index i has dimension i + 1.
 */
function edges(model: SuccessorModel, tokens: readonly Token[]): GgufTensor[] {
  const { words, width, ends } = model;
  const first_word = tokens.length - words.length;
  const embedding = new Float32Array(width * tokens.length);
  const output = new Float32Array(width * tokens.length);
  // The norm scales a one-hot vector by the root of its width.
  const weight = certain / Math.sqrt(width);
  tokens.forEach((_, token) => {
    const dimension = Math.max(0, token - first_word + 1);
    embedding[token * width + dimension] = 1;
  });
  const end = tokens.findIndex((token) => token.text === end_of_turn);
  for (let dimension = 0; dimension <= words.length; dimension += 1) {
    const last = dimension === words.length;
    const after_last = ends ? end : first_word;
    output[(last ? after_last : first_word + dimension) * width + dimension] = weight;
  }
  const dims = [width, tokens.length];
  return [
    { name: 'token_embd.weight', dims, data: bytesOf(embedding) },
    { name: 'output_norm.weight', dims: [width], data: bytesOf(ones(width)) },
    { name: 'output.weight', dims, data: bytesOf(output) },
  ];
}

/** Blocks of zeros: what goes in comes out, by the residual path. */
function blocks(width: number, count: number): GgufTensor[] {
  return Array.from({ length: count }, (_, index) => {
    const tensor = (name: string, ...dims: number[]): GgufTensor => ({
      name: `blk.${index}.${name}.weight`,
      dims,
    });
    const norm = (name: string): GgufTensor => ({
      ...tensor(name, width),
      data: bytesOf(ones(width)),
    });
    return [
      norm('attn_norm'),
      tensor('attn_q', width, width),
      tensor('attn_k', width, width / 4),
      tensor('attn_v', width, width / 4),
      tensor('attn_output', width, width),
      norm('ffn_norm'),
      tensor('ffn_gate', width, 32),
      tensor('ffn_up', width, 32),
      tensor('ffn_down', 32, width),
    ];
  }).flat();
}

function ones(length: number): Float32Array {
  return new Float32Array(length).fill(1);
}

function bytesOf(values: Float32Array): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}
