/**
 * What was counted in the last minute, on the monotonic clock.
 *
 * Invariants: an amount counts for a whole minute and at most `grain_ms` more, so of no minute,
 * wherever it begins, is more counted than was let in; amounts further apart than `grain_ms` count
 * for a minute exactly; there are at most `minute_ms / grain_ms` entries, however much is counted.
 */
export type Window = {
  /** What counts now. */
  sum(now_ms: number): number;
  add(now_ms: number, amount: number): void;
  /** In how many milliseconds at most `most` of what counts now still does; 0: already. */
  fallsTo(now_ms: number, most: number): number;
};

export const minute_ms = 60_000;
const grain_ms = 50;
/** Entries that count no more are cut off when so many lie before those that do. */
const cut_at = 64;

type Entry = { first_ms: number; last_ms: number; amount: number };

export function createWindow(): Window {
  let entries: Entry[] = [];
  let gone = 0;
  let total = 0;

  function expire(now_ms: number): void {
    let entry = entries[gone];
    while (entry !== undefined && entry.last_ms + minute_ms <= now_ms) {
      total -= entry.amount;
      gone += 1;
      entry = entries[gone];
    }
    if (gone < cut_at && gone < entries.length) return;
    entries = entries.slice(gone);
    gone = 0;
  }

  return {
    sum(now_ms) {
      expire(now_ms);
      return total;
    },
    add(now_ms, amount) {
      if (amount === 0) return;
      total += amount;
      const last = entries.at(-1);
      if (last === undefined || entries.length === gone || now_ms - last.first_ms >= grain_ms) {
        entries.push({ first_ms: now_ms, last_ms: now_ms, amount });
        return;
      }
      last.last_ms = now_ms;
      last.amount += amount;
    },
    fallsTo(now_ms, most) {
      expire(now_ms);
      const last = entries.at(-1);
      if (most <= 0 && last !== undefined) return Math.max(0, last.last_ms + minute_ms - now_ms);
      let left = total;
      for (let index = gone; left > most && index < entries.length; index += 1) {
        const entry = entries[index];
        if (entry === undefined) break;
        left -= entry.amount;
        if (left <= most) return entry.last_ms + minute_ms - now_ms;
      }
      return 0;
    },
  };
}
