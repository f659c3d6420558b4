/**
 * What a decision of the guard means for each run here: pure.
 *
 * Invariants: a run of the machine's owner is left alone unless the owner said otherwise; what has
 * a GPU is never made to stand still or given less CPU, for that would free nothing of it; who was
 * told to go is not made to stand still meanwhile, and who stands still is not woken to be told.
 */
import { type GuardLevel, type GuardWhy, guard_parks } from '../../core/guard.ts';
import type { RunKey } from '../../core/run.ts';
import type { GuardDecision } from './decide.ts';

/** How a run is treated; usual: as if there were no guard. */
export type Treatment = 'usual' | 'lowered' | 'paused';

export type GuardedRun = {
  run: RunKey;
  is_guest: boolean;
  has_gpu: boolean;
  treatment: Treatment;
};

const lowers: GuardLevel = 2;
const pauses: GuardLevel = 3;

export function treatmentOf(decision: GuardDecision, one: GuardedRun): Treatment {
  const { level, everyone } = decision;
  const is_meant = one.is_guest || everyone;
  if (!is_meant || one.has_gpu || level < lowers) return 'usual';
  if (level < pauses) return 'lowered';
  // The owner's own are never parked by the guard: standing still is the most that is done.
  if (level < guard_parks || !one.is_guest) return 'paused';
  return one.treatment === 'paused' ? 'paused' : 'lowered';
}

/** Runs that are to be treated otherwise than they are now. */
export function changesOf(
  decision: GuardDecision,
  runs: readonly GuardedRun[],
): { run: RunKey; to: Treatment; why: GuardWhy | null }[] {
  return runs.flatMap((one) => {
    const to = treatmentOf(decision, one);
    return to === one.treatment ? [] : [{ run: one.run, to, why: decision.why[0] ?? null }];
  });
}

/**
 * Guests that the agent parks by itself, because nobody answers who would: at once at level 5,
 * after their grace at level 4.
 */
export function parkAlone(
  { level, why, grace_ms }: GuardDecision,
  runs: readonly GuardedRun[],
  facts: { parking_since: number | null; is_alone: boolean; now: number },
): { run: RunKey; why: GuardWhy }[] {
  const [first] = why;
  const { parking_since, is_alone, now } = facts;
  if (!is_alone || first === undefined || parking_since === null || level < guard_parks) return [];
  if (level === guard_parks && now - parking_since < grace_ms) return [];
  return runs.filter(({ is_guest }) => is_guest).map(({ run }) => ({ run, why: first }));
}
