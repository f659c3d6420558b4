/**
 * Long work in slices: after a few milliseconds it rests, so that the event loop turns.
 *
 * Invariants: between two rests it works no longer than the slice and the step that ended it; on a
 * clock that stands still it never rests.
 */
import type { Clock } from './clock.ts';

export type Slices = {
  /** True once it is time to `rest`. */
  isOver(): boolean;
  rest(): Promise<void>;
  /** Waits for what others do; it is not counted as work. */
  outside<T>(others: Promise<T>): Promise<T>;
  /** Milliseconds of work so far, rests left out, and the longest slice. */
  facts(): { busy_ms: number; longest_ms: number; count: number };
};

export function createSlices(clock: Pick<Clock, 'monotonic' | 'sleep'>, slice_ms: number): Slices {
  let began = clock.monotonic();
  const done = { busy_ms: 0, longest_ms: 0, count: 0 };
  const close = () => {
    const took = clock.monotonic() - began;
    done.busy_ms += took;
    done.longest_ms = Math.max(done.longest_ms, took);
    done.count += 1;
  };
  return {
    isOver: () => clock.monotonic() - began >= slice_ms,
    async rest() {
      close();
      await clock.sleep(0);
      began = clock.monotonic();
    },
    async outside(others) {
      close();
      try {
        return await others;
      } finally {
        began = clock.monotonic();
      }
    },
    facts() {
      close();
      began = clock.monotonic();
      return { ...done };
    },
  };
}
