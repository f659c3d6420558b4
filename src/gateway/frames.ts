/**
 * Cuts the bytes of an event stream into frames: each ends with the blank line that ends an event.
 *
 * Invariants: any cutting of the bytes into chunks gives the same frames, whose bytes together are
 * those that came; lines end with LF, CR or CRLF; bytes are copied only where a frame came in
 * several chunks; no more than `limit` bytes of an unfinished frame are kept.
 */
export type OnFrame = (bytes: Buffer, from: number, to: number) => void;

export type Frames = {
  /** False where a frame grew over the limit: nothing more is taken then. */
  push(chunk: Buffer): boolean;
  /** Bytes of a frame that has not ended. */
  unfinished(): number;
};

const line_feed = 10;
const carriage_return = 13;

export function createFrames(limit: number, onFrame: OnFrame): Frames {
  let pieces: Buffer[] = [];
  let kept = 0;
  let is_line_empty = true;
  let is_after_return = false;

  /** The line has bytes. */
  function see(): void {
    is_line_empty = false;
    is_after_return = false;
  }

  function end(chunk: Buffer, from: number, to: number): void {
    if (kept === 0) {
      onFrame(chunk, from, to);
      return;
    }
    pieces.push(chunk.subarray(from, to));
    const whole = Buffer.concat(pieces);
    pieces = [];
    kept = 0;
    onFrame(whole, 0, whole.length);
  }

  return {
    push(chunk) {
      // Looking for one byte is left to the machine's own instructions; CR is rare.
      const has_returns = chunk.indexOf(carriage_return) !== -1;
      const next = (at: number) => {
        // Of the two ends of lines that end a frame, the second one.
        if (chunk[at] === line_feed) return at;
        return has_returns ? endOfLine(chunk, at) : chunk.indexOf(line_feed, at);
      };
      const { length } = chunk;
      let from = 0;
      let line_from = 0;
      for (let at = next(0); at !== -1; at = next(at + 1)) {
        if (at > line_from) see();
        line_from = at + 1;
        const is_return = chunk[at] === carriage_return;
        if (!is_return && is_after_return) {
          // The second half of one end of a line.
          is_after_return = false;
          continue;
        }
        is_after_return = is_return;
        if (!is_line_empty) {
          is_line_empty = true;
          continue;
        }
        // The other half of this end belongs to it, where it is there already.
        if (is_return && chunk[at + 1] === line_feed) {
          at += 1;
          line_from = at + 1;
          is_after_return = false;
        }
        if (kept + at + 1 - from > limit) return false;
        end(chunk, from, at + 1);
        from = at + 1;
      }
      if (line_from < length) see();
      if (from === length) return true;
      kept += length - from;
      if (kept > limit) return false;
      pieces.push(from === 0 ? chunk : chunk.subarray(from));
      return true;
    },
    unfinished: () => kept,
  };
}

/** Where the next line ends, from `from` on; -1: not in these bytes. */
function endOfLine(bytes: Buffer, from: number): number {
  for (let at = from; at < bytes.length; at += 1) {
    if (bytes[at] === line_feed || bytes[at] === carriage_return) return at;
  }
  return -1;
}
