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
  /** Calls `woken` once, at the moments at which a wait would end; returns the calling off. */
  next(clock: Clock, ms: number, woken: () => void): () => void;
};

export function createSignal(): Signal {
  let pending = false;
  let wake: (() => void) | null = null;

  /** Resolves when it is woken, its time is over, or it is called off. */
  function sleep(clock: Clock, ms: number, stop: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const finish = () => {
        cancel();
        stop?.removeEventListener('abort', finish);
        // A newer wait may have begun since: its wake-up is not ours to take away.
        if (wake === finish) wake = null;
        resolve();
      };
      const cancel = clock.after(ms, finish);
      wake = finish;
      stop?.addEventListener('abort', finish);
      if (stop?.aborted) finish();
    });
  }

  function next(clock: Clock, ms: number, woken: () => void): () => void {
    if (pending) {
      pending = false;
      woken();
      return () => {};
    }
    const callOff = () => {
      cancel();
      if (wake === finish) wake = null;
    };
    const finish = () => {
      callOff();
      pending = false;
      woken();
    };
    const cancel = clock.after(ms, finish);
    wake = finish;
    return callOff;
  }

  return {
    next,
    notify() {
      pending = true;
      wake?.();
    },
    async wait(clock, ms, stop) {
      if (!pending) {
        await sleep(clock, ms, stop);
        // Who was told to stop waiting leaves a signal to the next one.
        if (stop?.aborted) return;
      }
      pending = false;
    },
  };
}
