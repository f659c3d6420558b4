/**
 * Writes GGUF files for tests, valid ones and any malformed one: every count, length, type and
 * offset can be overridden, and keys and strings may be raw bytes.
 *
 * Invariants: without overrides the result is a well-formed version 3 file (little-endian, offsets
 * at the running sum of padded sizes, the last tensor padded too).
 */

export const gguf_type = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
} as const;

/** One metadata entry; `value` is already encoded, so that a test can encode it wrongly. */
export type GgufEntry = { key: string | Buffer; type: number; value: Buffer };

export type GgufTensor = {
  name: string | Buffer;
  /** The first dimension is the fastest, as in the file. */
  dims: readonly (number | bigint)[];
  /** ggml type; 0 (f32) when left out. */
  type?: number;
  /** The bytes; zeros of `bytes` length, or of four per element, when left out. */
  data?: Buffer;
  bytes?: number;
  /** Written instead of the right offset. */
  offset?: number | bigint;
  /** Written instead of the number of dims. */
  dim_count?: number;
};

export type GgufFile = {
  entries: readonly GgufEntry[];
  tensors: readonly GgufTensor[];
  alignment?: number;
  magic?: string;
  version?: number;
  entry_count?: number | bigint;
  tensor_count?: number | bigint;
  /** Appended after the last tensor's padding. */
  trailing?: Buffer;
  /** Leaves out the padding after the last tensor, as some writers do. */
  unpadded_end?: boolean;
};

/** The header only: everything before the tensors' bytes, padded to the alignment. */
export function ggufHeader(file: GgufFile): Buffer {
  const alignment = file.alignment ?? 32;
  const parts = [
    Buffer.from(file.magic ?? 'GGUF', 'latin1'),
    u32(file.version ?? 3),
    u64(file.tensor_count ?? file.tensors.length),
    u64(file.entry_count ?? file.entries.length),
    ...file.entries.flatMap(({ key, type, value }) => [text(key), u32(type), value]),
  ];
  let offset = 0;
  for (const tensor of file.tensors) {
    parts.push(text(tensor.name), u32(tensor.dim_count ?? tensor.dims.length));
    parts.push(...tensor.dims.map(u64), u32(tensor.type ?? 0), u64(tensor.offset ?? offset));
    offset += padded(tensorBytes(tensor), alignment);
  }
  const header = Buffer.concat(parts);
  return Buffer.concat([header, Buffer.alloc(padded(header.length, alignment) - header.length)]);
}

/** The whole file. */
export function ggufFile(file: GgufFile): Buffer {
  const alignment = file.alignment ?? 32;
  const parts = [ggufHeader(file)];
  file.tensors.forEach((tensor, index) => {
    const bytes = tensorBytes(tensor);
    const last = index === file.tensors.length - 1;
    parts.push(tensor.data ?? Buffer.alloc(bytes));
    if (!(last && file.unpadded_end)) parts.push(Buffer.alloc(padded(bytes, alignment) - bytes));
  });
  return Buffer.concat([...parts, file.trailing ?? Buffer.alloc(0)]);
}

/** How many bytes of data follow the header when the last tensor is padded. */
export function ggufDataBytes(file: GgufFile): number {
  return file.tensors.reduce((sum, one) => sum + padded(tensorBytes(one), file.alignment ?? 32), 0);
}

export const entry = {
  u8: (key: string, value: number) => make(key, gguf_type.u8, Buffer.from([value])),
  bool: (key: string, value: number) => make(key, gguf_type.bool, Buffer.from([value])),
  u16: (key: string, value: number) => make(key, gguf_type.u16, u32(value).subarray(0, 2)),
  u32: (key: string, value: number) => make(key, gguf_type.u32, u32(value)),
  i32: (key: string, value: number) => make(key, gguf_type.i32, u32(value)),
  u64: (key: string, value: number | bigint) => make(key, gguf_type.u64, u64(value)),
  f32: (key: string, value: number) => make(key, gguf_type.f32, f32(value)),
  string: (key: string, value: string | Buffer) => make(key, gguf_type.string, text(value)),
  strings: (key: string, values: readonly (string | Buffer)[], count?: number | bigint) =>
    array(key, gguf_type.string, values.map(text), count),
  f32s: (key: string, values: readonly number[], count?: number | bigint) =>
    array(key, gguf_type.f32, values.map(f32), count),
  i32s: (key: string, values: readonly number[], count?: number | bigint) =>
    array(key, gguf_type.i32, values.map(u32), count),
  array,
};

/** An array entry; `count` is written instead of the number of items when given. */
export function array(
  key: string,
  element_type: number,
  items: readonly Buffer[],
  count: number | bigint = items.length,
): GgufEntry {
  return make(key, gguf_type.array, Buffer.concat([u32(element_type), u64(count), ...items]));
}

/** A length-prefixed string, as everywhere in the format. */
export function text(value: string | Buffer): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(value, 'utf8') : value;
  return Buffer.concat([u64(bytes.length), bytes]);
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
}

export function u64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)));
  return bytes;
}

export function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

function make(key: string | Buffer, type: number, value: Buffer): GgufEntry {
  return { key, type, value };
}

function tensorBytes(tensor: GgufTensor): number {
  if (tensor.data) return tensor.data.length;
  return tensor.bytes ?? 4 * tensor.dims.reduce<number>((product, dim) => product * Number(dim), 1);
}

function padded(bytes: number, alignment: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}
