/**
 * Who lost the trust that their workloads stood on: a user or a tenant that was disabled. What is
 * theirs is stopped in the same transaction, cause `trust` (ADR-0057).
 *
 * Invariants: what waits, or would be woken by a request, is stopped as well; what a person stopped
 * or deleted before stays as it is; nothing of it runs again before a person starts it.
 */
import type { Action } from './activity.ts';
import type { Cause, WorkloadRow } from './events.ts';
import { moveWorkload } from './moves.ts';
import type { Sql } from './sql.ts';
import { wantRuns } from './workloads.ts';

/** Whose: all of a tenant, or what one user made. */
export type Distrusted = { tenant_id: string } | { creator_id: string };

export type ParkCause = { now: number; mono?: number; action?: Action | undefined };

/** Stops what is theirs; how many workloads that are. */
export async function parkAllOf(
  sql: Sql,
  whose: Distrusted,
  { now, mono, action }: ParkCause,
): Promise<number> {
  const is_tenant = 'tenant_id' in whose;
  const rows = await sql.all<WorkloadRow>(
    `select * from workloads where ${is_tenant ? 'tenant_id' : 'creator_id'} = $1
       and intent = 'running' and state not in ('failed', 'deleting', 'deleted')
     order by id ${sql.forUpdate}`,
    [is_tenant ? whose.tenant_id : whose.creator_id],
  );
  const cause: Cause = {
    ...{ now, actor: action?.actor ?? 'operator', request_id: action?.request_id ?? null },
    ...(mono === undefined ? {} : { mono }),
  };
  const code = is_tenant ? 'tenant_was_disabled' : 'creator_disabled';
  for (const row of rows) await park(sql, row, code, cause);
  return rows.length;
}

async function park(
  sql: Sql,
  row: WorkloadRow,
  code: 'tenant_was_disabled' | 'creator_disabled',
  cause: Cause,
): Promise<void> {
  const set = { intent: 'stopped', park_cause: 'trust' } as const;
  const moved = await moveWorkload(sql, row, { event: 'stop', code, set }, cause);
  if (moved === null) throw new Error(`stop was refused in ${row.state}`);
  if (moved.state !== 'stopping') return;
  if ((await wantRuns(sql, row.id, 'park')) > 0) return;
  await moveWorkload(sql, moved, { event: 'parked', code }, cause);
}
