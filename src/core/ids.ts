/**
 * Identifiers: UUIDv7 as 26 lower-case base32 characters, so that they sort by time, fit a host
 * name (`w-<id>.localhost`) and carry no meaning.
 */
declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

export type WorkloadId = Branded<'workload'>;
export type MachineId = Branded<'machine'>;
export type TenantId = Branded<'tenant'>;
export type UserId = Branded<'user'>;

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const pattern = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** Makes an id from wall-clock milliseconds and at least 10 random bytes. */
export function makeId(now_ms: number, random: Uint8Array): string {
  const at = (index: number) => random[index] ?? 0;
  const time = Math.max(0, Math.floor(now_ms));
  const high_time = Math.floor(time / 2 ** 32) & 0xffff;
  const low_time = time % 2 ** 32;
  const high = ((at(0) & 3) << 10) | (at(1) << 2) | (at(2) >> 6); // 12 bits beside the version
  const bytes = [
    ...[high_time >> 8, high_time & 255],
    ...[low_time >>> 24, (low_time >>> 16) & 255, (low_time >>> 8) & 255, low_time & 255],
    ...[0x70 | (high >> 8), high & 255],
    ...[0x80 | (at(2) & 0x3f), at(3), at(4), at(5), at(6), at(7), at(8), at(9)],
  ];
  let out = '';
  let rest = 0;
  let rest_bits = 2; // 130 bits are 26 characters: two zeros come first
  for (const byte of bytes) {
    rest = (rest << 8) | byte;
    rest_bits += 8;
    while (rest_bits >= 5) {
      rest_bits -= 5;
      out += alphabet.charAt((rest >> rest_bits) & 31);
    }
    rest &= (1 << rest_bits) - 1;
  }
  return out;
}

export function isId(text: string): boolean {
  return pattern.test(text);
}
