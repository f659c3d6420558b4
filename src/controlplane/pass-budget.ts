/**
 * How much of the time passes of the controller may take: what was not used is saved up.
 */
import type { Clock } from '../lib/clock.ts';

/** Passes may take a twentieth of the time, and this much at once where they took less before. */
const time_share = 0.05;
const saved_limit_ms = 100;
const rest_limit_ms = 2000;

/** Time saved up for passes: a single launch is decided at once, a thousand a second together. */
export function createBudget(clock: Clock): { spend(busy_ms: number): void; rest_ms(): number } {
  let saved_ms = saved_limit_ms;
  let counted_at = clock.monotonic();
  return {
    spend(busy_ms) {
      const now = clock.monotonic();
      saved_ms = Math.min(saved_limit_ms, saved_ms + (now - counted_at) * time_share) - busy_ms;
      counted_at = now;
    },
    rest_ms: () => (saved_ms >= 0 ? 0 : Math.min(rest_limit_ms, -saved_ms / time_share)),
  };
}
