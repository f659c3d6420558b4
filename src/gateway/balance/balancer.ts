/**
 * Which of an endpoint's replicas a request goes to (ADR-0067).
 *
 * Invariants: of those that work and have a slot free, the one with the fewest requests, equal ones
 * by chance; none gets more than its slots while another has one free; a request that begins like
 * an earlier one goes where that went, as long as that one is not busier by more than a little;
 * one that is suspect or failed of late only gets what no other can take, and where all failed the
 * one that failed longest ago is asked: there is always an answer while there is a replica. What
 * was begun counts until it has ended, once, however it ended.
 */
import { limits } from '../../contract/limits.ts';
import { type RunKey, runName } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Random } from '../../lib/random.ts';
import type { Replica } from '../endpoint.ts';
import { affinityScore } from './affinity.ts';
import {
  type Breaker,
  type BreakerState,
  breakerState,
  failed,
  lets,
  newBreaker,
  worked,
} from './breaker.ts';
import { counted, newPace, type Pace, perMinute } from './pace.ts';
import { begun, ended, isSuspect, moved, newProgress, type Progress } from './progress.ts';

/**
 * answered: whole; failed: its engine broke, was silent, or answered with an error of its own;
 * unreachable: no connection could be opened; refused: its engine blamed the client (4xx); left:
 * the client went first.
 */
export type OutingEnd = 'answered' | 'failed' | 'unreachable' | 'refused' | 'left';

/** One request with one run. */
export type Outing = {
  /** A token or a result came. */
  progress(): void;
  /** The first call counts. `code`: of what went wrong, as the client would get it. */
  ended(how: OutingEnd, code?: string): void;
};

/** How a run stands with the gateway. */
export type Standing = {
  /** Requests that are with it now, and those of the last minute. */
  outstanding: number;
  per_minute: number;
  breaker: BreakerState;
  /** It has had requests for a while, and gave nothing to any of them. */
  is_suspect: boolean;
  /** `at` in milliseconds since 1970. */
  last_failure: { at: number; code: string } | null;
};

export type Choice = {
  /** Names (`runName`) of runs that were asked already. */
  not: ReadonlySet<string>;
  affinity: string | null;
};

export type Balancer = {
  /** Null only where `not` has all of them. What is chosen is to be begun in the same turn. */
  choose<One extends Pick<Replica, 'run' | 'slots'>>(
    replicas: readonly One[],
    choice: Choice,
  ): One | null;
  begin(run: RunKey): Outing;
  /** Requests that may be with these at once without one waiting in an engine. */
  capacity(replicas: readonly Pick<Replica, 'run' | 'slots'>[]): number;
  look(run: RunKey): Standing;
};

type Load = {
  breaker: Breaker;
  progress: Progress;
  pace: Pace;
  last_failure: Standing['last_failure'];
};
type Clocks = Pick<Clock, 'now' | 'monotonic'>;

/** Best first; only within the first does affinity count. */
type Rank = 'free' | 'full' | 'suspect' | 'open';
const ranks: readonly Rank[] = ['free', 'full', 'suspect', 'open'];

export type WatchedBalancer = Balancer & {
  /** How many runs it knows of late, by the state of their breakers. */
  breakers(): Record<BreakerState, number>;
  /** It failed several times in a row of late, or gives no token: its machine should look at it. */
  isDoubted(run: RunKey): boolean;
};

export function createBalancer(random: Random, clock: Clocks): WatchedBalancer {
  const loads = new Map<string, Load>();

  function rank(run: RunKey, slots: number | null, now: number): Rank {
    const load = loads.get(runName(run));
    if (load === undefined) return 'free';
    if (!lets(load.breaker, now)) return 'open';
    if (isSuspect(load.progress, now)) return 'suspect';
    return slots !== null && load.progress.outstanding >= slots ? 'full' : 'free';
  }

  /** Less is better, among those of one rank. */
  function weight(rank: Rank, run: RunKey, slots: number | null): number {
    const load = loads.get(runName(run));
    if (load === undefined) return 0;
    if (rank === 'open') return load.breaker.failed_at ?? 0;
    const { outstanding } = load.progress;
    // Where each has to wait, it waits shortest where the fewest wait for a slot.
    return rank === 'full' ? outstanding / (slots ?? 1) : outstanding;
  }

  return {
    choose(replicas, { not, affinity }) {
      const now = clock.monotonic();
      const left = not.size === 0 ? replicas : replicas.filter(({ run }) => !not.has(runName(run)));
      if (left.length < 2) return left[0] ?? null;
      const ranked = left.map((one) => ({ one, rank: rank(one.run, one.slots, now) }));
      const best = ranks.find((rank) => ranked.some((each) => each.rank === rank)) ?? 'open';
      const weighed = ranked
        .filter((each) => each.rank === best)
        .map(({ one }) => ({ one, weight: weight(best, one.run, one.slots) }));
      const least = Math.min(...weighed.map((each) => each.weight));
      if (affinity !== null && best === 'free') {
        const allowed = weighed.filter((each) => each.weight <= least + slack(each.one.slots));
        return (
          preferred(
            affinity,
            allowed.map(({ one }) => one),
          ) ?? null
        );
      }
      const equal = weighed.filter((each) => each.weight === least);
      return equal[pick(random, equal.length)]?.one ?? null;
    },
    begin(run) {
      const load = loads.get(runName(run)) ?? fresh(loads, run, clock.monotonic());
      return beginOuting(load, clock);
    },
    capacity(replicas) {
      const now = clock.monotonic();
      const works = replicas.filter(({ run, slots }) => rank(run, slots, now) !== 'open');
      const usable = works.length > 0 ? works : replicas.slice(0, 1);
      return usable.reduce((sum, { slots }) => sum + (slots ?? Number.POSITIVE_INFINITY), 0);
    },
    isDoubted: (run) => isDoubtful(loads.get(runName(run)), clock.monotonic()),
    breakers: () => breakersOf(loads, clock.monotonic()),
    look(run) {
      const now = clock.monotonic();
      const load = loads.get(runName(run)) ?? newLoad(now);
      return {
        outstanding: load.progress.outstanding,
        per_minute: perMinute(load.pace, now),
        breaker: breakerState(load.breaker, now),
        is_suspect: isSuspect(load.progress, now),
        last_failure: load.last_failure,
      };
    },
  };
}

function isDoubtful(load: Load | undefined, now: number): boolean {
  if (load === undefined) return false;
  const { breaker, progress } = load;
  const failed_of_late = now - (breaker.failed_at ?? 0) < limits.doubt_ms;
  return (breaker.opened > 0 && failed_of_late) || isSuspect(progress, now);
}

function breakersOf(loads: Map<string, Load>, now: number): Record<BreakerState, number> {
  const counts = { closed: 0, half_open: 0, open: 0 };
  for (const { breaker } of loads.values()) counts[breakerState(breaker, now)] += 1;
  return counts;
}

function beginOuting(load: Load, clock: Clocks): Outing {
  const { breaker, progress, pace } = load;
  const now = clock.monotonic();
  const is_probe = breakerState(breaker, now) === 'half_open';
  if (is_probe) breaker.probes += 1;
  begun(progress, now);
  counted(pace, now);
  return new Begun(load, clock, is_probe);
}

/** A class, for each open answer has one. */
class Begun implements Outing {
  readonly #load: Load;
  readonly #clock: Clocks;
  readonly #is_probe: boolean;
  #is_open = true;

  constructor(load: Load, clock: Clocks, is_probe: boolean) {
    this.#load = load;
    this.#clock = clock;
    this.#is_probe = is_probe;
  }

  progress(): void {
    if (!this.#is_open) return;
    moved(this.#load.progress, this.#clock.monotonic());
    // A probe that gives a token has shown what it was to show.
    if (this.#is_probe) worked(this.#load.breaker);
  }

  ended(how: OutingEnd, code: string = how): void {
    if (!this.#is_open) return;
    this.#is_open = false;
    const { breaker, progress } = this.#load;
    const at = this.#clock.monotonic();
    if (this.#is_probe) breaker.probes -= 1;
    if (how === 'answered') {
      moved(progress, at);
      worked(breaker);
    } else if (how === 'failed' || how === 'unreachable') {
      failed(breaker, at, how === 'unreachable');
      this.#load.last_failure = { at: this.#clock.now(), code };
    }
    ended(progress, at);
  }
}

/** Kept for runs that were asked of late; those at rest are forgotten first. */
function fresh(loads: Map<string, Load>, run: RunKey, now: number): Load {
  if (loads.size >= limits.runs_balanced) {
    for (const [name, { progress }] of loads) {
      if (progress.outstanding === 0) loads.delete(name);
    }
  }
  const load = newLoad(now);
  loads.set(runName(run), load);
  return load;
}

function newLoad(now: number): Load {
  return { breaker: newBreaker(), progress: newProgress(now), pace: newPace(), last_failure: null };
}

/** By how many requests more than the least busy one a replica may be preferred. */
function slack(slots: number | null): number {
  return Math.max(1, Math.floor((slots ?? 0) / 4));
}

function preferred<One extends { run: RunKey }>(affinity: string, all: readonly One[]) {
  const score = ({ run }: One) => affinityScore(affinity, run.replica);
  return all.reduce<One | null>(
    (best, one) => (best === null || score(one) > score(best) ? one : best),
    null,
  );
}

function pick(random: Random, count: number): number {
  if (count < 2) return 0;
  const [byte = 0] = random.bytes(1);
  return byte % count;
}
