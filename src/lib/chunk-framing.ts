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
  let state: State = 'size';
  /** Of the chunk: its size as far as it is read, then what of it is still to come. */
  let left = 0;
  let digits = 0;
  let words = 0;

  /** The state after one byte that is not of the body; null: it does not belong there. */
  function after(byte: number): State | null {
    switch (state) {
      case 'size':
        return afterSize(byte);
      case 'extension':
        words += 1;
        if (byte === carriage_return) return 'size_end';
        return byte === line_feed || words > words_bytes ? null : 'extension';
      case 'size_end':
        digits = 0;
        if (byte !== line_feed) return null;
        return left === 0 ? 'line' : 'data';
      case 'data_return':
        return byte === carriage_return ? 'data_end' : null;
      case 'data_end':
        return byte === line_feed ? 'size' : null;
      case 'line':
        return byte === carriage_return ? 'end' : 'trailer';
      case 'trailer':
        words += 1;
        if (byte === carriage_return) return 'trailer_end';
        return byte === line_feed || words > words_bytes ? null : 'trailer';
      case 'trailer_end':
        return byte === line_feed ? 'line' : null;
      case 'data':
      case 'end':
        return null;
    }
  }

  function afterSize(byte: number): State | null {
    const digit = hexDigit(byte);
    if (digit === null) {
      if (digits === 0) return null;
      if (byte === carriage_return) return 'size_end';
      return byte === 0x3b || byte === 0x20 || byte === 0x09 ? 'extension' : null;
    }
    left = left * 16 + digit;
    digits += 1;
    return digits > size_digits ? null : 'size';
  }

  return {
    take(bytes, from, pieces) {
      for (let at = from; at < bytes.length; ) {
        if (state === 'data') {
          const to = Math.min(at + left, bytes.length);
          pieces.push(bytes.subarray(at, to));
          left -= to - at;
          at = to;
          if (left === 0) state = 'data_return';
          continue;
        }
        const byte = bytes[at] ?? 0;
        at += 1;
        if (state === 'end') return byte === line_feed ? at : 'bad';
        const next = after(byte);
        if (next === null) return 'bad';
        state = next;
      }
      return 'more';
    },
  };
}

function hexDigit(byte: number): number | null {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : null;
}
