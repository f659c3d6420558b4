/**
 * How long the validators take for a 10 GB model, and whether they are right about the battery.
 *
 * Invariants: the model is a sparse file with a realistic header, so that it takes no room; the
 * validator and its physical limit (reading the same header bytes raw) take turns in one run. The
 * files are in the page cache for both, as they are after a download.
 */
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../src/lib/clock.ts';
import { validateModel } from '../src/models/validate.ts';
import { battery } from '../test/lib/gguf-battery.ts';
import {
  entry,
  type GgufFile,
  type GgufTensor,
  ggufDataBytes,
  ggufHeader,
} from '../test/lib/gguf-writer.ts';

export type ValidateResult = Record<string, number | null>;

/** Prints a table and returns its figures; `quick` takes fewer rounds. */
export async function bench({ quick }: { quick: boolean }): Promise<ValidateResult> {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-bench-'));
  try {
    const large = await measureLarge(join(folder, 'large.gguf'), quick ? 5 : 15);
    const checked = await checkBattery(join(folder, 'battery.gguf'));
    const result: ValidateResult = { ...large, safetensors_10gb_ms: null, ...checked };
    printTable(result);
    return result;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function measureLarge(path: string, runs: number): Promise<ValidateResult> {
  const file = largeModel();
  const header = ggufHeader(file);
  writeFileSync(path, header);
  truncateSync(path, header.length + ggufDataBytes(file));
  const first_ms = await timed(() => expectValid(path));
  const validated: number[] = [];
  const raw: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    raw.push(await timed(() => readRaw(path, header.length)));
    validated.push(await timed(() => expectValid(path)));
  }
  return {
    gguf_10gb_ms: median(validated),
    gguf_10gb_min_ms: Math.min(...validated),
    gguf_10gb_max_ms: Math.max(...validated),
    gguf_10gb_first_ms: first_ms,
    gguf_raw_read_ms: median(raw),
    gguf_raw_read_min_ms: Math.min(...raw),
    gguf_raw_read_max_ms: Math.max(...raw),
    gguf_header_mb: header.length / 1e6,
    gguf_file_gb: (header.length + ggufDataBytes(file)) / 1e9,
    runs,
  };
}

async function expectValid(path: string): Promise<void> {
  const verdict = await validateModel(path);
  if (!verdict.ok) throw new Error(`the large model was refused: ${verdict.message}`);
}

/** The least that any walk of this header costs: its bytes, in chunks of the same size. */
async function readRaw(path: string, bytes: number): Promise<void> {
  const file = await open(path, 'r');
  const chunk = Buffer.allocUnsafeSlow(1 << 20);
  for (let at = 0; at < bytes; at += chunk.length) {
    await file.read(chunk, 0, Math.min(chunk.length, bytes - at), at);
  }
  await file.close();
}

async function checkBattery(path: string): Promise<ValidateResult> {
  const files = battery();
  let wrong = 0;
  for (const { name, rule, bytes } of files) {
    writeFileSync(path, bytes);
    const verdict = await validateModel(path);
    const found = verdict.ok ? null : verdict.rule;
    if (found === rule) continue;
    wrong += 1;
    console.log(`wrong about "${name}": ${found ?? 'accepted'}, not ${rule ?? 'accepted'}`);
  }
  return { battery_files: files.length, battery_wrong: wrong };
}

/** A header like that of a model of 5 billion parameters: 291 tensors, 150,000 tokens, merges. */
function largeModel(): GgufFile {
  const [blocks, width, inner, count] = [32, 4096, 6656, 150_000];
  const half = (name: string, ...dims: number[]): GgufTensor => ({
    name: `${name}.weight`,
    dims,
    type: 1,
    bytes: 2 * dims.reduce((product, dim) => product * dim, 1),
  });
  const tensors = Array.from({ length: blocks }, (_, block) => [
    half(`blk.${block}.attn_norm`, width),
    half(`blk.${block}.attn_q`, width, width),
    half(`blk.${block}.attn_k`, width, width / 4),
    half(`blk.${block}.attn_v`, width, width / 4),
    half(`blk.${block}.attn_output`, width, width),
    half(`blk.${block}.ffn_norm`, width),
    half(`blk.${block}.ffn_gate`, width, inner),
    half(`blk.${block}.ffn_up`, width, inner),
    half(`blk.${block}.ffn_down`, inner, width),
  ]).flat();
  const token = (index: number) => `Ġ${index.toString(36).padStart(2 + (index % 9), '_')}`;
  const indices = Array.from({ length: count }, (_, index) => index);
  return {
    entries: [
      entry.string('general.architecture', 'llama'),
      entry.u32('llama.block_count', blocks),
      entry.u32('llama.context_length', 131_072),
      entry.u32('llama.embedding_length', width),
      entry.u32('llama.feed_forward_length', inner),
      entry.u32('llama.attention.head_count', 32),
      entry.u32('llama.attention.head_count_kv', 8),
      entry.f32('llama.attention.layer_norm_rms_epsilon', 1e-5),
      entry.string('tokenizer.ggml.model', 'gpt2'),
      entry.strings('tokenizer.ggml.tokens', indices.map(token)),
      entry.i32s(
        'tokenizer.ggml.token_type',
        indices.map(() => 1),
      ),
      entry.strings(
        'tokenizer.ggml.merges',
        indices.map((index) => `${token(index)} e`),
      ),
      entry.u32('tokenizer.ggml.eos_token_id', 2),
      entry.string('tokenizer.chat_template', "{{ messages[0]['content'] }}"),
    ],
    tensors: [
      half('token_embd', width, count),
      ...tensors,
      half('output_norm', width),
      half('output', width, count),
    ],
  };
}

async function timed(work: () => Promise<void>): Promise<number> {
  const start = systemClock.monotonic();
  await work();
  return Math.round((systemClock.monotonic() - start) * 100) / 100;
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}

function printTable(result: ValidateResult): void {
  const at = (key: string) => result[key] ?? '-';
  console.log(`GGUF, ${Number(at('gguf_file_gb')).toFixed(1)} GB, ${at('runs')} rounds each`);
  console.log('                    median      least       most');
  for (const [label, key] of [
    ['validated', 'gguf_10gb'],
    ['same bytes raw', 'gguf_raw_read'],
  ]) {
    const figures = [`${key}_ms`, `${key}_min_ms`, `${key}_max_ms`].map((one) =>
      `${at(one)} ms`.padStart(11),
    );
    console.log(`${label?.padEnd(15)}${figures.join('')}`);
  }
  console.log(`the first time, before the code is compiled: ${at('gguf_10gb_first_ms')} ms`);
  console.log('safetensors: no validator yet');
  console.log(`battery: ${at('battery_files')} files, wrong about ${at('battery_wrong')}`);
}
