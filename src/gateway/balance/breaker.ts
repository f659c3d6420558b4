/**
 * A breaker: whether a run that failed of late is asked again.
 *
 * Invariants: only what its engine or the way to it did trips it, never a client (a 4xx, a client
 * that left); a few failures in a row open it, a connection that could not be opened does at once;
 * after a while, longer each time, one request is let through as a probe, and its answer decides.
 * Pure: whoever holds one brings the time (monotonic milliseconds).
 */
import { limits } from '../../contract/limits.ts';

export type Breaker = {
  /** In a row. */
  failures: number;
  /** Null: never. */
  failed_at: number | null;
  /** How often it opened since it last worked; 0: it is closed. */
  opened: number;
  open_until: number;
  /** Probes that are under way. */
  probes: number;
};

export const breaker_states = ['closed', 'half_open', 'open'] as const;
export type BreakerState = (typeof breaker_states)[number];

export function newBreaker(): Breaker {
  return { failures: 0, failed_at: null, opened: 0, open_until: 0, probes: 0 };
}

export function breakerState({ opened, open_until }: Breaker, now: number): BreakerState {
  if (opened === 0) return 'closed';
  return now < open_until ? 'open' : 'half_open';
}

/** Another request may go to it. */
export function lets(breaker: Breaker, now: number): boolean {
  const state = breakerState(breaker, now);
  return state === 'closed' || (state === 'half_open' && breaker.probes === 0);
}

export function worked(breaker: Breaker): void {
  breaker.failures = 0;
  breaker.opened = 0;
}

/** `is_certain`: another one would fail as well, so one is enough. */
export function failed(breaker: Breaker, now: number, is_certain: boolean): void {
  breaker.failures += 1;
  breaker.failed_at = now;
  const is_enough = is_certain || breaker.failures >= limits.breaker_failures;
  const state = breakerState(breaker, now);
  // While it is open, what fails was begun before: that says nothing new.
  if (state === 'open' || (state === 'closed' && !is_enough)) return;
  const open_ms = limits.breaker_open_ms * 2 ** Math.min(breaker.opened, 10);
  breaker.opened += 1;
  breaker.open_until = now + Math.min(open_ms, limits.longest_breaker_ms);
}
