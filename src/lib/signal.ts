/**
 * A wake-up for loops: signals coalesce, so a thousand of them wake a waiter once.
 *
 * Invariants: a signal between two waits, or as one is called off, is not lost (the next `wait`
 * returns at once); waiting never rejects.
 */
import type { Clock } from './clock.ts';

export type Signal = {
  notify(): void;
  /** Resolves at the next signal (or the one that came since the last wait), `ms` or an abort. */
  wait(clock: Clock, ms: number, stop?: AbortSignal): Promise<void>;
};

/** The reason of an abort that nobody reads: without one, an error with its stack is made. */
const over = 'over';

export function createSignal(): Signal {
  let pending = false;
  let wake: (() => void) | null = null;
  return {
    notify() {
      pending = true;
      wake?.();
    },
    async wait(clock, ms, stop) {
      if (!pending) {
        const woken = new AbortController();
        const abort = () => woken.abort(over);
        wake = abort;
        stop?.addEventListener('abort', abort, { once: true });
        if (!stop?.aborted) await clock.sleep(ms, woken.signal);
        stop?.removeEventListener('abort', abort);
        // A newer wait may have begun since: its wake-up is not ours to take away.
        if (wake === abort) wake = null;
        // Who was told to stop waiting leaves a signal to the next one.
        if (stop?.aborted) return;
      }
      pending = false;
    },
  };
}
