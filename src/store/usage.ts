/**
 * Reading the ledger: entries of a tenant within a window, page by page.
 *
 * Invariants: what is closed comes in the order of its end, so a page costs what it shows and not
 * what was long ago; an open entry ends, for the reader, where it is proven to have come; each
 * entry is read once when the open ones are read first and repeats of them are left out.
 */
import { limits } from '../contract/limits.ts';
import type { UsageEntry } from '../core/usage.ts';
import type { LedgerRow } from './ledger.ts';
import { type Instant, readSteady } from './ledger-clock.ts';
import type { Query, Row, Sql } from './sql.ts';

export type EntriesArgs = {
  tenant_id: string;
  /** Of this user alone; null for all of the tenant. */
  user_id: string | null;
  from: number;
  to: number;
  limit: number;
};

export type Entry = UsageEntry & { id: string };

/** Closed entries that reach into the window, after the one at `after`. */
export const closedEntries: Query<
  EntriesArgs & { after: { ended_at: number; id: string } | null },
  Entry[]
> = async (sql, args) => {
  const after = args.after ?? { ended_at: args.from + 1, id: '' };
  const rows = await sql.all<LedgerRow & { ended_at: number }>(
    `select * from ledger
     where tenant_id = $1 and ended_at is not null and (ended_at, id) > ($2, $3)
       and started_at < $4 and ($5 = '' or user_id = $5)
     order by ended_at, id limit $6`,
    [args.tenant_id, after.ended_at, after.id, args.to, args.user_id ?? '', args.limit],
  );
  return rows.map((row) => toEntry(row, row.ended_at));
};

/** Open entries that began before the end of the window, after the one with this id. */
export const openEntries: Query<EntriesArgs & { after: string; at: Instant }, Entry[]> = async (
  sql,
  args,
) => {
  const rows = await sql.all<OpenRow>(
    `select l.*, r.proven_steady from ledger l join runs r on r.workload_id = l.workload_id
       and r.replica = l.replica and r.run_epoch = l.run_epoch
     where l.tenant_id = $1 and l.ended_at is null and l.id > $2 and l.started_at < $3
       and ($4 = '' or l.user_id = $4)
     order by l.id limit $5`,
    [args.tenant_id, args.after, args.to, args.user_id ?? '', args.limit],
  );
  const steady = await readSteady(sql, args.at);
  return rows.map((row) => toEntry(row, openEnd(row, steady)));
};

type OpenRow = LedgerRow & { proven_steady: number | null };

/** How far an open entry has come at `steady`: no further than a lease after its last proof. */
export function openEnd(row: OpenRow, steady: number): number {
  const proven = Math.max(row.started_steady, row.proven_steady ?? 0) + limits.machine_lease_ms;
  const reached = row.kind === 'held' ? steady : Math.min(steady, proven);
  return row.started_at + Math.max(0, reached - row.started_steady);
}

function toEntry(row: LedgerRow, ended_at: number): Entry {
  const { id, kind, sign, user_id, workload_id, placed_class } = row;
  const { gpu_count, cpu_millis, memory_bytes, started_at } = row;
  return {
    ...{ id, kind, sign, user_id, workload_id, placed_class },
    ...{ gpu_count, cpu_millis, memory_bytes, started_at, ended_at },
  };
}

/** What fair share needs to know of a metered entry. */
export type UsedEntry = Entry & Pick<LedgerRow, 'tenant_id' | 'weight_millis'>;

/** Closed metered entries of all tenants, after the one at `after`, in the order of their ends. */
export const meteredSince: Query<
  { after: { ended_at: number; id: string }; limit: number },
  UsedEntry[]
> = async (sql, args) => {
  const rows = await sql.all<LedgerRow & { ended_at: number }>(
    `select * from ledger where kind = 'metered' and ended_at is not null
       and (ended_at, id) > ($1, $2)
     order by ended_at, id limit $3`,
    [args.after.ended_at, args.after.id, args.limit],
  );
  return rows.map((row) => used(row, row.ended_at));
};

/** Open metered entries of all tenants, after the one with this id. */
export const openMetered: Query<
  { after: string; limit: number; at: Instant },
  UsedEntry[]
> = async (sql, args) => {
  const rows = await sql.all<OpenRow>(
    `select l.*, r.proven_steady from ledger l join runs r on r.workload_id = l.workload_id
       and r.replica = l.replica and r.run_epoch = l.run_epoch
     where l.kind = 'metered' and l.ended_at is null and l.id > $1 order by l.id limit $2`,
    [args.after, args.limit],
  );
  const steady = await readSteady(sql, args.at);
  return rows.map((row) => used(row, openEnd(row, steady)));
};

function used(row: LedgerRow, ended_at: number): UsedEntry {
  const { tenant_id, weight_millis } = row;
  return { ...toEntry(row, ended_at), tenant_id, weight_millis };
}

/** Names of workloads by id, deleted ones too. */
export const workloadNames: Query<{ ids: string[] }, { id: string; name: string }[]> = async (
  sql: Sql,
  args,
) =>
  args.ids.length === 0
    ? []
    : sql.all<Row & { id: string; name: string }>(
        `select id, name from workloads where id ${sql.in(args.ids, 1)}`,
        args.ids,
      );
