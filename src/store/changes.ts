/**
 * The timelines of all workloads in the order in which they were written: what live streams read.
 *
 * Invariants: the order is that of the numbers which the control plane gives to its transactions;
 * a page goes on exactly where the one before ended.
 */
import type { EventRow } from './events.ts';
import type { Query, Row } from './sql.ts';

/** A place in the order: after this event of this change. */
export type ChangeCursor = { change: number; workload_id: string; number: number };

export type ChangeRow = EventRow & { tenant_id: string; name: string };

export type ChangesArgs = {
  after: ChangeCursor;
  /** Only changes below this one: those above may still be on their way. */
  below: number;
  /** Only of this tenant; null for all. */
  tenant_id: string | null;
  limit: number;
};

export const listChanges: Query<ChangesArgs, ChangeRow[]> = (sql, args) =>
  sql.all<ChangeRow>(
    `select e.*, w.tenant_id, w.name from workload_events e
       join workloads w on w.id = e.workload_id
     where (e.change, e.workload_id, e.number) > ($1, $2, $3) and e.change < $4
       and ($5 = '' or w.tenant_id = $5)
     order by e.change, e.workload_id, e.number limit $6`,
    [
      args.after.change,
      args.after.workload_id,
      args.after.number,
      args.below,
      args.tenant_id ?? '',
      args.limit,
    ],
  );

/** The highest number that was given so far; 0 where none was. */
export const lastChange: Query<Record<string, never>, number> = async (sql) => {
  const row = await sql.get<Row & { last: number | null }>(
    'select max(change) as last from workload_events',
  );
  return row?.last ?? 0;
};

/** Whose some workloads are, and how they are called. */
export const workloadOwners: Query<
  { ids: string[] },
  (Row & { id: string; tenant_id: string; name: string })[]
> = async (sql, args) =>
  args.ids.length === 0
    ? []
    : sql.all(
        `select id, tenant_id, name from workloads where id ${sql.in(args.ids, 1)}`,
        args.ids,
      );
