/**
 * The two type tables of the format: metadata values, and tensor elements.
 *
 * Invariants: tensor types that engines no longer load (4, 5, 31 to 33, 36 to 38) are absent.
 */

export const gguf_value_type = {
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

/** Bytes of a metadata value of fixed size, by type. */
const value_bytes = new Map<number, number>([
  [gguf_value_type.u8, 1],
  [gguf_value_type.i8, 1],
  [gguf_value_type.u16, 2],
  [gguf_value_type.i16, 2],
  [gguf_value_type.u32, 4],
  [gguf_value_type.i32, 4],
  [gguf_value_type.f32, 4],
  [gguf_value_type.bool, 1],
  [gguf_value_type.u64, 8],
  [gguf_value_type.i64, 8],
  [gguf_value_type.f64, 8],
]);

/** Bytes of one value, or undefined for strings, arrays and unknown types. */
export function valueBytes(type: number): number | undefined {
  return value_bytes.get(type);
}

export type TensorType = {
  name: string;
  /** Elements of one block; a row must be a multiple. */
  block: number;
  /** Bytes of one block. */
  bytes: number;
};

const tensor_types = new Map<number, TensorType>(
  (
    [
      [0, 'F32', 1, 4],
      [1, 'F16', 1, 2],
      [2, 'Q4_0', 32, 18],
      [3, 'Q4_1', 32, 20],
      [6, 'Q5_0', 32, 22],
      [7, 'Q5_1', 32, 24],
      [8, 'Q8_0', 32, 34],
      [9, 'Q8_1', 32, 36],
      [10, 'Q2_K', 256, 84],
      [11, 'Q3_K', 256, 110],
      [12, 'Q4_K', 256, 144],
      [13, 'Q5_K', 256, 176],
      [14, 'Q6_K', 256, 210],
      [15, 'Q8_K', 256, 292],
      [16, 'IQ2_XXS', 256, 66],
      [17, 'IQ2_XS', 256, 74],
      [18, 'IQ3_XXS', 256, 98],
      [19, 'IQ1_S', 256, 50],
      [20, 'IQ4_NL', 32, 18],
      [21, 'IQ3_S', 256, 110],
      [22, 'IQ2_S', 256, 82],
      [23, 'IQ4_XS', 256, 136],
      [24, 'I8', 1, 1],
      [25, 'I16', 1, 2],
      [26, 'I32', 1, 4],
      [27, 'I64', 1, 8],
      [28, 'F64', 1, 8],
      [29, 'IQ1_M', 256, 56],
      [30, 'BF16', 1, 2],
      [34, 'TQ1_0', 256, 54],
      [35, 'TQ2_0', 256, 66],
      [39, 'MXFP4', 32, 17],
      [40, 'NVFP4', 64, 36],
      [41, 'Q1_0', 128, 18],
    ] satisfies [number, string, number, number][]
  ).map(([id, name, block, bytes]) => [id, { name, block, bytes }]),
);

export function tensorType(id: number): TensorType | undefined {
  return tensor_types.get(id);
}
