/**
 * The ledger: who used how much for how long. An interval for each run and kind: `metered` while
 * the workload is running, `held` while the run keeps something of its machine (ADR-0020, 0029).
 *
 * Invariants: an interval opens and closes in the transaction of the state's event; it is written
 * once more, to close it, and never after (later knowledge is an entry of its own); one is open per
 * run and kind; lengths follow the steady clock, positions the wall clock; intervals of one
 * workload and kind do not overlap; what nobody proved is not metered: where the last proof of
 * running is older than a lease, the interval ends there.
 */
import { limits } from '../contract/limits.ts';
import { type Instant, steadyOf } from './ledger-clock.ts';
import type { Row, Sql } from './sql.ts';

export type LedgerKind = 'metered' | 'held';

export type LedgerFields = {
  workload_id: string;
  replica: number;
  run_epoch: number;
  kind: LedgerKind;
  /** 1 for the interval as it was measured, then corrections. */
  entry: number;
  sign: 1 | -1;
  /** `ran_on`: it ran longer than was proven; `suspended`: its machine slept meanwhile. */
  reason: 'measured' | 'ran_on' | 'suspended';
  tenant_id: string;
  user_id: string;
  machine_id: string;
  placed_class: string;
  gpu_count: number;
  cpu_millis: number;
  memory_bytes: number;
  /** What a second of it weighed in fair share when it was placed; 0: as its class weighs now. */
  weight_millis: number;
  started_at: number;
  started_steady: number;
  /** What the wall clock said then, which may be before `started_at` where it stepped back. */
  started_wall: number;
  /** Null while it is open. */
  ended_at: number | null;
  ended_steady: number | null;
  /**
   * `event`: with the state's event; `last_proof`: later it was not proven to run; `evidence`: the
   * agent saw its end.
   */
  ended_by: 'event' | 'last_proof' | 'evidence' | null;
  /** When it was closed, which may be later than its end. */
  closed_steady: number | null;
};
export type LedgerRow = Row & LedgerFields & { id: string };

export type RunKeys = { workload_id: string; replica: number; run_epoch: number };
type Owner = { tenant_id: string; creator_id: string };

/** Opens the interval of a run at its event's time `at`; an open one stays as it is. */
export async function openInterval(
  sql: Sql,
  kind: LedgerKind,
  run: RunKeys,
  owner: Owner,
  at: number,
  cause: Instant,
): Promise<void> {
  const keys = [run.workload_id, run.replica, run.run_epoch];
  const facts = await sql.get<Row & Facts>(
    `select r.machine_id, r.placed_class, r.weight_millis, w.gpu_count, h.cpu_millis,
       h.memory_bytes
     from runs r
       join workloads w on w.id = r.workload_id
       join holds h on h.workload_id = r.workload_id and h.replica = r.replica
         and h.run_epoch = r.run_epoch and h.device = ''
     where r.workload_id = $1 and r.replica = $2 and r.run_epoch = $3`,
    keys,
  );
  if (facts === undefined) return; // without a run there is nothing to measure
  const steady = await steadyOf(sql, cause);
  const before = await sql.get<Row & { entry: number | null; ended_at: number | null }>(
    `select cast(max(case when run_epoch = $3 then entry end) as bigint) as entry,
       cast(max(ended_at) as bigint) as ended_at
     from ledger where workload_id = $1 and replica = $2 and ${isOf[kind]}`,
    keys,
  );
  const entry = (before?.entry ?? 0) + 1;
  const started_at = Math.max(at, before?.ended_at ?? at);
  await insertEntry(sql, {
    ...{ ...run, kind, entry, sign: 1, reason: 'measured' },
    ...{ tenant_id: owner.tenant_id, user_id: owner.creator_id, ...facts },
    ...{ started_at, started_steady: steady, started_wall: cause.now },
    ...{ ended_at: null, ended_steady: null, ended_by: null, closed_steady: null },
  });
}

type Facts = Pick<
  LedgerFields,
  'machine_id' | 'placed_class' | 'gpu_count' | 'cpu_millis' | 'memory_bytes' | 'weight_millis'
>;

/** Closes what a run held, now that it holds nothing any more. */
export async function closeHeld(sql: Sql, run: RunKeys, cause: Instant): Promise<void> {
  const open = await findOpen(sql, 'held', run);
  if (open === undefined) return;
  const steady = await steadyOf(sql, cause);
  await close(sql, open, steady, 'event', steady);
}

/**
 * How the end of a run is known: by its state's event; `unseen`, by a report after nobody had heard
 * of it; or by the agent, who saw it at this instant of the steady clock.
 */
export type KnownEnd = 'event' | 'unseen' | { steady: number };

/**
 * Closes the metered interval of a run that left `running`: where its end was seen; with an event
 * now, if it was proven to run within the last lease; else where it was last proven. Returns how
 * far the wall clock moved against the steady one meanwhile.
 */
export async function closeMetered(
  sql: Sql,
  run: RunKeys,
  cause: Instant,
  end: KnownEnd = 'event',
): Promise<{ stepped_ms: number }> {
  const open = await findOpen(sql, 'metered', run);
  if (open === undefined) return { stepped_ms: 0 };
  const steady = await steadyOf(sql, cause);
  const proof = await sql.get<Row & { proven_steady: number | null }>(
    'select proven_steady from runs where workload_id = $1 and replica = $2 and run_epoch = $3',
    [run.workload_id, run.replica, run.run_epoch],
  );
  const proven = Math.max(open.started_steady, proof?.proven_steady ?? 0);
  const is_fresh = end === 'event' && steady - proven <= limits.machine_lease_ms;
  if (typeof end === 'object') await close(sql, open, end.steady, 'evidence', steady);
  else if (is_fresh) await close(sql, open, steady, 'event', steady);
  else await close(sql, open, proven, 'last_proof', steady);
  return { stepped_ms: cause.now - open.started_wall - (steady - open.started_steady) };
}

/** The same for all that is metered of a workload, which is no longer running. */
export async function closeAllMetered(
  sql: Sql,
  workload_id: string,
  cause: Instant,
): Promise<{ stepped_ms: number }> {
  const open = await sql.all<Row & RunKeys>(
    `select workload_id, replica, run_epoch from ledger
     where workload_id = $1 and kind = 'metered' and ended_at is null order by replica`,
    [workload_id],
  );
  let stepped_ms = 0;
  for (const run of open) {
    const closed = await closeMetered(sql, run, cause);
    if (Math.abs(closed.stepped_ms) > Math.abs(stepped_ms)) stepped_ms = closed.stepped_ms;
  }
  return { stepped_ms };
}

/**
 * A run was seen running after all at `evidence` (steady), up to when its interval was closed: what
 * is missing is added as an entry of its own. A repeat adds nothing.
 */
export async function correctMetered(sql: Sql, run: RunKeys, evidence: number): Promise<number> {
  const rows = await sql.all<LedgerRow>(
    `select * from ledger where workload_id = $1 and replica = $2 and run_epoch = $3
       and kind = 'metered' and sign = 1 order by entry`,
    [run.workload_id, run.replica, run.run_epoch],
  );
  const last = rows.at(-1);
  const measured = rows.filter(({ reason }) => reason === 'measured').at(-1);
  if (last === undefined || measured?.ended_by !== 'last_proof') return 0;
  const from = last.ended_steady ?? 0;
  const length = Math.min(evidence, measured.closed_steady ?? 0) - from;
  if (length <= 0) return 0;
  await correctBy(sql, measured, { sign: 1, reason: 'ran_on', from, length });
  return length;
}

/** Adds to what was measured, or takes from it, from an instant of the steady clock on. */
export async function correctBy(
  sql: Sql,
  measured: LedgerRow,
  by: { sign: 1 | -1; reason: 'ran_on' | 'suspended'; from: number; length: number },
): Promise<void> {
  const { sign, reason, from, length } = by;
  const last = await sql.get<Row & { entry: number }>(
    `select cast(max(entry) as bigint) as entry from ledger where workload_id = $1
       and replica = $2 and run_epoch = $3 and ${isOf[measured.kind]}`,
    [measured.workload_id, measured.replica, measured.run_epoch],
  );
  const started_at = measured.started_at + (from - measured.started_steady);
  await insertEntry(sql, {
    ...measured,
    ...{ entry: (last?.entry ?? 0) + 1, reason, sign },
    ...{ started_at, started_steady: from },
    ...{ ended_at: started_at + length, ended_steady: from + length },
    ...{ ended_by: 'evidence', closed_steady: measured.closed_steady },
  });
}

/** Written out: a parameter that partial indexes ask for has SQLite compile anew each time. */
const isOf = {
  metered: "kind = 'metered'",
  held: "kind = 'held'",
} as const satisfies Record<LedgerKind, string>;

function findOpen(sql: Sql, kind: LedgerKind, run: RunKeys): Promise<LedgerRow | undefined> {
  return sql.get<LedgerRow>(
    `select * from ledger where workload_id = $1 and replica = $2 and run_epoch = $3
       and ${isOf[kind]} and ended_at is null`,
    [run.workload_id, run.replica, run.run_epoch],
  );
}

async function close(
  sql: Sql,
  open: LedgerRow,
  ended_steady: number,
  ended_by: 'event' | 'last_proof' | 'evidence',
  closed_steady: number,
): Promise<void> {
  const length = Math.max(0, ended_steady - open.started_steady);
  await sql.run(
    `update ledger set ended_at = $2, ended_steady = $3, ended_by = $4, closed_steady = $5
     where id = $1 and ended_at is null`,
    [open.id, open.started_at + length, open.started_steady + length, ended_by, closed_steady],
  );
}

async function insertEntry(sql: Sql, row: LedgerFields): Promise<void> {
  const id = `${row.workload_id}.${row.replica}.${row.run_epoch}.${row.kind}.${row.entry}`;
  await sql.run(
    `insert into ledger (id, workload_id, replica, run_epoch, kind, entry, sign, reason, tenant_id,
       user_id, machine_id, placed_class, gpu_count, cpu_millis, memory_bytes, started_at,
       started_steady, started_wall, ended_at, ended_steady, ended_by, closed_steady,
       weight_millis)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
       $20, $21, $22, $23)
     on conflict do nothing`,
    [
      ...[id, row.workload_id, row.replica, row.run_epoch, row.kind, row.entry, row.sign],
      ...[row.reason, row.tenant_id, row.user_id, row.machine_id, row.placed_class],
      ...[row.gpu_count, row.cpu_millis, row.memory_bytes, row.started_at, row.started_steady],
      ...[row.started_wall, row.ended_at, row.ended_steady, row.ended_by, row.closed_steady],
      row.weight_millis,
    ],
  );
}
