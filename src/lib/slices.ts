/**
 * Long work in slices: after a few milliseconds it rests, so that the event loop turns.
 *
 * Invariants: between two rests it works no longer than the slice and the step that ended it (or
 * four, of small ones); on a clock that stands still it never rests.
 */
import type { Clock } from './clock.ts';

export type Slices = {
  /** True once it is time to `rest`. */
  isOver(): boolean;
  /** The same after a step of microseconds: only every few such steps are worth a look at the clock. */
  tick(): boolean;
  rest(): Promise<void>;
  /** Waits for what others do; it is not counted as work. */
  outside<T>(others: Promise<T>): Promise<T>;
  /** Milliseconds of work so far, rests left out, and the longest slice. */
  facts(): { busy_ms: number; longest_ms: number; count: number };
};

const ticks_of_a_look = 4;

export function createSlices(clock: Pick<Clock, 'monotonic' | 'sleep'>, slice_ms: number): Slices {
  let began = clock.monotonic();
  let ticks = 0;
  const done = { busy_ms: 0, longest_ms: 0, count: 0 };
  const close = () => {
    const took = clock.monotonic() - began;
    done.busy_ms += took;
    done.longest_ms = Math.max(done.longest_ms, took);
    done.count += 1;
  };
  const isOver = () => clock.monotonic() - began >= slice_ms;
  return {
    isOver,
    tick() {
      ticks += 1;
      return ticks % ticks_of_a_look === 0 && isOver();
    },
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
