/**
 * Time, as a dependency: the only place that touches Date.now, timers and the monotonic clock.
 *
 * Invariants: `monotonic_ms` never goes back within a process; `sleep` settles at the latest when
 * its signal aborts (it resolves, it never rejects). Everything with a deadline is given a Clock.
 */
export type Clock = {
  /** Wall-clock time in milliseconds since 1970 (may step). */
  now(): number;
  /** Milliseconds on a clock that only rises; comparable only within this process. */
  monotonic(): number;
  /** Resolves after `ms`, or as soon as `signal` aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `fn` once after `ms`; returns the function that calls it off. */
  after(ms: number, fn: () => void): () => void;
};

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const timer = setTimeout(done, ms);
      function done() {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      }
      signal?.addEventListener('abort', done, { once: true });
    }),
  after: (ms, fn) => {
    const timer = setTimeout(fn, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/**
 * Settles like `work`, or rejects with `Error(message)` after `ms`. The work itself is not stopped.
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  message: string,
  work: Promise<T>,
): Promise<T> {
  let cancel = () => {};
  const deadline = new Promise<never>((_, reject) => {
    cancel = clock.after(ms, () => reject(new Error(message)));
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    cancel();
  }
}
