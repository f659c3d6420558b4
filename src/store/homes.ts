/**
 * Homes: a workload with a disk runs where that disk is, from its first placement on (ADR-0055).
 *
 * Invariants: a home is set in the transaction that places the first run, and once; no run of what
 * has a home is placed anywhere else (`placedAs` refuses it); what its machine refused before
 * anything of it was made there has no home yet. Deleting the workload frees it: nobody asks where
 * a deleted one lives.
 */
import { askText, hasHome } from '../core/ask.ts';
import { type Placement, readSpec } from '../core/workload.ts';
import type { WorkloadRow } from './events.ts';
import type { Query, Row, Sql } from './sql.ts';

/** The first placement of what has a disk is its home. */
export async function settle(sql: Sql, row: WorkloadRow, placement: Placement): Promise<void> {
  const spec = readSpec(row.spec);
  if (row.home_machine_id !== null || !hasHome(spec)) return;
  const { machine_id } = placement;
  await sql.run(
    `update workloads set home_machine_id = $2, ask = $3,
       home_region = (select region from machines where id = $2) where id = $1`,
    [row.id, machine_id, askText({ ...spec, home_machine_id: machine_id })],
  );
}

/** Nothing of it was made where it was placed: it may go anywhere again. */
export async function unsettle(sql: Sql, row: WorkloadRow): Promise<void> {
  if (row.home_machine_id === null) return;
  await sql.run(
    `update workloads set home_machine_id = null, home_region = '', ask = $2 where id = $1`,
    [row.id, askText(readSpec(row.spec))],
  );
}

/** Names of the machines that keep disks, as far as their workloads' tenant may know of them. */
export const homeNames: Query<
  { tenant_id: string; ids: string[] },
  (Row & { id: string; name: string })[]
> = async (sql, args) =>
  args.ids.length === 0
    ? []
    : sql.all(
        `select id, name from machines where id ${sql.in(args.ids, 2)} and removed_at is null
           and (tenant_id = $1 or sharing = 'community' or (sharing = 'invite-only' and id in
             (select machine_id from machine_guests where tenant_id = $1)))`,
        [args.tenant_id, ...args.ids],
      );
