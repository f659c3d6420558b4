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

/** The timer looks at least so often: a request that is short sets it once, whatever is due late. */
const look_ms = 30_000;

export function createDeadlines(clock: Pick<Clock, 'after' | 'monotonic'>): Deadlines {
  return new Kept(clock);
}

/** A class, for each open request has one. */
class Kept implements Deadlines {
  readonly #clock: Pick<Clock, 'after' | 'monotonic'>;
  readonly #pending: Record<DeadlineKind, Pending> = {
    ...{ silence: none, ping: none, hold: none, total: none },
  };
  /** When the timer fires, and how to call it off. */
  #timer_at = Number.POSITIVE_INFINITY;
  #cancel: (() => void) | null = null;

  constructor(clock: Pick<Clock, 'after' | 'monotonic'>) {
    this.#clock = clock;
  }

  set(kind: DeadlineKind, ms: number, fire: () => void): void {
    const now = this.#clock.monotonic();
    this.#pending[kind] = { at: now + ms, ms, fire };
    this.#aim(now + ms, now);
  }

  touch(kind: DeadlineKind): void {
    const one = this.#pending[kind];
    if (one !== none) one.at = this.#clock.monotonic() + one.ms;
  }

  clear(kind: DeadlineKind): void {
    this.#pending[kind] = none;
  }

  stop(): void {
    for (const kind of deadlineKinds) this.#pending[kind] = none;
    this.#timer_at = Number.POSITIVE_INFINITY;
    this.#cancel?.();
    this.#cancel = null;
  }

  #aim(due: number, now: number): void {
    const at = Math.min(due, now + look_ms);
    if (at >= this.#timer_at) return;
    this.#cancel?.();
    this.#timer_at = at;
    this.#cancel = this.#clock.after(at - now, () => this.#look());
  }

  #look(): void {
    this.#timer_at = Number.POSITIVE_INFINITY;
    const now = this.#clock.monotonic();
    for (const kind of deadlineKinds) {
      const { at, fire } = this.#pending[kind];
      if (at > now) continue;
      this.#pending[kind] = none;
      fire();
    }
    const next = Math.min(...deadlineKinds.map((kind) => this.#pending[kind].at));
    if (next !== Number.POSITIVE_INFINITY) this.#aim(next, this.#clock.monotonic());
  }
}
