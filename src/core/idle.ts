/**
 * Whether nobody uses a run: what samples and requests tell of it, and what follows (ADR-0048).
 *
 * Invariants: what cannot be measured counts as use; idle time is only what samples stand for, one
 * after the other without a gap, so neither a clock that steps nor a time in which nobody looked
 * makes anything idle; a new run, a use and the first look of an agent begin anew; nothing is
 * stopped that was not warned of before.
 */
import type { RunSample } from '../contract/sync.ts';

/** Of one workload, as far as its current run is concerned. */
export type IdleState = {
  run_epoch: number;
  /** For so long it was seen to be unused. */
  idle_ms: number;
  /** Up to which moment of its agent's monotonic clock it was looked at; null before that. */
  seen_ms: number | null;
  /** Quiet time that does not count yet: what was not written down before a restart. */
  debt_ms: number;
  /** `idle_ms` when it was warned of. */
  warned_ms: number | null;
  /** What of it could last be seen, where that was use. */
  busy_with: Activity | null;
};

export type Activity = 'start' | 'cpu' | 'gpu' | 'kernels' | 'request' | 'unmeasured';

export type Thresholds = { cpu_millis: number; gpu_percent: number };

/** What a sample shows of use; null where all of it was measured and quiet. */
export function activityIn(
  sample: Pick<RunSample, 'span_ms' | 'cpu_millis' | 'gpus' | 'used'>,
  gpu_count: number,
  { cpu_millis, gpu_percent }: Thresholds,
): Activity | null {
  const { gpus, used } = sample;
  if (sample.span_ms <= 0) return 'start';
  const busy = gpus?.map((gpu) => gpu.busy_percent) ?? [];
  if (sample.cpu_millis !== null && sample.cpu_millis >= cpu_millis) return 'cpu';
  if (busy.some((percent) => percent !== null && percent >= gpu_percent)) return 'gpu';
  if (used === true) return 'kernels';
  const needs_gpu = gpu_count > 0;
  const is_blind = needs_gpu && (busy.length === 0 || busy.includes(null));
  return sample.cpu_millis === null || used === null || is_blind ? 'unmeasured' : null;
}

export function beginIdle(run_epoch: number, saved?: { idle_ms: number; seen_ms: number | null }) {
  const begun = { run_epoch, debt_ms: 0, warned_ms: null, busy_with: null };
  return { ...begun, idle_ms: 0, seen_ms: null, ...saved } satisfies IdleState;
}

/** It was used just now. */
export function useIt(state: IdleState, busy_with: Activity): IdleState {
  return { ...state, idle_ms: 0, debt_ms: 0, warned_ms: null, busy_with };
}

/**
 * Takes what a sample tells. `ends_ms`: its moment on its agent's monotonic clock; `since_use_ms`:
 * how long before it the workload was last used by a request, by the clock of who heard of both.
 */
export function seeSample(
  state: IdleState,
  sample: { run_epoch: number; span_ms: number; activity: Activity | null },
  ends_ms: number,
  since_use_ms: number,
): IdleState {
  if (sample.run_epoch < state.run_epoch) return state;
  const current = sample.run_epoch > state.run_epoch ? beginIdle(sample.run_epoch) : state;
  if (sample.activity === 'start') return { ...useIt(current, 'start'), seen_ms: ends_ms };
  const { seen_ms } = current;
  if (seen_ms !== null && ends_ms <= seen_ms) return current; // told again
  if (sample.activity !== null) return { ...useIt(current, sample.activity), seen_ms: ends_ms };
  const unseen_ms = seen_ms === null ? sample.span_ms : ends_ms - seen_ms;
  const quiet_ms = Math.max(0, Math.min(sample.span_ms, unseen_ms, since_use_ms));
  const paid_ms = Math.min(current.debt_ms, quiet_ms);
  return {
    ...current,
    idle_ms: current.idle_ms + quiet_ms - paid_ms,
    debt_ms: current.debt_ms - paid_ms,
    seen_ms: ends_ms,
    busy_with: null,
  };
}

export type IdleDecision = { do: 'nothing' | 'warn' | 'stop'; left_ms: number };

/** A warning comes so long before, or half-way where the whole time is short. */
export function judgeIdle(
  state: Pick<IdleState, 'idle_ms' | 'warned_ms'>,
  after_ms: number,
  warning_ms: number,
): IdleDecision {
  const { idle_ms, warned_ms } = state;
  const notice_ms = Math.min(warning_ms, after_ms / 2);
  if (warned_ms === null) {
    const left_ms = Math.max(after_ms - idle_ms, idle_ms >= after_ms - notice_ms ? notice_ms : 0);
    return { do: idle_ms >= after_ms - notice_ms ? 'warn' : 'nothing', left_ms };
  }
  const left_ms = Math.max(after_ms, warned_ms + notice_ms) - idle_ms;
  return { do: left_ms <= 0 ? 'stop' : 'nothing', left_ms: Math.max(0, left_ms) };
}
