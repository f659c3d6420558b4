/**
 * Writes safetensors files for tests, valid ones and any malformed one: the header may be any text,
 * its length any number.
 *
 * Invariants: without overrides the result is well-formed: tensors follow each other in the order
 * given, and the header is filled up with spaces to a multiple of eight.
 */
import { u64 } from './gguf-writer.ts';

export type SafeTensor = {
  dtype: string;
  shape: readonly number[];
  /** Bytes of data; told from dtype and shape when left out. */
  bytes?: number;
  data?: Buffer;
  /** Written instead of the right place. */
  data_offsets?: readonly [number, number];
};

export type SafetensorsParts = {
  tensors?: Record<string, SafeTensor>;
  metadata?: Record<string, string>;
  /** Written instead of the header made from the tensors. */
  header?: string | Buffer;
  header_length?: number | bigint;
  data?: Buffer;
  trailing?: Buffer;
};

const bits: Record<string, number> = { F4: 4, F6_E2M3: 6, F6_E3M2: 6, F16: 16, BF16: 16 };
Object.assign(bits, { I16: 16, U16: 16, F32: 32, I32: 32, U32: 32 });
Object.assign(bits, { F64: 64, I64: 64, U64: 64, C64: 64 });

/** The header's text, not filled up. */
export function safetensorsHeader({ tensors = {}, metadata }: SafetensorsParts): string {
  let at = 0;
  const entries: [string, unknown][] = metadata ? [['__metadata__', metadata]] : [];
  for (const [name, tensor] of Object.entries(tensors)) {
    const { dtype, shape, data_offsets } = tensor;
    const end = at + tensorBytes(tensor);
    entries.push([name, { dtype, shape, data_offsets: data_offsets ?? [at, end] }]);
    at = end;
  }
  return JSON.stringify(Object.fromEntries(entries));
}

export function safetensorsFile(parts: SafetensorsParts): Buffer {
  const text = Buffer.from(parts.header ?? padded(safetensorsHeader(parts)));
  const data = Object.values(parts.tensors ?? {}).map(
    (tensor) => tensor.data ?? Buffer.alloc(tensorBytes(tensor)),
  );
  return Buffer.concat([
    u64(parts.header_length ?? text.length),
    text,
    ...(parts.data === undefined ? data : [parts.data]),
    parts.trailing ?? Buffer.alloc(0),
  ]);
}

export function tensorBytes(tensor: SafeTensor): number {
  if (tensor.data) return tensor.data.length;
  if (tensor.bytes !== undefined) return tensor.bytes;
  const elements = tensor.shape.reduce((product, dim) => product * dim, 1);
  return (elements * (bits[tensor.dtype] ?? 8)) / 8;
}

function padded(text: string): string {
  const length = Buffer.byteLength(text);
  return text + ' '.repeat(Math.ceil(length / 8) * 8 - length);
}
