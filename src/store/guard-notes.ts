/**
 * What the guard of a machine does to a run: on the timeline of its workload, and off its meter.
 *
 * Invariants: each step is told once, and a repeat changes nothing; the time in which a run stood
 * still is taken off what was metered of it, once its machine has said how long it was (ADR-0061).
 */
import { formatDuration } from '../core/format.ts';
import { guardPhrase } from '../core/guard.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import { type Cause, noteWorkload, type WorkloadRow } from './events.ts';
import { correctBy, type LedgerRow } from './ledger.ts';
import { steadyOf } from './ledger-clock.ts';
import type { ReportedRun } from './run-reports.ts';
import type { RunRow } from './runs.ts';
import type { Sql } from './sql.ts';

/** Returns the workload's row as it is afterwards. */
export async function noteGuard(
  sql: Sql,
  args: Cause & { machine_name: string },
  run: RunRow,
  row: WorkloadRow,
  observed: ReportedRun,
): Promise<WorkloadRow> {
  if (run.ended_at !== null || observed.state === 'unknown') return row;
  const { guarded, paused_ms = 0 } = observed;
  const text = guarded === undefined ? '' : `${guarded.step} ${guarded.why}`;
  const total = Math.floor(paused_ms);
  if (text === run.guarded && total === run.paused_ms) return row;
  await sql.run(
    `update runs set guarded = $4, paused_ms = $5
     where workload_id = $1 and replica = $2 and run_epoch = $3`,
    [run.workload_id, run.replica, run.run_epoch, text, total],
  );
  // An agent that began anew counts from nothing.
  const stood_ms = total >= run.paused_ms ? total - run.paused_ms : total;
  if (stood_ms > 0) await takeOff(sql, run, stood_ms, args);
  if (text === run.guarded || run.superseded_at !== null) return row;
  const note = noteOf(guarded, run.guarded, stood_ms, args.machine_name);
  return noteWorkload(sql, row, note, args);
}

function noteOf(
  guarded: ReportedRun['guarded'],
  before: string,
  stood_ms: number,
  machine: string,
): { code: ReasonCode; details: Details } {
  if (guarded !== undefined) {
    const details = { why: guardPhrase(guarded.why, machine) };
    return { code: guarded.step === 'paused' ? 'run_paused' : 'run_lowered', details };
  }
  if (!before.startsWith('paused')) return { code: 'run_raised', details: {} };
  return { code: 'run_resumed', details: { paused: formatDuration(stood_ms) } };
}

async function takeOff(sql: Sql, run: RunRow, stood_ms: number, cause: Cause): Promise<void> {
  const until = await steadyOf(sql, cause);
  const metered = await sql.all<LedgerRow>(
    `select * from ledger where workload_id = $1 and replica = $2 and run_epoch = $3
       and kind = 'metered' and sign = 1 and (ended_steady is null or ended_steady > $4)
     order by id`,
    [run.workload_id, run.replica, run.run_epoch, until - stood_ms],
  );
  for (const row of metered) {
    const from = Math.max(row.started_steady, until - stood_ms);
    const length = Math.min(row.ended_steady ?? until, until) - from;
    if (length > 0) await correctBy(sql, row, { sign: -1, reason: 'suspended', from, length });
  }
}
