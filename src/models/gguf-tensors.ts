/**
 * Walks the tensor table and accounts for every byte of the file.
 *
 * Invariants: a table that passes covers the file exactly: header, padding, each tensor right after
 * the one before, and nothing after the last but its padding. No product or sum can overflow.
 */
import { gguf_limits as limits } from './gguf-limits.ts';
import { tensorType } from './gguf-types.ts';
import type { ModelReader } from './validate-reader.ts';
import { isPlain, must } from './validate-refusal.ts';

export type GgufTensors = {
  count: number;
  names: ReadonlySet<string>;
  /** Bytes of all tensors without paddings. */
  bytes: number;
  parameters: number;
  /** A tensor of a type that engines do not multiply by, or null. */
  not_a_weight: string | null;
  /** Dimensions of the token embedding, when this file holds it. */
  embedding: readonly number[] | null;
};

type Tensor = {
  name: string;
  type: number;
  dims: readonly number[];
  elements: number;
  bytes: number;
};

/** I8, I16, I32, I64 and F64: the engine aborts or reads out of bounds where one is a weight. */
const plain_numbers = new Set([24, 25, 26, 27, 28]);

/** Reads `count` entries and checks the extent; `reader` stands at the first entry. */
export async function readTensors(
  reader: ModelReader,
  count: number,
  alignment: number,
): Promise<GgufTensors> {
  const names = new Set<string>();
  const sum = { bytes: 0, parameters: 0, offset: 0, end: 0 };
  let embedding: readonly number[] | null = null;
  let not_a_weight: string | null = null;
  for (let index = 0; index < count; index += 1) {
    const tensor = await readTensor(reader, index, sum.offset);
    must(!names.has(tensor.name), 'duplicate_tensor', () => `It is "${tensor.name}".`);
    names.add(tensor.name);
    if (tensor.name === 'token_embd.weight') embedding = tensor.dims;
    if (plain_numbers.has(tensor.type)) not_a_weight ??= tensor.name;
    sum.bytes += tensor.bytes;
    sum.parameters += tensor.elements;
    sum.end = sum.offset + tensor.bytes;
    sum.offset = padded(sum.end, alignment);
    must(Number.isSafeInteger(sum.offset), 'tensor_size', () => `All together, at ${index}.`);
  }
  await checkExtent(reader, alignment, sum.end, sum.offset);
  return { count, names, bytes: sum.bytes, parameters: sum.parameters, embedding, not_a_weight };
}

async function readTensor(reader: ModelReader, index: number, expected: number): Promise<Tensor> {
  await reader.need(8);
  const length = reader.u64();
  must(
    length > 0 && length <= limits.tensor_name_bytes,
    'tensor_name',
    () => `Tensor ${index}'s name has ${length} bytes.`,
  );
  await reader.need(length + 4);
  const name = reader.text(length, `the name of tensor ${index}`);
  must(isPlain(name), 'tensor_name', () => `It is tensor ${index}.`);
  const rank = reader.u32();
  must(rank >= 1 && rank <= limits.dims, 'tensor_dims', () => `"${name}" has ${rank}.`);
  await reader.need(rank * 8 + 12);
  const dims = Array.from({ length: rank }, () => reader.u64());
  const type = reader.u32();
  const offset = reader.u64();
  const { elements, bytes } = sizeOf(name, dims, type);
  must(
    offset === expected,
    'tensor_offset',
    () => `"${name}" lies at ${offset} and must lie at ${expected}.`,
  );
  return { name, type, dims, elements, bytes };
}

function sizeOf(name: string, dims: readonly number[], type_id: number) {
  let elements = 1;
  for (const dim of dims) {
    must(dim >= 1, 'tensor_dims', () => `"${name}" is ${dims.join(' x ')}.`);
    elements *= dim;
    must(elements <= Number.MAX_SAFE_INTEGER, 'tensor_size', () => `It is "${name}".`);
  }
  const type = tensorType(type_id);
  must(type !== undefined, 'tensor_type', () => `"${name}" has type ${type_id}.`);
  must(
    (dims[0] ?? 0) % type.block === 0,
    'tensor_row',
    () => `"${name}" has rows of ${dims[0]}, ${type.name} has blocks of ${type.block}.`,
  );
  const bytes = (elements / type.block) * type.bytes;
  must(bytes <= Number.MAX_SAFE_INTEGER, 'tensor_size', () => `It is "${name}".`);
  return { elements, bytes };
}

/** `end` and `padded_end` are where the tensors' data ends, counted from where it begins. */
async function checkExtent(
  reader: ModelReader,
  alignment: number,
  end: number,
  padded_end: number,
) {
  must(reader.offset <= limits.header_bytes, 'header_size');
  const start = padded(reader.offset, alignment);
  const size = reader.file_bytes;
  // A file without tensors (the first part of a split model) may end without padding.
  const least = end === 0 ? reader.offset : start + end;
  must(size >= least, 'file_too_short', () => `It has ${size} bytes of ${least}.`);
  // Writers either pad the last tensor or do not; anything in between was cut.
  const whole = start + padded_end;
  must(
    size >= whole || size === least,
    'file_too_short',
    () => `It has ${size} bytes of ${whole}.`,
  );
  must(size <= whole, 'file_too_long', () => `It has ${size - whole} bytes too many.`);
  await zeros(reader, Math.min(start, size) - reader.offset);
  reader.skip(Math.min(start + end, size) - reader.offset);
  await zeros(reader, size - reader.offset);
}

async function zeros(reader: ModelReader, count: number): Promise<void> {
  await reader.need(count);
  must(
    reader.raw(count).every((byte) => byte === 0),
    'padding',
    () => `It is before byte ${reader.offset}.`,
  );
}

function padded(bytes: number, alignment: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}
