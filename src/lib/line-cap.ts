/**
 * A cap on lines of the log that strangers cause: so many in each window, then one with a count.
 *
 * Invariants: the first of a window are always written; nothing is left out without being counted.
 */
import type { Clock } from './clock.ts';
import type { Log } from './log.ts';

export type LineCap = {
  /** May this line be written? */
  admits(): boolean;
};

export function createLineCap(deps: {
  clock: Pick<Clock, 'monotonic' | 'after'>;
  log: Pick<Log, 'warn'>;
  lines: number;
  window_ms: number;
}): LineCap {
  const { clock, log, lines, window_ms } = deps;
  let began_at = -Infinity;
  let written = 0;
  let left_out = 0;

  function tell(): void {
    log.warn({ left_out }, 'lines of refused requests were left out');
    left_out = 0;
  }

  return {
    admits() {
      const now = clock.monotonic();
      if (now - began_at >= window_ms) {
        began_at = now;
        written = 0;
      }
      written += 1;
      if (written <= lines) return true;
      if (left_out === 0) clock.after(began_at + window_ms - now, tell);
      left_out += 1;
      return false;
    },
  };
}
