/**
 * What the text of the tokens shows while it passes: the byte tokens `<0x00>` to `<0xFF>`, and
 * whether a token occurs twice.
 *
 * Invariants: keeps eight bytes per token and none of its text. Equal tokens are always found,
 * different ones are taken for equal only if 64 bits of two hashes agree.
 */

export type VocabularyScan = {
  /** A token that looks like a byte token and names no byte, or null. */
  bad_byte_token: string | null;
  /** How many of the 256 bytes have a token. */
  bytes: number;
  /** Whether two tokens are the same; the engine counts its tokens and aborts. */
  duplicate: boolean;
};

export class VocabularyScanner {
  readonly #found = new Uint8Array(256);
  /** Two words for each token. */
  readonly #hashes: Uint32Array<ArrayBuffer>;
  #count = 0;
  #bad_byte_token: string | null = null;

  constructor(tokens: number) {
    this.#hashes = new Uint32Array(2 * tokens);
  }

  token(bytes: Uint8Array, start: number, end: number): void {
    const index = this.#count;
    this.#count += 1;
    if (start === end) {
      // The engine gives an empty token this name, which another token may already have.
      const name = Buffer.from(`[EMPTY_${index}]`);
      this.#note(index, name, 0, name.length);
      return;
    }
    this.#note(index, bytes, start, end);
    const byte = byteOf(bytes, start, end);
    if (byte >= 0) this.#found[byte] = 1;
    else if (byte === malformed) {
      this.#bad_byte_token ??= Buffer.from(bytes.subarray(start, end)).toString('utf8', 0, 16);
    }
  }

  result(): VocabularyScan {
    return {
      bad_byte_token: this.#bad_byte_token,
      bytes: this.#found.reduce((sum, one) => sum + one, 0),
      duplicate: this.#duplicate(),
    };
  }

  #note(index: number, bytes: Uint8Array, start: number, end: number): void {
    let one = 0x811c9dc5;
    let other = end - start;
    for (let at = start; at < end; at += 1) {
      const byte = bytes[at] ?? 0;
      one = Math.imul(one ^ byte, 0x01000193);
      other = Math.imul((other << 13) | (other >>> 19), 0x85ebca6b) + byte;
    }
    this.#hashes[2 * index] = one;
    this.#hashes[2 * index + 1] = other;
  }

  /** Sorting finds equals without a table that chosen tokens could fill in its worst order. */
  #duplicate(): boolean {
    const words = this.#hashes;
    new BigUint64Array(words.buffer).sort();
    for (let at = 2; at < words.length; at += 2) {
      if (words[at] === words[at - 2] && words[at + 1] === words[at - 1]) return true;
    }
    return false;
  }
}

const [less, zero, nine, upper_a, upper_f, x, greater] = [...Buffer.from('<09AFx>')];

const malformed = -2;

/** The byte that a token like `<0x0A>` names, `malformed`, or -1 for any other token. */
function byteOf(bytes: Uint8Array, start: number, end: number): number {
  if (bytes[start] !== less || bytes[start + 1] !== zero || bytes[start + 2] !== x) return -1;
  if (end - start < 4 || bytes[end - 1] !== greater) return -1;
  const high = digit(bytes[start + 3]);
  const low = digit(bytes[start + 4]);
  return end - start === 6 && high >= 0 && low >= 0 ? high * 16 + low : malformed;
}

/** The value of an upper-case hexadecimal digit (engines write them so), or -1. */
function digit(byte = 0): number {
  if (byte >= Number(zero) && byte <= Number(nine)) return byte - Number(zero);
  if (byte >= Number(upper_a) && byte <= Number(upper_f)) return byte - Number(upper_a) + 10;
  return -1;
}
