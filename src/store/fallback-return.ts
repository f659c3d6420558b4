/**
 * Going back from a fallback to what was asked, where that was asked for (ADR-0059).
 *
 * Invariants: only an endpoint that runs by a fallback and is to run; never within half an hour of
 * its placement; its quota has to allow what it asked; it stops first and is placed anew then, and
 * where the room is gone by that time its fallbacks are due at once.
 */
import { readTaken } from '../core/fallback.ts';
import { readSpec } from '../core/workload.ts';
import type { Cause, WorkloadRow } from './events.ts';
import { amountsOf } from './fallback.ts';
import { moveWorkload } from './moves.ts';
import { refuseClaim, setClaims } from './quotas.ts';
import type { Query, Row, Sql } from './sql.ts';
import { wantRuns } from './workloads.ts';

/** The least between a placement by a fallback and going back from it. */
export const return_after_ms = 30 * 60_000;

export type ReturningRow = Row & {
  id: string;
  tenant_id: string;
  creator_id: string;
  ask: string;
  revision: number;
  run_epoch: number;
  /** When its run was placed, where, and what it holds there. */
  placed_at: number;
  machine_id: string;
  cpu_millis: number;
  memory_bytes: number;
  disk_bytes: number;
};

/** What runs by a fallback and would go back; few, so there are no pages. */
export const listReturning: Query<{ limit: number }, ReturningRow[]> = (sql, args) =>
  sql.all<ReturningRow>(
    `select w.id, w.tenant_id, w.creator_id, w.ask, w.revision, w.run_epoch,
       w.cpu_millis, w.memory_bytes, w.disk_bytes, r.machine_id, r.created_at as placed_at
     from workloads w join runs r on r.workload_id = w.id and r.run_epoch = w.run_epoch
     where w.fallback_return = 1 and w.fallback_step > 0 and w.state = 'running'
       and w.intent = 'running' and w.replicas = 1
     order by w.id limit $1`,
    [args.limit],
  );

export type ReturnArgs = Cause & { workload_id: string; revision: number };

export async function returnToAsked(
  sql: Sql,
  args: ReturnArgs,
): Promise<{ outcome: 'returning' | 'changed_meanwhile' | 'over_quota' }> {
  const row = await sql.get<WorkloadRow>(
    `select * from workloads where id = $1 and revision = $2 and state = 'running'
       and intent = 'running' and fallback_step > 0 ${sql.forUpdate}`,
    [args.workload_id, args.revision],
  );
  if (row === undefined) return { outcome: 'changed_meanwhile' };
  const run = await sql.get<Row & { created_at: number; fallback: string }>(
    'select created_at, fallback from runs where workload_id = $1 and run_epoch = $2',
    [row.id, row.run_epoch],
  );
  const taken = readTaken(run?.fallback);
  if (run === undefined || taken === null || args.now - run.created_at < return_after_ms) {
    return { outcome: 'changed_meanwhile' };
  }
  const spec = readSpec(row.spec);
  const over = await refuseClaim(sql, { ...row, ...amountsOf(spec) }, row.id);
  if (over !== null) return { outcome: 'over_quota' };
  await setClaims(sql, row, spec, 0);
  await sql.run('update workloads set fallback_due = 1 where id = $1', [row.id]);
  const { asked, placed } = taken;
  const why = { code: 'returning_to_asked', details: { asked, placed } } as const;
  const moved = await moveWorkload(sql, row, { event: 'stop', ...why }, args);
  if (moved === null) throw new Error(`stop was refused in ${row.state}`);
  if ((await wantRuns(sql, row.id, 'park')) > 0) return { outcome: 'returning' };
  const parked = await moveWorkload(sql, moved, { event: 'parked', ...why }, args);
  if (parked === null) throw new Error(`parked was refused in ${moved.state}`);
  await moveWorkload(sql, parked, { event: 'start', code: null }, args);
  return { outcome: 'returning' };
}
