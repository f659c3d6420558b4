/**
 * Tries on another machine: what a failed start leaves behind, so that the next one goes elsewhere
 * where it can.
 *
 * Invariants: a machine is avoided for a while and never barred: where it alone would do, it is
 * tried again; what has its home somewhere is tried there; how often is the judge's.
 */
import type { WorkloadMove } from '../core/judge.ts';
import type { Cause, WorkloadRow } from './events.ts';
import { unsettle } from './homes.ts';
import type { RunRow } from './runs.ts';
import type { Row, Sql } from './sql.ts';

/** How long the machine on which a start failed is the last choice. */
const avoid_ms = 10 * 60_000;

/** Whether there is any other machine that its tenant may use: only a hint, nothing is promised. */
export async function hasOthers(
  sql: Sql,
  row: Pick<WorkloadRow, 'tenant_id' | 'home_machine_id'>,
  machine_id: string,
): Promise<boolean> {
  if (row.home_machine_id !== null) return false;
  const other = await sql.get(
    `select id from machines where id <> $1 and removed_at is null and drained_at is null
       and region = (select region from machines where id = $1)
       and (tenant_id = $2 or sharing = 'community' or (sharing = 'invite-only' and id in
         (select machine_id from machine_guests where tenant_id = $2)))
     limit 1`,
    [machine_id, row.tenant_id],
  );
  return other !== undefined;
}

/** What it remembers of a run that never came to be ready. */
export async function rememberFailure(
  sql: Sql,
  run: RunRow,
  row: WorkloadRow,
  moves: readonly WorkloadMove[],
  cause: Cause,
): Promise<void> {
  const again = moves.find(({ event }) => event === 'replace');
  if (again === undefined || run.ready_at !== null) return;
  if (again.code === 'machine_rebooted' || again.code === 'machine_fenced') return;
  await sql.run('update workloads set avoid_machine_id = $2, avoid_until = $3 where id = $1', [
    row.id,
    run.machine_id,
    cause.now + avoid_ms,
  ]);
  // Its machine let nothing of it begin: there is no disk that it would have to come back for.
  if (again.code === 'refused_by_machine' && run.run_epoch === 1) await unsettle(sql, row);
}

/** How the machine is called on which the last start failed; null where none did lately. */
export async function avoidedName(
  sql: Sql,
  { avoid_machine_id: id, avoid_until, attempts }: WorkloadRow,
  now: number,
): Promise<string | null> {
  if (id === null || attempts === 0 || avoid_until <= now) return null;
  const row = await sql.get<Row & { name: string }>('select name from machines where id = $1', [
    id,
  ]);
  return row?.name ?? null;
}
