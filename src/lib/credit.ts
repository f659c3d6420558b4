/**
 * How much may be sent ahead of what the other side has taken.
 *
 * Invariants: what is taken is never more than was given; who waits goes on in the order of asking;
 * once closed, nobody waits any more.
 */
export type Credit = {
  /** Resolves when so much may be sent; false where it never will. */
  take(bytes: number): Promise<boolean>;
  /** The other side took so much. False where that is more than was sent. */
  give(bytes: number): boolean;
  close(): void;
};

export function createCredit(window_bytes: number): Credit {
  let left = window_bytes;
  let is_closed = false;
  const waiting: { bytes: number; go: (may: boolean) => void }[] = [];

  function serve(): void {
    for (let first = waiting[0]; first !== undefined && first.bytes <= left; first = waiting[0]) {
      waiting.shift();
      left -= first.bytes;
      first.go(true);
    }
  }

  return {
    take(bytes) {
      if (is_closed) return Promise.resolve(false);
      return new Promise((go) => {
        waiting.push({ bytes, go });
        serve();
      });
    },
    give(bytes) {
      if (left + bytes > window_bytes) return false;
      left += bytes;
      serve();
      return true;
    },
    close() {
      is_closed = true;
      for (const { go } of waiting.splice(0)) go(false);
    },
  };
}
