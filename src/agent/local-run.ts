/**
 * A run as this machine's agent knows it, between the driver's facts and the control plane's
 * wishes.
 */
import type { DesiredRun, ObservedRun } from '../contract/sync.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import { type RunExit, type RunKey, runName } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import type { Stages } from './stages.ts';

export type Phase = ObservedRun['state'];

/** How a run ended, and why, as far as anybody saw. */
export type RunEnd = {
  exit: RunExit | null;
  reason: ReasonCode | null;
  details: Details;
  log_tail: string | null;
};

export type LocalRun = {
  run: RunKey;
  driver: string;
  phase: Phase;
  /** Its driver knows of it: it is taken over, not begun. */
  is_there: boolean;
  stages: Stages;
  end: RunEnd | null;
  /** Programs of it that were ended for lack of memory. */
  oom_kills: number;
  /** What the guard does to it now; left out where it is left alone. */
  guarded?: ObservedRun['guarded'];
  /** For how long it stood still in all, without what goes on since `paused_mono`. */
  paused_ms?: number;
  paused_mono?: number;
  /** When it was seen to end while it was watched, on this agent's monotonic clock. */
  ended_mono?: number;
  /** Ends what is being done for it (bringing it up, watching it). */
  stopping: AbortController;
  /** Settles when nothing is being done for it any more. */
  work: Promise<void>;
};

export function keyOf(desired: DesiredRun): RunKey {
  const { workload_id, replica, run_epoch } = desired;
  return { workload_id, replica, run_epoch };
}

/** What is reported of it. */
export function observedOf(local: LocalRun, clock: Pick<Clock, 'monotonic'>): ObservedRun {
  const { ended_mono } = local;
  return {
    ...local.run,
    state: local.phase,
    stages: local.stages.list(),
    exit: local.end?.exit ?? null,
    reason: local.end?.reason ?? null,
    details: local.end?.details ?? {},
    log_tail: local.end?.log_tail ?? null,
    ...(local.guarded === undefined ? {} : { guarded: local.guarded }),
    ...(local.paused_ms === undefined ? {} : { paused_ms: Math.floor(local.paused_ms) }),
    ...(local.oom_kills === 0 ? {} : { oom_kills: local.oom_kills }),
    ended_ago_ms:
      ended_mono === undefined || local.end === null
        ? null
        : Math.max(0, Math.floor(clock.monotonic() - ended_mono)),
  };
}

export { runName };
