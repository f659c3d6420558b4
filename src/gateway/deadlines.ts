/**
 * What may happen to one request by the mere passing of time.
 *
 * Invariants: of each kind one at most is pending; after `clear` or `stop` nothing fires; one timer
 * runs for all of them and is set anew only where a nearer one comes, so that moving a deadline
 * with each chunk of an answer costs a look at the clock.
 */
import type { Clock } from '../lib/clock.ts';

/**
 * silence: of whoever is waited for now; ping: the client's, which gets a comment; hold: until a
 * client is told that it is waited for; total: of all of it.
 */
export const deadlineKinds = ['silence', 'ping', 'hold', 'total'] as const;
export type DeadlineKind = (typeof deadlineKinds)[number];

export type Deadlines = {
  /** Calls `fire` in `ms`, in place of what was pending of this kind. */
  set(kind: DeadlineKind, ms: number, fire: () => void): void;
  /** Starts its wait anew, where it is pending. */
  touch(kind: DeadlineKind): void;
  clear(kind: DeadlineKind): void;
  stop(): void;
};

type Pending = { at: number; ms: number; fire: () => void };

const none: Pending = { at: Number.POSITIVE_INFINITY, ms: 0, fire: () => {} };

export function createDeadlines(clock: Pick<Clock, 'after' | 'monotonic'>): Deadlines {
  const pending: Record<DeadlineKind, Pending> = {
    silence: none,
    ping: none,
    hold: none,
    total: none,
  };
  /** When the timer fires, and how to call it off. */
  let timer_at = Number.POSITIVE_INFINITY;
  let cancel = () => {};

  function aim(at: number, now: number): void {
    if (at >= timer_at) return;
    cancel();
    timer_at = at;
    cancel = clock.after(at - now, look);
  }

  function look(): void {
    timer_at = Number.POSITIVE_INFINITY;
    const now = clock.monotonic();
    for (const kind of deadlineKinds) {
      const { at, fire } = pending[kind];
      if (at > now) continue;
      pending[kind] = none;
      fire();
    }
    const next = Math.min(...deadlineKinds.map((kind) => pending[kind].at));
    if (next !== Number.POSITIVE_INFINITY) aim(next, clock.monotonic());
  }

  return {
    set(kind, ms, fire) {
      const now = clock.monotonic();
      pending[kind] = { at: now + ms, ms, fire };
      aim(now + ms, now);
    },
    touch(kind) {
      const one = pending[kind];
      if (one !== none) one.at = clock.monotonic() + one.ms;
    },
    clear(kind) {
      pending[kind] = none;
    },
    stop() {
      for (const kind of deadlineKinds) pending[kind] = none;
      timer_at = Number.POSITIVE_INFINITY;
      cancel();
    },
  };
}
