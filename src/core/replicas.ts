/**
 * Replicas of an endpoint: what becomes of one that ended, and of the workload with it (ADR-0062).
 *
 * Invariants: pure; the loss of one moves the workload only where no other is ready; a workload
 * fails only where each of its replicas did.
 */
import type { WorkloadMove } from './judge.ts';
import { type Details, type ReasonCode, sentenceOf } from './reasons.ts';
import type { State, StateEvent } from './states.ts';

/** waiting: for a run; placed: it has one that is not proven gone; failed: a person has to look. */
export type ReplicaState = 'waiting' | 'placed' | 'failed';

/** How many of the replicas that are wanted are how far. */
export type Tally = { ready: number; preparing: number; waiting: number; failed: number };

/** The others of a workload than the one that is judged. */
export type Siblings = Tally & {
  /** Runs that have to be proven gone before a stop is: those of replicas that are to go as well. */
  open: number;
  /** When the first of those that wait may be tried again; null where none waits. */
  not_before: number | null;
};

export type ReplicaChange = {
  state: ReplicaState;
  attempts: number;
  not_before: number;
  code: ReasonCode | null;
  details: Details;
};

export type ReplicaNote = { code: ReasonCode; details: Details; extra?: Record<string, unknown> };

/** What has to happen to a workload of which so many are left; null where it goes on as it is. */
export function eventOf(state: State, { ready, preparing, waiting }: Tally): StateEvent | null {
  if (state !== 'running' && state !== 'provisioning') return null;
  if (ready > 0) return null;
  if (preparing > 0) return state === 'running' ? 'unready' : null;
  return waiting > 0 ? 'replace' : 'fail';
}

export type Loss = { replica: ReplicaChange; move: WorkloadMove | null; note: ReplicaNote | null };

/**
 * One of several is lost. `ended` is what would become of the workload if it were the only one.
 */
export function loseReplica(
  state: State,
  which: { replica: number; attempts: number },
  ended: WorkloadMove,
  others: Siblings,
): Loss {
  const is_failed = ended.event === 'fail';
  const { code } = ended;
  const details = ended.details ?? {};
  const not_before = ended.set?.not_before ?? 0;
  const replica: ReplicaChange = {
    state: is_failed ? 'failed' : 'waiting',
    attempts: ended.set?.attempts ?? which.attempts,
    ...{ not_before, code, details },
  };
  const left = {
    ...others,
    waiting: others.waiting + (is_failed ? 0 : 1),
    failed: others.failed + (is_failed ? 1 : 0),
  };
  const why = code === null ? 'it was taken away.' : sentenceOf(code, details);
  const note: ReplicaNote = {
    code: is_failed ? 'replica_failed' : 'replica_lost',
    details: { replica: which.replica, why },
    extra: ended.extra ?? {},
  };
  const event = eventOf(state, left);
  if (event === null) return { replica, move: null, note };
  const first = Math.min(
    is_failed ? Number.POSITIVE_INFINITY : not_before,
    others.not_before ?? Number.POSITIVE_INFINITY,
  );
  const move: WorkloadMove = {
    ...{ event, code: note.code, details: note.details, extra: note.extra },
    ...(event === 'replace' ? { set: { not_before: Number.isFinite(first) ? first : 0 } } : {}),
  };
  return { replica, move, note: null };
}
