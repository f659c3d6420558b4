/**
 * A clock that only moves when it is told to, so that a test about time takes none.
 *
 * Invariants: timers fire in the order of their due times; `advance` lets what a timer woke run
 * before the next one fires; the wall clock can step without the monotonic one, as real ones do.
 */
import type { Clock } from '../../src/lib/clock.ts';

export type FakeClock = Clock & {
  /** Moves both clocks, firing what falls due on the way. */
  advance(ms: number): Promise<void>;
  /** Steps the wall clock alone, forwards or back. */
  stepWall(ms: number): void;
  /** How many timers are set. */
  waiting(): number;
};

type Timer = { due: number; order: number; fire: () => void };

export function createFakeClock(start_ms = 1_800_000_000_000): FakeClock {
  const timers = new Set<Timer>();
  let monotonic = 0;
  let wall_offset = start_ms;
  let order = 0;

  function after(ms: number, fire: () => void): () => void {
    order += 1;
    const timer = { due: monotonic + Math.max(0, ms), order, fire };
    timers.add(timer);
    return () => void timers.delete(timer);
  }

  function nextDue(until: number): Timer | null {
    const due = [...timers].filter((timer) => timer.due <= until);
    due.sort((a, b) => a.due - b.due || a.order - b.order);
    return due[0] ?? null;
  }

  return {
    now: () => Math.floor(wall_offset + monotonic),
    monotonic: () => monotonic,
    after,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const done = () => {
          cancel();
          signal?.removeEventListener('abort', done);
          resolve();
        };
        const cancel = after(ms, done);
        signal?.addEventListener('abort', done, { once: true });
      }),
    async advance(ms) {
      const until = monotonic + ms;
      await settle();
      for (let timer = nextDue(until); timer !== null; timer = nextDue(until)) {
        timers.delete(timer);
        monotonic = Math.max(monotonic, timer.due);
        timer.fire();
        await settle();
      }
      monotonic = until;
    },
    stepWall(ms) {
      wall_offset += ms;
    },
    waiting: () => timers.size,
  };
}

/** Lets everything run that waits for no timer. */
export async function settle(rounds = 8): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}
