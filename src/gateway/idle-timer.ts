/**
 * A timer for silence: each sign of life starts it anew.
 *
 * Invariants: at most one deadline is pending; after `stop` nothing fires. The gateway has its own
 * because the hidden ones of HTTP clients cut long prompts off and cannot be told apart by phase.
 */
import type { Clock } from '../lib/clock.ts';

export type IdleTimer = {
  /** Calls `onSilence` in `ms`, unless started again or stopped before. */
  start(ms: number, onSilence: () => void): void;
  stop(): void;
};

export function createIdleTimer(clock: Pick<Clock, 'after'>): IdleTimer {
  let cancel = () => {};
  return {
    start(ms, onSilence) {
      cancel();
      cancel = clock.after(ms, onSilence);
    },
    stop() {
      cancel();
      cancel = () => {};
    },
  };
}
