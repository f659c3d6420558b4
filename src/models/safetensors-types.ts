/**
 * The types of the format, with the bits of one element.
 *
 * Invariants: a type that is not here is refused, never passed over: readers that skip the checks
 * for types they do not know read out of bounds.
 */
const type_bits = new Map<string, number>([
  ['BOOL', 8],
  ['F4', 4],
  ['F6_E2M3', 6],
  ['F6_E3M2', 6],
  ['U8', 8],
  ['I8', 8],
  ['F8_E5M2', 8],
  ['F8_E4M3', 8],
  ['F8_E8M0', 8],
  ['F8_E4M3FNUZ', 8],
  ['F8_E5M2FNUZ', 8],
  ['I16', 16],
  ['U16', 16],
  ['F16', 16],
  ['BF16', 16],
  ['I32', 32],
  ['U32', 32],
  ['F32', 32],
  ['C64', 64],
  ['F64', 64],
  ['I64', 64],
  ['U64', 64],
]);

/** Bits of one element, or undefined for a type that the format does not have. */
export function typeBits(name: string): number | undefined {
  return type_bits.get(name);
}
