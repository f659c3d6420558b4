/**
 * What machines report of their runs, and what a person says of one that cannot speak.
 *
 * Invariants: a hold ends by proof of exit, never by a wish; a superseded run's report changes that
 * run alone; a repeat changes nothing.
 */
import { formatMemory } from '../core/format.ts';
import type { GuardWhy } from '../core/guard.ts';
import { judgeReport, machine_faults, type Verdict } from '../core/judge.ts';
import { isReasonCode } from '../core/reasons.ts';
import { type RunExit, runName } from '../core/run.ts';
import { freeDevices } from './device-holds.ts';
import { type Cause, noteWorkload, type WorkloadRow } from './events.ts';
import { noteGuard } from './guard-notes.ts';
import { closeHeld, closeMetered, correctMetered, openInterval } from './ledger.ts';
import { steadyOf } from './ledger-clock.ts';
import { moveWorkload } from './moves.ts';
import { type Heard, proveRuns } from './proofs.ts';
import { hasSeveral, readReplica, setReplica, settleClaims, siblingsOf } from './replicas.ts';
import { markReconciled } from './restore.ts';
import { hasOthers, rememberFailure } from './retries.ts';
import { type RunRow, wantRun } from './runs.ts';
import type { Sql } from './sql.ts';

export type ReportArgs = Cause & {
  machine_id: string;
  machine_name: string;
  observed: ReportedRun[];
  /** The report of the same agent before this one; null where this is the first word of it. */
  heard?: Heard | null;
};

export type ReportedRun = {
  workload_id: string;
  replica: number;
  run_epoch: number;
  state: 'preparing' | 'ready' | 'ended' | 'parked' | 'removed' | 'unknown';
  stages: Record<string, string | number | null>[];
  exit: RunExit | null;
  reason: string | null;
  details: Record<string, string | number | boolean | null>;
  log_tail: string | null;
  oom_kills?: number | undefined;
  /** What the machine's guard does to it, and for how long it stood still for that. */
  guarded?: { step: 'lowered' | 'paused'; why: GuardWhy } | undefined;
  paused_ms?: number | undefined;
  /** How long ago it ended, by the agent's monotonic clock; unknown where it did not see it. */
  ended_ago_ms?: number | null | undefined;
};

/** Applies what a machine reports of its runs. A repeat changes nothing. */
export async function applyReport(sql: Sql, args: ReportArgs): Promise<{ changed: number }> {
  let changed = 0;
  let strays = 0;
  await proveHeard(sql, args);
  for (const observed of args.observed) {
    const run = await sql.get<RunRow>(
      `select * from runs where workload_id = $1 and replica = $2 and run_epoch = $3
         and machine_id = $4`,
      [observed.workload_id, observed.replica, observed.run_epoch, args.machine_id],
    );
    if (run === undefined && observed.state !== 'removed') strays += 1;
    if (run === undefined || run.removed_at !== null) continue;
    const found = await findOwner(sql, run);
    if (found === undefined) continue;
    const noted = await noteMemoryKills(sql, args, run, found, observed);
    const row = await noteGuard(sql, args, run, noted, observed);
    await proveRun(sql, args, run, observed);
    const { facts, workload } = await factsOf(sql, run, row);
    const at = { now: args.now, machine: args.machine_name };
    const others = await mayGoElsewhere(sql, run, row, observed);
    const verdict = judgeReport(facts, { ...workload, others }, observed, at);
    if (verdict === null) continue;
    changed += 1;
    await applyVerdict(sql, args, run, row, observed, verdict);
  }
  if (strays === 0) await markReconciled(sql, args.machine_id);
  return { changed };
}

/** Asked only where its machine is at fault: then another one may do what this one cannot. */
async function mayGoElsewhere(
  sql: Sql,
  run: RunRow,
  row: WorkloadRow,
  { reason }: ReportedRun,
): Promise<boolean> {
  if (reason === null || !isReasonCode(reason) || !machine_faults.has(reason)) return false;
  return hasOthers(sql, row, run.machine_id);
}

/** Of several replicas the others are judged with it: nobody else may report of them meanwhile. */
async function findOwner(sql: Sql, { workload_id }: RunRow): Promise<WorkloadRow | undefined> {
  const text = 'select * from workloads where id = $1';
  const row = await sql.get<WorkloadRow>(text, [workload_id]);
  const is_alone = row === undefined || (!hasSeveral(row) && row.claims === 1);
  return is_alone ? row : sql.get<WorkloadRow>(`${text} ${sql.forUpdate}`, [workload_id]);
}

/** What a report of a run is judged by: of several replicas, how the others stand as well. */
async function factsOf(sql: Sql, run: RunRow, row: WorkloadRow) {
  const facts = {
    ...{ ...run, current: run.superseded_at === null },
    surplus: run.replica >= row.replicas,
  };
  // Without others, those that are to go included, the workload says it all.
  if (!hasSeveral(row) && row.claims === 1) return { facts, workload: row };
  const siblings = await siblingsOf(sql, row, run.replica);
  const several = hasSeveral(row);
  const own = several ? await readReplica(sql, run) : undefined;
  const attempts = own?.attempts ?? row.attempts;
  return { facts, workload: { ...row, attempts, siblings, several } };
}

/** That a program of a run was ended for lack of memory, while the run goes on, is worth a note. */
async function noteMemoryKills(
  sql: Sql,
  args: ReportArgs,
  run: RunRow,
  row: WorkloadRow,
  { state, oom_kills = 0 }: ReportedRun,
): Promise<WorkloadRow> {
  const is_here = state === 'ready' && run.superseded_at === null && run.ended_at === null;
  if (!is_here || oom_kills <= run.oom_kills) return row;
  await sql.run(
    `update runs set oom_kills = $4 where workload_id = $1 and replica = $2 and run_epoch = $3`,
    [run.workload_id, run.replica, run.run_epoch, oom_kills],
  );
  const details = { count: oom_kills, memory: formatMemory(row.memory_bytes) };
  return noteWorkload(sql, row, { code: 'memory_kill', details }, args);
}

/** Ends a run by a person's word that its machine is powered off. */
export async function endByFence(
  sql: Sql,
  run: RunRow,
  machine: string,
  cause: Cause,
): Promise<void> {
  const row = await findOwner(sql, run);
  if (row === undefined) return;
  const observed: ReportedRun = {
    ...{ workload_id: run.workload_id, replica: run.replica, run_epoch: run.run_epoch },
    ...{ state: 'ended', stages: [], exit: null, reason: 'machine_fenced' },
    ...{ details: { who: cause.actor }, log_tail: null },
  };
  const { facts, workload } = await factsOf(sql, run, row);
  const verdict = judgeReport(facts, workload, observed, { now: cause.now, machine });
  if (verdict === null) return;
  await closeMetered(sql, run, cause, 'unseen');
  await applyVerdict(sql, cause, run, row, observed, verdict);
  // Whatever comes back is not to go on.
  await wantRun(sql, run, 'remove');
}

/** What an agent said before this report was so until then. */
async function proveHeard(sql: Sql, args: ReportArgs): Promise<void> {
  const { heard, machine_id, now } = args;
  if (heard === undefined || heard === null || heard.runs.length === 0) return;
  const steady = await steadyOf(sql, { now, mono: heard.mono });
  await proveRuns(sql, [{ machine_id, runs: heard.runs, steady }]);
}

/**
 * What a report proves of one run for the ledger: that it runs now, or that it ran until it ended.
 * An interval that was closed for want of proof is corrected by it.
 */
async function proveRun(
  sql: Sql,
  args: ReportArgs,
  run: RunRow,
  observed: ReportedRun,
): Promise<void> {
  if (run.ended_at !== null) return; // an older word: its end is proven
  if (observed.state === 'unknown') return;
  const ended = observed.state !== 'ready' && observed.state !== 'preparing';
  const ago_ms = ended ? observed.ended_ago_ms : 0;
  if (ago_ms === undefined || ago_ms === null) {
    // Nobody said before that it runs: it may have ended long ago.
    const unheard = args.heard?.runs.includes(runName(run)) === false;
    if (unheard || args.heard === null) await closeMetered(sql, run, args, 'unseen');
    return;
  }
  if (run.ready_at === null && observed.state !== 'ready') return;
  const steady = (await steadyOf(sql, args)) - Math.max(0, Math.floor(ago_ms));
  await sql.run(
    `update runs set proven_steady = $4 where workload_id = $1 and replica = $2 and run_epoch = $3
       and (proven_steady is null or proven_steady < $4)`,
    [run.workload_id, run.replica, run.run_epoch, steady],
  );
  await correctMetered(sql, run, steady);
  if (ended) await closeMetered(sql, run, args, { steady });
}

async function applyVerdict(
  sql: Sql,
  args: Cause,
  run: RunRow,
  row: WorkloadRow,
  observed: ReportedRun,
  verdict: Verdict,
): Promise<void> {
  const key = [run.workload_id, run.replica, run.run_epoch];
  const ended_at = verdict.ended ? (run.ended_at ?? args.now) : run.ended_at;
  const wanted = verdict.ended && run.wanted === 'run' ? 'park' : run.wanted;
  const removed_at = verdict.removed ? args.now : null;
  await sql.run(
    `update runs set observed = $4, proven_at = $5, ready_at = $6, ended_at = $7, exit = $8,
       removed_at = $9, wanted = $10
     where workload_id = $1 and replica = $2 and run_epoch = $3`,
    [
      ...key,
      verdict.observed,
      verdict.observed === 'unknown' ? run.proven_at : args.now,
      verdict.ready ? (run.ready_at ?? args.now) : run.ready_at,
      ended_at,
      observed.exit === null ? run.exit : JSON.stringify(observed.exit),
      removed_at,
      wanted,
    ],
  );
  if (ended_at !== null) {
    await sql.run(
      `update holds set released_at = $4, taken = null where workload_id = $1 and replica = $2
         and run_epoch = $3 and released_at is null`,
      [...key, args.now],
    );
    await freeDevices(sql, run.machine_id);
    await closeHeld(sql, run, args);
  }
  const first_word = run.proven_at === null && verdict.observed !== 'unknown';
  const ends = run.ended_at === null && ended_at !== null;
  if (removed_at !== null || wanted !== run.wanted || first_word || ends) {
    await sql.run('update machines set generation = generation + 1 where id = $1', [
      run.machine_id,
    ]);
  }
  let moved: WorkloadRow | null = ends ? await settleClaims(sql, row) : row;
  if (verdict.replica !== null) await setReplica(sql, run, verdict.replica, args.now);
  for (const move of verdict.moves) {
    if (moved !== null) moved = await moveWorkload(sql, moved, move, args);
  }
  await rememberFailure(sql, run, row, verdict.moves, args);
  if (verdict.note !== null && moved !== null) {
    moved = await noteWorkload(sql, moved, verdict.note, args);
  }
  if (moved?.state === 'running') await meterRun(sql, { run, verdict, ends }, moved, args);
  if (moved?.state === 'deleting') await finishDeletion(sql, moved, args);
}

export /**
 * Of several replicas one may begin or end to answer while the workload runs on: its interval
 * opens and closes with that (where the state changes, `moveWorkload` sees to it).
 */
async function meterRun(
  sql: Sql,
  { run, verdict, ends }: { run: RunRow; verdict: Verdict; ends: boolean },
  row: WorkloadRow,
  cause: Cause,
): Promise<void> {
  if (!hasSeveral(row) || run.superseded_at !== null) return;
  if (ends) await closeMetered(sql, run, cause);
  const begins = verdict.ready && run.ready_at === null && verdict.moves.length === 0;
  const counts = begins && run.replica < row.replicas && run.wanted === 'run';
  if (counts) await openInterval(sql, 'metered', run, row, row.event_at, cause);
}

export async function finishDeletion(sql: Sql, row: WorkloadRow, cause: Cause): Promise<void> {
  const left = await sql.get(
    'select run_epoch from runs where workload_id = $1 and removed_at is null',
    [row.id],
  );
  if (left !== undefined) return;
  await moveWorkload(sql, row, { event: 'removed', code: null }, cause);
}
