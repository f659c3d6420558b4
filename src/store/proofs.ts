/**
 * Proofs that runs run, as the ledger needs them: when each was last known to execute.
 *
 * Invariants: a proof is the word of the machine's present agent, never a hope; it only moves
 * forward; proofs of many machines are written together, twice a minute and only while something is
 * measured, so a poll that changes nothing still writes nothing.
 */
import { correctBy, type LedgerRow } from './ledger.ts';
import { type Instant, steadyOf, type Watched, watchLedgerClock } from './ledger-clock.ts';
import type { Query, Sql } from './sql.ts';

/** When a machine's agent last said of its runs what the store has of them. */
export type MachineProof = { machine_id: string; mono: number };

/** Records proofs of whole machines, and how late it is. */
export async function proveRunning(
  sql: Sql,
  args: Instant & { proofs: MachineProof[] },
): Promise<Watched> {
  const steady = await steadyOf(sql, args);
  for (const { machine_id, mono } of args.proofs) {
    const ago_ms = args.mono === undefined ? 0 : Math.floor(args.mono) - Math.floor(mono);
    await proveMachine(sql, machine_id, steady - Math.max(0, ago_ms));
  }
  return watchLedgerClock(sql, args);
}

/**
 * A machine slept for so long and woke up at this instant: what runs there did not run meanwhile.
 * What was measured is left as it is; what is to be taken off is an entry of its own.
 */
export async function deductSleep(
  sql: Sql,
  args: Instant & { machine_id: string; slept_ms: number },
): Promise<{ entries: number }> {
  const woke = await steadyOf(sql, args);
  const open = await sql.all<LedgerRow>(
    `select * from ledger where machine_id = $1 and kind = 'metered' and ended_at is null
     order by id`,
    [args.machine_id],
  );
  let entries = 0;
  for (const row of open) {
    const length = Math.min(args.slept_ms, woke - row.started_steady);
    if (length <= 0) continue;
    await correctBy(sql, row, { sign: -1, reason: 'suspended', from: woke - length, length });
    entries += 1;
  }
  return { entries };
}

/** What runs on a machine was running at `steady`. */
export async function proveMachine(sql: Sql, machine_id: string, steady: number): Promise<void> {
  await sql.run(
    `update runs set proven_steady = $2
     where machine_id = $1 and removed_at is null and ended_at is null and observed = 'present'
       and ready_at is not null and (proven_steady is null or proven_steady < $2)`,
    [machine_id, steady],
  );
}

/** Is anything being measured? */
export const hasOpenIntervals: Query<Record<string, never>, boolean> = async (sql) =>
  (await sql.get('select id from ledger where ended_at is null limit 1')) !== undefined;
