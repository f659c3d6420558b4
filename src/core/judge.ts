/**
 * What a machine's report of one run means: a pure decision that the store applies.
 *
 * Invariants: a run that is not the workload's current one never moves the workload; `unknown`
 * proves nothing; a run that ended without being asked is retried with back-off a bounded number of
 * times, unless another attempt cannot help; a stop that is confirmed lets a waiting start go on;
 * of an endpoint with several replicas, one alone moves nothing while another one is ready.
 */
import { formatDuration } from './format.ts';
import { guardWhys } from './guard.ts';
import type { Details, ReasonCode } from './reasons.ts';
import { isReasonCode, sentenceOf } from './reasons.ts';
import { loseReplica, type ReplicaChange, type ReplicaNote, type Siblings } from './replicas.ts';
import type { RunExit } from './run.ts';
import type { State, StateEvent } from './states.ts';

type RunFacts = {
  /** No other run of its replica follows it. */
  current: boolean;
  /** Which of several replicas it is of; the only one where it is left out. */
  replica?: number;
  /** Its replica is to go: it counts only for a stop. */
  surplus?: boolean;
  /** It is to end: left out, it is to run. */
  wanted?: string;
  observed: 'present' | 'absent' | 'unknown';
  ready_at: number | null;
  ended_at: number | null;
  removed_at: number | null;
};

type WorkloadFacts = {
  state: State;
  intent: 'running' | 'stopped' | 'deleted';
  attempts: number;
  park_cause?: string;
  idle_after_ms?: number;
  /** Why it is as it is, and the details of that as JSON. */
  code?: string | null;
  details?: string;
  /** An endpoint where it is left out. */
  kind?: string;
  /** Where its disk is; nothing of it goes elsewhere. */
  home_machine_id?: string | null;
  /** Another machine is there that may be tried; left out: none. */
  others?: boolean;
  /** How its other replicas stand; null or left out where it has one alone. */
  siblings?: Siblings | null;
  /** How often its replica was tried, where it has several; `attempts` is of one alone. */
  several?: boolean;
};

type Reported = {
  state: 'preparing' | 'ready' | 'ended' | 'parked' | 'removed' | 'unknown';
  stages: Record<string, string | number | null>[];
  exit: RunExit | null;
  reason: string | null;
  details: Details;
  log_tail: string | null;
};

export type Verdict = {
  observed: 'present' | 'absent' | 'unknown';
  ready: boolean;
  ended: boolean;
  removed: boolean;
  moves: WorkloadMove[];
  /** What becomes of its replica, where there are several. */
  replica: ReplicaChange | null;
  /** What the timeline has to say beside the moves. */
  note: ReplicaNote | null;
};

export type WorkloadMove = {
  event: StateEvent;
  code: ReasonCode | null;
  details?: Details;
  extra?: Record<string, unknown>;
  set?: { park_cause?: string; attempts?: number; not_before?: number };
};

/** How often a run may end by itself before a person is asked. */
export const attempt_limit = 3;
/** A run that was ready this long has earned its attempts back. */
export const steady_ms = 10 * 60_000;

/** Reasons that another attempt on the same machine would only repeat. */
const hopeless = new Set<ReasonCode>([
  'sandbox_missing',
  'cap_missing',
  'python_missing',
  'download_corrupt',
  'disk_full',
  'model_file_unreadable',
  'model_file_invalid',
  'model_source_unsupported',
  'unknown_model',
  'out_of_memory',
  'engine_never_ready',
  'isolation_not_allowed',
  // What a hub or a server refused stays so until a person does something.
  'source_refused',
  'source_address_refused',
  'source_redirect_refused',
  'source_not_found',
  'source_access_refused',
  'source_size_unknown',
  'source_not_a_model',
  'hub_token_refused',
  'hub_gated',
  'hub_repo_not_found',
  'hub_revision_not_found',
  'hub_file_not_found',
  'hub_repo_disabled',
  'model_choice_needed',
  'model_files_missing',
  'model_file_unsafe',
  'model_parts_missing',
  'model_corrupt',
  'no_engine_for_format',
  // An image is what it is, and so is a secret that is gone.
  'image_not_found',
  'image_not_built',
  'image_refused',
  'fence_missing',
  'gpu_not_injected',
  'container_name_taken',
  'volume_name_taken',
  'environment_missing',
  'instance_exited_at_once',
  'notebook_never_ready',
  'unknown_secret',
]);

/** Those of them that are the machine's: another one may do. */
export const machine_faults: ReadonlySet<ReasonCode> = new Set<ReasonCode>([
  'sandbox_missing',
  'cap_missing',
  'python_missing',
  'disk_full',
  'isolation_not_allowed',
  'image_not_built',
  'fence_missing',
  'gpu_not_injected',
  'container_name_taken',
  'volume_name_taken',
  'environment_missing',
]);

/** What the guard or the policy of the machine says (ADR-0061). */
const owners_word = new Set<ReasonCode>([
  ...guardWhys,
  'machine_guarded',
  'machine_low',
  'refused_by_machine',
]);
/** Until the machine's word is known to placement. */
const owners_wait_ms = 10_000;

/** Returns null where the report says nothing new. */
export function judgeReport(
  run: RunFacts,
  workload: WorkloadFacts,
  reported: Reported,
  at: { now: number; machine: string },
): Verdict | null {
  if (reported.state === 'unknown') {
    const known = run.observed !== 'unknown' && run.ended_at === null;
    return known ? verdict('unknown', {}) : null;
  }
  if (reported.state === 'preparing' || reported.state === 'ready') {
    return judgePresent(run, workload, reported, at.machine);
  }
  const removed = reported.state === 'removed';
  if (run.ended_at !== null) {
    return removed ? verdict('absent', { ended: true, removed: true }) : null;
  }
  const moves = run.current ? movesOnEnd(run, workload, reported, at) : [];
  const end = { ended: true, removed };
  if (!isOfSeveral(run, workload)) return verdict('absent', { ...end, moves });
  return verdict('absent', { ...end, ...lossOf(run, workload, reported, at) });
}

/** Whether its end is that of one replica among others, and not of a workload that is to stop. */
function isOfSeveral(run: RunFacts, { several, state }: WorkloadFacts): boolean {
  const is_up = state === 'provisioning' || state === 'running';
  const is_over = !is_up && state !== 'pending' && state !== 'queued';
  return several === true && run.current && run.surplus !== true && !is_over;
}

function lossOf(
  run: RunFacts,
  workload: WorkloadFacts,
  reported: Reported,
  at: { now: number; machine: string },
): Pick<Verdict, 'moves' | 'replica' | 'note'> {
  const { siblings, state, attempts } = workload;
  if (siblings === undefined || siblings === null) throw new Error('several have siblings');
  const details = { machine: at.machine };
  const asked_away: WorkloadMove = { event: 'replace', code: null, details };
  const is_asked = run.wanted !== undefined && run.wanted !== 'run';
  const ended = is_asked ? asked_away : endedByItself(run, workload, reported, at);
  const which = { replica: run.replica ?? 0, attempts };
  const { replica, move, note } = loseReplica(state, which, ended, siblings);
  return { replica, moves: move === null ? [] : [move], note };
}

function judgePresent(
  run: RunFacts,
  workload: WorkloadFacts,
  reported: Reported,
  machine: string,
): Verdict | null {
  if (run.ended_at !== null) return null; // an older word: the end is proven
  const ready = reported.state === 'ready';
  if (run.observed === 'present' && (!ready || run.ready_at !== null)) return null;
  const counts = run.current && run.surplus !== true;
  const first = ready && run.ready_at === null && counts && workload.state === 'provisioning';
  const moves: WorkloadMove[] = first
    ? [{ event: 'ready', code: null, extra: { stages: reported.stages } }]
    : [];
  const beside = ready && run.ready_at === null && counts && workload.state === 'running';
  const details = { replica: run.replica ?? 0, machine };
  const extra = { stages: reported.stages };
  const note = beside ? { code: 'replica_ready' as const, details, extra } : null;
  return verdict('present', { ready, moves, note });
}

function movesOnEnd(
  run: RunFacts,
  workload: WorkloadFacts,
  reported: Reported,
  at: { now: number; machine: string },
): WorkloadMove[] {
  if (workload.state === 'stopping') {
    if ((workload.siblings?.open ?? 0) > 0) return [];
    if (workload.intent === 'running' && workload.park_cause === 'idle') {
      const for_room = workload.code === 'parked_for_room' ? workload.details : undefined;
      if (for_room !== undefined) {
        const details = JSON.parse(for_room) as Details;
        return [{ event: 'parked', code: 'parked_for_room', details }];
      }
      const details = { idle: formatDuration(workload.idle_after_ms ?? 0) };
      return [{ event: 'parked', code: 'idle_stopped', details }];
    }
    const is_preempted = workload.intent === 'running' && workload.park_cause === 'preempted';
    const has_home = (workload.home_machine_id ?? null) !== null;
    if (is_preempted && has_home && workload.code === 'preempted') {
      return [{ event: 'parked', code: 'preempted_waits', details: { machine: at.machine } }];
    }
    // Why it may not run there (any more) is still so once it has ended, and no person's doing.
    const lost = trust_codes.find((code) => code === workload.code) ?? null;
    const is_lost = workload.intent === 'stopped' && workload.park_cause === 'trust';
    const parked: WorkloadMove = { event: 'parked', code: is_lost ? lost : null };
    const again: WorkloadMove = {
      event: 'start',
      code: null,
      // What its machine's owner did to it is no attempt, and forgives none.
      set: is_preempted
        ? { park_cause: 'none', not_before: 0 }
        : { park_cause: 'none', attempts: 0, not_before: 0 },
    };
    return workload.intent === 'running' ? [parked, again] : [parked];
  }
  if (run.surplus === true || workload.several === true) return [];
  if (workload.state !== 'provisioning' && workload.state !== 'running') return [];
  return [endedByItself(run, workload, reported, at)];
}

const trust_codes: readonly ReasonCode[] = [
  'trust_lost',
  'creator_disabled',
  'tenant_was_disabled',
];

function endedByItself(
  run: RunFacts,
  workload: WorkloadFacts,
  reported: Reported,
  at: { now: number; machine: string },
): WorkloadMove {
  const code = reasonOf(reported, workload.kind);
  const details: Details = {
    machine: at.machine,
    how: howItEnded(reported.exit),
    ...reported.details,
  };
  const extra = { exit: reported.exit, stages: reported.stages, log_tail: reported.log_tail };
  const steady = run.ready_at !== null && at.now - run.ready_at >= steady_ms;
  const attempts = (steady ? 0 : workload.attempts) + 1;
  // The machine's owner needs it: nobody's failure, and no attempt.
  if (owners_word.has(code)) {
    return { event: 'replace', code, details, extra, set: { not_before: at.now + owners_wait_ms } };
  }
  if (code === 'machine_rebooted' || code === 'machine_fenced') {
    return { event: 'replace', code, details, extra, set: { not_before: 0 } };
  }
  const is_hopeless = hopeless.has(code) && !(workload.others && machine_faults.has(code));
  if (is_hopeless || isFinished(code, reported.exit))
    return { event: 'fail', code, details, extra, set: { attempts } };
  if (attempts >= attempt_limit) {
    const last = sentenceOf(code, details);
    const why = { ...details, count: attempts, last };
    return { event: 'fail', code: 'too_many_restarts', details: why, extra, set: { attempts } };
  }
  const not_before = at.now + backOff_ms(attempts);
  return { event: 'replace', code, details, extra, set: { attempts, not_before } };
}

/** A program that came to its own good end would only do all of it again. */
function isFinished(code: ReasonCode, exit: RunExit | null): boolean {
  return code === 'instance_exited' && exit?.code === 0;
}

/** No back-off lasts longer. */
export const back_off_limit_ms = 60_000;

/** 1 s after the first attempt, then four times as long each time. */
export function backOff_ms(attempts: number): number {
  return Math.min(back_off_limit_ms, 1000 * 4 ** (attempts - 1));
}

function reasonOf(reported: Reported, kind: string | undefined): ReasonCode {
  if (reported.exit?.out_of_memory) return 'out_of_memory';
  if (reported.reason !== null && isReasonCode(reported.reason)) return reported.reason;
  if (reported.exit === null) return 'run_vanished';
  if (kind === 'notebook') return 'notebook_exited';
  return kind === 'instance' ? 'instance_exited' : 'engine_exited';
}

/** "exit code 1", "signal SIGSEGV", "nobody saw how". */
export function howItEnded(exit: RunExit | null): string {
  if (exit === null) return 'nobody saw how';
  if (exit.signal !== null) return `signal ${exit.signal}`;
  return exit.code === null ? 'nobody saw how' : `exit code ${exit.code}`;
}

const no_change = { replica: null, note: null };

function verdict(observed: Verdict['observed'], more: Partial<Verdict>): Verdict {
  return { observed, ready: false, ended: false, removed: false, moves: [], ...no_change, ...more };
}
