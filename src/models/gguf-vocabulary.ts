/**
 * What the text of the tokens shows while it passes: the byte tokens `<0x00>` to `<0xFF>`.
 *
 * Invariants: allocates nothing per token.
 */

export type VocabularyScan = {
  /** A token that looks like a byte token and names no byte, or null. */
  bad_byte_token: string | null;
  /** How many of the 256 bytes have a token. */
  bytes: number;
};

const [less, zero, nine, upper_a, upper_f, x, greater] = [...Buffer.from('<09AFx>')];

/** Notes a byte token in `found`, or the first malformed one in `scan`. */
export function scanToken(
  bytes: Uint8Array,
  start: number,
  end: number,
  found: Uint8Array,
  scan: VocabularyScan,
): void {
  if (bytes[start] !== less || bytes[start + 1] !== zero || bytes[start + 2] !== x) return;
  if (end - start < 4 || bytes[end - 1] !== greater) return;
  const high = digit(bytes[start + 3]);
  const low = digit(bytes[start + 4]);
  if (end - start === 6 && high >= 0 && low >= 0) found[high * 16 + low] = 1;
  else scan.bad_byte_token ??= Buffer.from(bytes.subarray(start, end)).toString('utf8', 0, 16);
}

export function countBytes(found: Uint8Array): number {
  return found.reduce((sum, one) => sum + one, 0);
}

/** The value of an upper-case hexadecimal digit (engines write them so), or -1. */
function digit(byte = 0): number {
  if (byte >= Number(zero) && byte <= Number(nine)) return byte - Number(zero);
  if (byte >= Number(upper_a) && byte <= Number(upper_f)) return byte - Number(upper_a) + 10;
  return -1;
}
