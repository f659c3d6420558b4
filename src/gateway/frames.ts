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
  return new Cut(limit, onFrame);
}

/** A class, for each open answer has one. */
class Cut implements Frames {
  readonly #limit: number;
  readonly #onFrame: OnFrame;
  #pieces: Buffer[] | null = null;
  #kept = 0;
  #is_line_empty = true;
  #is_after_return = false;

  constructor(limit: number, onFrame: OnFrame) {
    this.#limit = limit;
    this.#onFrame = onFrame;
  }

  unfinished(): number {
    return this.#kept;
  }

  push(chunk: Buffer): boolean {
    // Looking for one byte is left to the machine's own instructions; CR is rare.
    const has_returns = chunk.indexOf(carriage_return) !== -1;
    const { length } = chunk;
    let from = 0;
    let line_from = 0;
    let at = nextEnd(chunk, 0, has_returns);
    for (; at !== -1; at = nextEnd(chunk, at + 1, has_returns)) {
      if (at > line_from) this.#see();
      line_from = at + 1;
      const is_return = chunk[at] === carriage_return;
      if (!is_return && this.#is_after_return) {
        // The second half of one end of a line.
        this.#is_after_return = false;
        continue;
      }
      this.#is_after_return = is_return;
      if (!this.#is_line_empty) {
        this.#is_line_empty = true;
        continue;
      }
      // The other half of this end belongs to it, where it is there already.
      if (is_return && chunk[at + 1] === line_feed) {
        at += 1;
        line_from = at + 1;
        this.#is_after_return = false;
      }
      if (this.#kept + at + 1 - from > this.#limit) return false;
      this.#end(chunk, from, at + 1);
      from = at + 1;
    }
    if (line_from < length) this.#see();
    return this.#keep(chunk, from);
  }

  /** The line has bytes. */
  #see(): void {
    this.#is_line_empty = false;
    this.#is_after_return = false;
  }

  #end(chunk: Buffer, from: number, to: number): void {
    if (this.#pieces === null) {
      this.#onFrame(chunk, from, to);
      return;
    }
    this.#pieces.push(chunk.subarray(from, to));
    const whole = Buffer.concat(this.#pieces);
    this.#pieces = null;
    this.#kept = 0;
    this.#onFrame(whole, 0, whole.length);
  }

  /** What of a frame has not ended. */
  #keep(chunk: Buffer, from: number): boolean {
    if (from === chunk.length) return true;
    this.#kept += chunk.length - from;
    if (this.#kept > this.#limit) return false;
    const rest = from === 0 ? chunk : chunk.subarray(from);
    if (this.#pieces === null) this.#pieces = [rest];
    else this.#pieces.push(rest);
    return true;
  }
}

/** Where a line ends, from `from` on; -1: not in these bytes. */
function nextEnd(chunk: Buffer, from: number, has_returns: boolean): number {
  // Of the two ends of lines that end a frame, the second one.
  if (chunk[from] === line_feed) return from;
  return has_returns ? endOfLine(chunk, from) : chunk.indexOf(line_feed, from);
}

/** Where the next line ends, from `from` on; -1: not in these bytes. */
function endOfLine(bytes: Buffer, from: number): number {
  for (let at = from; at < bytes.length; at += 1) {
    if (bytes[at] === line_feed || bytes[at] === carriage_return) return at;
  }
  return -1;
}
