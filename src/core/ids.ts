/**
 * Identifiers: UUIDv7 as 26 lower-case base32 characters, so that they sort by time, fit a host
 * name (`w-<id>.localhost`) and carry no meaning.
 */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const pattern = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** Makes an id from wall-clock milliseconds and at least 10 random bytes. */
export function makeId(now_ms: number, random: Uint8Array): string {
  const at = (index: number) => random[index] ?? 0;
  const time = Math.max(0, Math.floor(now_ms)) % 2 ** 48;
  const high = ((at(0) & 3) << 10) | (at(1) << 2) | (at(2) >> 6); // 12 bits beside the version
  // 130 bits are 26 characters: two zeros come first, then pieces of 25 and of 20 bits.
  const high_time = Math.floor(time / 2 ** 25);
  const low_time = time % 2 ** 25;
  const version = (0x7000 | high) << 4;
  const variant = 0x80 | (at(2) & 0x3f);
  // One text of its letters: put together of texts it would keep them all for as long as it lives.
  return String.fromCharCode(
    letter(high_time >> 20),
    ...four(high_time),
    letter(low_time >> 20),
    ...four(low_time),
    ...four(version | (variant >> 4)),
    ...four(((variant & 15) << 16) | (at(3) << 8) | at(4)),
    ...four((at(5) << 12) | (at(6) << 4) | (at(7) >> 4)),
    ...four(((at(7) & 15) << 16) | (at(8) << 8) | at(9)),
  );
}

function four(bits: number): [number, number, number, number] {
  return [letter(bits >> 15), letter(bits >> 10), letter(bits >> 5), letter(bits)];
}

function letter(bits: number): number {
  return alphabet.charCodeAt(bits & 31);
}

export function isId(text: string): boolean {
  return pattern.test(text);
}
