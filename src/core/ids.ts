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
  let bits = BigInt(Math.max(0, Math.floor(now_ms))) & 0xffff_ffff_ffffn;
  const noise = random.slice(0, 10).reduce((all, byte) => (all << 8n) | BigInt(byte), 0n);
  const high = (noise >> 62n) & 0xfffn; // 12 bits beside the version
  const low = noise & 0x3fff_ffff_ffff_ffffn; // 62 bits beside the variant
  bits = (bits << 16n) | (7n << 12n) | high;
  bits = (bits << 64n) | (2n << 62n) | low;
  let out = '';
  for (let index = 0; index < 26; index += 1) {
    out = alphabet.charAt(Number(bits & 31n)) + out;
    bits >>= 5n;
  }
  return out;
}

export function isId(text: string): boolean {
  return pattern.test(text);
}
