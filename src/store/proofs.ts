/**
 * Proofs that runs run, as the ledger needs them: when each was last known to execute.
 *
 * Invariants: a proof is the word of the machine's present agent, never a hope; it only moves
 * forward; proofs of many machines are written together, twice a minute and only while something is
 * measured, so a poll that changes nothing still writes nothing.
 */
import { parseRunName } from '../core/run.ts';
import { correctBy, type LedgerRow } from './ledger.ts';
import { type Instant, steadyOf, type Watched, watchLedgerClock } from './ledger-clock.ts';
import type { Query, Sql } from './sql.ts';
import { valueRows } from './value-rows.ts';

/** Runs in one statement, of five parameters each. */
const runs_at_once = 64;

/** Of which runs, by name, a machine's agent last said that they are ready, and when that was. */
export type MachineProof = { machine_id: string } & Heard;
export type Heard = { mono: number; runs: string[] };

/** Records proofs of whole machines, and how late it is. */
export async function proveRunning(
  sql: Sql,
  args: Instant & { proofs: MachineProof[] },
): Promise<Watched> {
  const { steady, stepped_ms } = await watchLedgerClock(sql, args);
  await proveRuns(
    sql,
    args.proofs.map(({ machine_id, mono, runs }) => {
      const ago_ms = args.mono === undefined ? 0 : Math.floor(args.mono) - Math.floor(mono);
      return { machine_id, runs, steady: steady - Math.max(0, ago_ms) };
    }),
  );
  return { stepped_ms };
}

/**
 * A machine slept for so long and woke up at this instant: what was metered there of that time,
 * open or not, is taken off by an entry of its own.
 */
export async function deductSleep(
  sql: Sql,
  args: Instant & { machine_id: string; slept_ms: number; runs: string[] },
): Promise<{ entries: number }> {
  const woke = await steadyOf(sql, args);
  const slept_from = woke - args.slept_ms;
  // An interval that closes for want of proof must not end before what is taken off it.
  await proveRuns(sql, [{ machine_id: args.machine_id, runs: args.runs, steady: woke }]);
  const metered = await sql.all<LedgerRow>(
    `select * from ledger where machine_id = $1 and kind = 'metered' and sign = 1
       and (ended_steady is null or ended_steady > $2) order by id`,
    [args.machine_id, slept_from],
  );
  let entries = 0;
  for (const row of metered) {
    const from = Math.max(row.started_steady, slept_from);
    const length = Math.min(row.ended_steady ?? woke, woke) - from;
    if (length <= 0) continue;
    await correctBy(sql, row, { sign: -1, reason: 'suspended', from, length });
    entries += 1;
  }
  return { entries };
}

/** What the store has as running on a machine, of these runs, was running at `steady`. */
export type Proven = { machine_id: string; runs: readonly string[]; steady: number };

export async function proveRuns(sql: Sql, proven: readonly Proven[]): Promise<void> {
  const rows = proven.flatMap(({ machine_id, runs, steady }) =>
    runs.flatMap((name) => {
      const run = parseRunName(name);
      return run === null ? [] : [{ ...run, machine_id, steady }];
    }),
  );
  for (let at = 0; at < rows.length; at += runs_at_once) {
    const some = rows.slice(at, at + runs_at_once);
    await sql.run(
      proofText(some.length),
      some.flatMap((row) => [
        ...[row.machine_id, row.workload_id, row.replica, row.run_epoch, row.steady],
      ]),
    );
  }
}

const proof_columns = ['as it is', 'as it is', 'number', 'number', 'number'] as const;

function proofText(count: number): string {
  return `with proven (machine_id, workload_id, replica, run_epoch, steady) as (
      values ${valueRows(count, proof_columns)})
    update runs set proven_steady = proven.steady from proven
    where runs.workload_id = proven.workload_id and runs.replica = proven.replica
      and runs.run_epoch = proven.run_epoch and runs.machine_id = proven.machine_id
      and removed_at is null and ended_at is null and observed = 'present'
      and ready_at is not null
      and (proven_steady is null or proven_steady < proven.steady)`;
}

/** Is anything being measured? */
export const hasOpenIntervals: Query<Record<string, never>, boolean> = async (sql) =>
  (await sql.get('select id from ledger where ended_at is null limit 1')) !== undefined;
