/**
 * Stopping what nobody uses, and waking it (ADR-0048).
 *
 * Invariants: only what runs, is meant to run and still has the policy that was judged is stopped,
 * in the run that was judged; its intent stays running, and `park_cause` says idle; only what was
 * stopped for that is woken, and a quota is asked again.
 */
import { formatDuration } from '../core/format.ts';
import type { Details } from '../core/reasons.ts';
import { readSpec } from '../core/workload.ts';
import { type Action, recordAction } from './activity.ts';
import { type Cause, lockWorkload, noteWorkload, type WorkloadRow } from './events.ts';
import { moveWorkload } from './moves.ts';
import { refuseClaim, withAskedClaims } from './quotas.ts';
import type { Query, Row, Sql } from './sql.ts';
import { type ChangeResult, findWorkload, wantRuns } from './workloads.ts';

export type IdleRow = Row & {
  id: string;
  name: string;
  kind: string;
  run_epoch: number;
  /** Of the run whose idle time is counted: its first replica's; 0 where that has none. */
  counted_epoch: number;
  gpu_count: number;
  idle_after_ms: number;
};

/** A page of what runs and is to be stopped where nobody uses it. */
export const listIdlers: Query<{ after: string; limit: number }, IdleRow[]> = (sql, args) =>
  sql.all<IdleRow>(
    `select w.id, w.name, w.kind, w.run_epoch, w.gpu_count, w.idle_after_ms,
       coalesce(r.run_epoch, 0) as counted_epoch
     from workloads w
       left join runs r on r.workload_id = w.id and r.replica = 0 and r.superseded_at is null
     where w.idle_after_ms > 0 and w.state = 'running' and w.intent = 'running' and w.id > $1
     order by w.id limit $2`,
    [args.after, args.limit],
  );

export type IdleArgs = Cause & { workload_id: string; run_epoch: number; after_ms: number };

/** The workload as it was judged, or undefined where it is another by now. */
async function asJudged(sql: Sql, args: IdleArgs): Promise<WorkloadRow | undefined> {
  const row = await lockWorkload(sql, args.workload_id);
  const is_same = row?.run_epoch === args.run_epoch && row.idle_after_ms === args.after_ms;
  return is_same && row.state === 'running' && row.intent === 'running' ? row : undefined;
}

export async function parkIdle(
  sql: Sql,
  args: IdleArgs,
): Promise<{ outcome: 'parked' | 'changed_meanwhile' }> {
  const row = await asJudged(sql, args);
  if (row === undefined) return { outcome: 'changed_meanwhile' };
  const why = { code: 'idle_stopped', details: { idle: formatDuration(args.after_ms) } } as const;
  const set = { park_cause: 'idle' };
  const moved = await moveWorkload(sql, row, { event: 'stop', set, ...why }, args);
  if (moved === null) throw new Error(`stop was refused in ${row.state}`);
  const open = await wantRuns(sql, row.id, 'park');
  if (open === 0) await moveWorkload(sql, moved, { event: 'parked', ...why }, args);
  return { outcome: 'parked' };
}

/** Says on the timeline that it will be stopped soon. */
export async function noteIdleSoon(
  sql: Sql,
  args: IdleArgs & { left_ms: number },
): Promise<{ outcome: 'noted' | 'changed_meanwhile' }> {
  const row = await asJudged(sql, args);
  if (row === undefined) return { outcome: 'changed_meanwhile' };
  const { after_ms, left_ms } = args;
  const details = { idle: formatDuration(after_ms - left_ms), left: formatDuration(left_ms) };
  await noteWorkload(sql, row, { code: 'idle_soon', details }, args);
  return { outcome: 'noted' };
}

export type WakeResult =
  | { outcome: 'woken' | 'not_idle' }
  | { outcome: 'quota_exceeded'; details: Details };

/** Starts what was stopped for being idle, and nothing else. */
export async function wakeIdle(
  sql: Sql,
  args: Cause & { workload_id: string; how: string },
): Promise<WakeResult> {
  const row = await lockWorkload(sql, args.workload_id);
  if (row?.park_cause !== 'idle' || row.intent !== 'running') return { outcome: 'not_idle' };
  const why = { code: 'idle_woken', details: { how: args.how } } as const;
  if (row.state === 'stopping') {
    const kept = await keepGoing(sql, row);
    await noteWorkload(sql, kept, why, args);
    return { outcome: 'woken' };
  }
  if (row.state !== 'stopped') return { outcome: 'not_idle' };
  const over = await refuseClaim(sql, await withAskedClaims(sql, row), row.id);
  if (over !== null) return { outcome: 'quota_exceeded', details: over };
  const set = { park_cause: 'none', attempts: 0, not_before: 0 };
  await moveWorkload(sql, row, { event: 'start', set, ...why }, args);
  return { outcome: 'woken' };
}

/** Being stopped for being idle, it is to start again once that is done. */
export async function keepGoing(sql: Sql, row: WorkloadRow): Promise<WorkloadRow> {
  const kept = await sql.get<WorkloadRow>(
    `update workloads set park_cause = 'none', revision = revision + 1 where id = $1 returning *`,
    [row.id],
  );
  return kept ?? row;
}

export type PolicyArgs = Cause & {
  tenant_id: string;
  /** Id or name. */
  workload: string;
  /** Null: it is never stopped for being idle. */
  after_ms: number | null;
  action?: Action;
};

export async function setIdlePolicy(sql: Sql, args: PolicyArgs): Promise<ChangeResult> {
  const found = await findWorkload(sql, args);
  const row = found === undefined ? undefined : await lockWorkload(sql, found.id);
  if (row === undefined) return { ok: false, code: 'not_found' };
  if (row.state === 'deleted') return { ok: false, code: 'already_deleted' };
  const { after_ms } = args;
  if (row.idle_after_ms === (after_ms ?? 0)) return { ok: true, row };
  const idle_policy = after_ms === null ? null : { after_ms };
  const spec = JSON.stringify({ ...readSpec(row.spec), idle_policy });
  const changed = await sql.get<WorkloadRow>(
    `update workloads set spec = $2, idle_after_ms = $3, revision = revision + 1
     where id = $1 returning *`,
    [row.id, spec, after_ms ?? 0],
  );
  if (changed === undefined) throw new Error('the workload went while it was locked');
  const who = args.actor.replace(/^user:/, '');
  const idle = after_ms === null ? 'off' : formatDuration(after_ms);
  const noted = await noteWorkload(
    sql,
    changed,
    { code: 'idle_policy_set', details: { idle, who } },
    args,
  );
  const details = { name: row.name, idle };
  await recordAction(sql, args.action, { target: `workload:${row.id}`, details });
  return { ok: true, row: noted };
}
