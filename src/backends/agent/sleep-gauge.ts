/**
 * Tells from two monotonic clocks, ours and an agent's, how long its machine slept: while it does,
 * its clock stands still and ours goes on.
 *
 * Invariants: a report that was only late is no sleep: two reports in a row must say so, and the
 * one that says less is believed; what is told is told once.
 */
export type SleepGauge = {
  /** Our clock and the agent's at one report. Null where it is not known to have slept since. */
  observe(ours_ms: number, theirs_ms: number): Slept | null;
};

/** `woke_ms`: by our clock, when the first report after it came. */
export type Slept = { slept_ms: number; woke_ms: number };

/** Less than this may be a busy network or machine. */
const noticed_ms = 10_000;

export function createSleepGauge(): SleepGauge {
  let offset: number | null = null;
  let doubt: { ahead_ms: number; at_ms: number } | null = null;
  return {
    observe(ours_ms, theirs_ms) {
      const seen = ours_ms - theirs_ms;
      const ahead_ms = seen - (offset ?? seen);
      if (ahead_ms < noticed_ms) {
        // The quickest report so far tells the most.
        offset = Math.min(offset ?? seen, seen);
        doubt = null;
        return null;
      }
      const before = doubt;
      doubt = { ahead_ms, at_ms: before?.at_ms ?? ours_ms };
      if (before === null) return null;
      const slept_ms = Math.floor(Math.min(before.ahead_ms, ahead_ms));
      offset = (offset ?? seen) + slept_ms;
      doubt = null;
      return { slept_ms, woke_ms: before.at_ms };
    },
  };
}
