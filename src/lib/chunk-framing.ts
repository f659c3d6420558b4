/**
 * Takes a body out of HTTP/1.1's chunks.
 *
 * Invariants: any cutting of the bytes gives the same body; nothing is copied; sizes, extensions
 * and trailers are bounded; a line that does not end with CR and LF is none.
 */
export type ChunkFraming = {
  /**
   * Adds to `pieces` what of `bytes` from `from` on is body. Gives where the body's end was found,
   * or `more`: it is still to come, or `bad`: these are no chunks.
   */
  take(bytes: Buffer, from: number, pieces: Buffer[]): number | 'more' | 'bad';
};

const size_digits = 8;
const carriage_return = 13;
const line_feed = 10;
const tab = 9;
const space = 32;
const semicolon = 59;

type State =
  | 'size'
  | 'extension'
  | 'size_end'
  | 'data'
  | 'data_return'
  | 'data_end'
  | 'line'
  | 'trailer'
  | 'trailer_end'
  | 'end';

/** `words_bytes`: of all extensions and trailers together. */
export function createChunkFraming(words_bytes: number): ChunkFraming {
  return new Framing(words_bytes);
}

class Framing implements ChunkFraming {
  readonly #words_bytes: number;
  #state: State = 'size';
  /** Of the chunk: its size as far as it is read, then what of it is still to come. */
  #left = 0;
  #digits = 0;
  #words = 0;

  constructor(words_bytes: number) {
    this.#words_bytes = words_bytes;
  }

  take(bytes: Buffer, from: number, pieces: Buffer[]): number | 'more' | 'bad' {
    for (let at = from; at < bytes.length; ) {
      if (this.#state === 'data') {
        const to = Math.min(at + this.#left, bytes.length);
        pieces.push(bytes.subarray(at, to));
        this.#left -= to - at;
        at = to;
        if (this.#left === 0) this.#state = 'data_return';
        continue;
      }
      const byte = bytes[at] ?? 0;
      at += 1;
      if (this.#state === 'end') return byte === line_feed ? at : 'bad';
      const next = this.#after(byte);
      if (next === null) return 'bad';
      this.#state = next;
    }
    return 'more';
  }

  /** The state after one byte that is not of the body; null: it does not belong there. */
  #after(byte: number): State | null {
    switch (this.#state) {
      case 'size':
        return this.#afterSize(byte);
      case 'extension':
        return byte === carriage_return ? 'size_end' : this.#word(byte, 'extension');
      case 'size_end':
        this.#digits = 0;
        if (byte !== line_feed) return null;
        return this.#left === 0 ? 'line' : 'data';
      case 'data_return':
        return byte === carriage_return ? 'data_end' : null;
      case 'data_end':
        return byte === line_feed ? 'size' : null;
      case 'line':
        return byte === carriage_return ? 'end' : this.#word(byte, 'trailer');
      case 'trailer':
        return byte === carriage_return ? 'trailer_end' : this.#word(byte, 'trailer');
      case 'trailer_end':
        return byte === line_feed ? 'line' : null;
      case 'data':
      case 'end':
        return null;
    }
  }

  #afterSize(byte: number): State | null {
    const digit = hexDigit(byte);
    if (digit === null) {
      if (this.#digits === 0) return null;
      if (byte === carriage_return) return 'size_end';
      return byte === semicolon || byte === space || byte === tab ? 'extension' : null;
    }
    this.#left = this.#left * 16 + digit;
    this.#digits += 1;
    return this.#digits > size_digits ? null : 'size';
  }

  /** A byte of an extension or a trailer, of which nothing is kept. */
  #word(byte: number, state: State): State | null {
    this.#words += 1;
    return byte === line_feed || this.#words > this.#words_bytes ? null : state;
  }
}

function hexDigit(byte: number): number | null {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : null;
}
