/**
 * What one key, user or model has used in the last minute and has going on, and whether one
 * request more fits its limits.
 *
 * Invariants: what a request has reserved counts as long as it goes on, what it used a minute from
 * its settlement; so where no request uses more than it reserved, no minute sees more than the
 * limit. `judge` changes nothing.
 */
import type { RequestUse } from '../../contract/request-limits.ts';
import type { LimitedKind, RequestLimitName, RequestLimits } from '../../core/request-limits.ts';
import { createPace, type Pace } from './pace.ts';
import { createWindow, minute_ms, type Window } from './window.ts';

export type Tally = {
  requests: Window;
  tokens: Window;
  /** Requests that go on, and the tokens that they have reserved. */
  open: number;
  reserved: number;
  /** How long its requests take. */
  pace: Pace;
};

export function createTally(): Tally {
  const windows = { requests: createWindow(), tokens: createWindow() };
  return { ...windows, open: 0, reserved: 0, pace: createPace() };
}

export type CountedKind = 'key' | LimitedKind;

/** One of those for whom a request counts; `name` of a model alone. */
export type Part = { kind: CountedKind; name: string; tally: Tally; limits: RequestLimits };

/** `wait_ms`: when it would fit, as far as that is known; null: never. */
export type Over = { what: RequestLimitName; limit: number; wait_ms: number | null };

/** A guess of when something that goes on ends is kept between these. */
const shortest_guess_ms = 100;
const longest_guess_ms = 30_000;

/** Which limits one request more, that may use so many tokens, is over. */
export function judge(tally: Tally, limits: RequestLimits, tokens: number, now_ms: number): Over[] {
  const { rpm, tpm, concurrency } = limits;
  const over: Over[] = [];
  if (tpm !== null && tokens > tpm) return [{ what: 'tpm', limit: tpm, wait_ms: null }];
  if (rpm !== null && tally.requests.sum(now_ms) + 1 > rpm) {
    const wait_ms = tally.requests.fallsTo(now_ms, rpm - 1);
    over.push({ what: 'rpm', limit: rpm, wait_ms });
  }
  if (tpm !== null && tally.tokens.sum(now_ms) + tally.reserved + tokens > tpm) {
    const room = tpm - tokens - tally.reserved;
    // Where what goes on holds too much, waiting for the past to be forgotten is not enough.
    const wait_ms = room < 0 ? endsIn(tally, 1) : tally.tokens.fallsTo(now_ms, room);
    over.push({ what: 'tpm', limit: tpm, wait_ms });
  }
  if (concurrency !== null && tally.open + 1 > concurrency) {
    const wait_ms = endsIn(tally, concurrency);
    over.push({ what: 'concurrency', limit: concurrency, wait_ms });
  }
  return over;
}

/** When one of so many that go on probably ends. */
function endsIn({ pace }: Tally, at_work: number): number {
  const guess = pace.mean_ms() / at_work;
  return Math.min(longest_guess_ms, Math.max(shortest_guess_ms, guess));
}

export function useOf(tally: Tally, now_ms: number): RequestUse {
  return {
    requests: tally.requests.sum(now_ms),
    tokens: tally.tokens.sum(now_ms) + tally.reserved,
    concurrency: tally.open,
  };
}

/** Nothing of it counts any more: it is as good as new. */
export function isIdle(tally: Tally, now_ms: number): boolean {
  const { requests, tokens, concurrency } = useOf(tally, now_ms);
  return requests === 0 && tokens === 0 && concurrency === 0;
}

/** What is left of a limit, never less than nothing. */
export function leftOf(
  tally: Tally,
  sort: 'requests' | 'tokens',
  limit: number,
  now_ms: number,
): number {
  const held = sort === 'tokens' ? tally.reserved : 0;
  return Math.max(0, limit - tally[sort].sum(now_ms) - held);
}

/** When all of it that counts now counts no more. */
export function resetsIn(tally: Tally, sort: 'requests' | 'tokens', now_ms: number): number {
  if (sort === 'tokens' && tally.reserved > 0) return minute_ms;
  return tally[sort].fallsTo(now_ms, 0);
}
