/**
 * Workloads: what people ask for. Launch, stop, start, delete, and the reads that show them.
 *
 * Invariants: stop and delete are accepted in every state but `deleted`; what has no unproven run
 * is stopped at once, in the same transaction; a launch is recorded once per Idempotency-Key;
 * another tenant's workload is not found.
 */
import { askText } from '../core/ask.ts';
import { fallbackText } from '../core/fallback.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { WorkloadSpec } from '../core/workload.ts';
import { type Action, recordAction } from './activity.ts';
import { dropAliasesOf, findAlias } from './endpoint-names.ts';
import { insertFirstEvent, lockWorkload, type WorkloadRow } from './events.ts';
import { type IdempotencyKey, type Idempotent, once } from './idempotency.ts';
import { revokeKeysOf } from './key-endpoints.ts';
import { moveWorkload } from './moves.ts';
import { refuseClaim, withAskedClaims } from './quotas.ts';
import { addReplicas, hasSeveral, retryFailed } from './replicas.ts';
import { bumpMachinesOf, type RunRow } from './runs.ts';
import type { Query, Row, Sql } from './sql.ts';

export type LaunchArgs = {
  id: string;
  tenant_id: string;
  creator_id: string;
  spec: WorkloadSpec;
  /** True where the name was not given: then a free one is made from it. */
  name_is_free: boolean;
  actor: string;
  request_id: string;
  now: number;
  idempotency: IdempotencyKey;
  /** Given by the API; recorded in the activity log with the launch. */
  action?: Action;
};

export type LaunchResult =
  | { ok: true; row: WorkloadRow }
  | { ok: false; code: 'name_taken' }
  | OverQuota;

export type OverQuota = { ok: false; code: 'quota_exceeded'; details: Details };

/** Records a workload as pending, with the first event of its timeline. */
export function launchWorkload(sql: Sql, args: LaunchArgs): Promise<Idempotent<LaunchResult>> {
  return once(sql, args.idempotency, args.now, () => insertWorkload(sql, args));
}

async function insertWorkload(sql: Sql, args: LaunchArgs): Promise<LaunchResult> {
  const name = args.name_is_free
    ? await freeName(sql, args.tenant_id, args.spec.name)
    : args.spec.name;
  if (!args.name_is_free && (await isTaken(sql, args.tenant_id, name))) {
    return { ok: false, code: 'name_taken' };
  }
  const { replicas } = args.spec;
  const gpu_class = args.spec.gpu_class ?? '';
  const claim = { ...args, ...args.spec, gpu_class, claims: replicas };
  const over = await refuseClaim(sql, claim, '');
  if (over !== null) return { ok: false, code: 'quota_exceeded', details: over };
  const who = args.actor.replace(/^user:/, '');
  const row = await sql.get<WorkloadRow>(
    `insert into workloads (id, tenant_id, creator_id, name, kind, spec, state, intent, park_cause,
       code, details, revision, run_epoch, event_number, event_at, attempts, not_before, created_at,
       state_since, ask, gpu_class, gpu_count, cpu_millis, memory_bytes, disk_bytes,
       idle_after_ms, fallback, fallback_return, replicas, claims)
     values ($1, $2, $3, $4, $5, $6, 'pending', 'running', 'none', 'waiting_for_placement', $7,
       1, 0, 1, $8, 0, 0, $8, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
       $18)
     returning *`,
    [
      args.id,
      args.tenant_id,
      args.creator_id,
      name,
      args.spec.kind,
      JSON.stringify({ ...args.spec, name }),
      JSON.stringify({ who }),
      args.now,
      askText(args.spec),
      ...[claim.gpu_class, claim.gpu_count],
      ...[claim.cpu_millis, claim.memory_bytes, claim.disk_bytes],
      args.spec.idle_policy?.after_ms ?? 0,
      ...[fallbackText(args.spec), args.spec.fallback_return ? 1 : 0],
      claim.claims,
    ],
  );
  if (row === undefined) throw new Error('the inserted workload did not come back');
  if (hasSeveral(row)) await addReplicas(sql, row.id, { from: 0, to: replicas, now: args.now });
  await insertFirstEvent(sql, row, args);
  await recordAction(sql, args.action, { target: `workload:${row.id}`, details: { name } });
  return { ok: true, row };
}

async function isTaken(sql: Sql, tenant_id: string, name: string): Promise<boolean> {
  const found = await sql.get(
    "select id from workloads where tenant_id = $1 and name = $2 and state <> 'deleted'",
    [tenant_id, name],
  );
  return found !== undefined || (await findAlias(sql, { tenant_id, name })) !== undefined;
}

/**
 * `smollm2-135m`, else `smollm2-135m-2`, `-3`, …: the first that is free of the first few, beyond
 * them one that is free. Only asked name by name: there may be ten thousand.
 */
async function freeName(sql: Sql, tenant_id: string, base: string): Promise<string> {
  if (!(await isTaken(sql, tenant_id, base))) return base;
  const nameOf = (number: number) => `${base}-${number}`;
  let taken = 1;
  let free = 2;
  while (await isTaken(sql, tenant_id, nameOf(free))) {
    taken = free;
    free = free < 10 ? free + 1 : free * 2;
  }
  while (free - taken > 1) {
    const middle = Math.floor((free + taken) / 2);
    if (await isTaken(sql, tenant_id, nameOf(middle))) taken = middle;
    else free = middle;
  }
  return nameOf(free);
}

export type ChangeArgs = {
  tenant_id: string;
  /** Id or name. */
  workload: string;
  actor: string;
  request_id: string;
  now: number;
  /** The same instant on the monotonic clock, for the ledger. */
  mono?: number;
  idempotency: IdempotencyKey;
  /** Given by the API; recorded in the activity log where anything changed. */
  action?: Action;
};

export type ChangeResult =
  | { ok: true; row: WorkloadRow }
  | { ok: false; code: 'not_found' | 'already_deleted' }
  | OverQuota;

export function stopWorkload(sql: Sql, args: ChangeArgs): Promise<Idempotent<ChangeResult>> {
  return change(sql, args, async (row, why) => {
    if (row.state === 'stopped' || row.state === 'stopping' || row.state === 'deleting') {
      if (row.state === 'deleting') return row;
      // What a person stopped is woken by nobody else.
      if (row.state === 'stopped' && row.intent === 'running') {
        const set = { intent: 'stopped', park_cause: 'user' } as const;
        return moveWorkload(sql, row, { event: 'stop', set, ...why }, args);
      }
      return setIntent(sql, row, 'stopped', row.intent === 'running' ? 'user' : row.park_cause);
    }
    const set = { intent: 'stopped', park_cause: 'user' } as const;
    const moved = await moveWorkload(sql, row, { event: 'stop', set, ...why }, args);
    if (moved === null) throw new Error(`stop was refused in ${row.state}`);
    if (moved.state !== 'stopping') return moved;
    const open = await wantRuns(sql, row.id, 'park');
    if (open > 0) return moved;
    return moveWorkload(sql, moved, { event: 'parked', ...why }, args);
  });
}

export function startWorkload(sql: Sql, args: ChangeArgs): Promise<Idempotent<ChangeResult>> {
  return change(sql, args, async (row, why) => {
    if (row.state === 'deleting') return null;
    if (row.state === 'stopping') {
      const by_policy = row.park_cause === 'idle' || row.park_cause === 'preempted';
      const park_cause = by_policy ? 'none' : row.park_cause;
      return setIntent(sql, row, 'running', park_cause);
    }
    if (row.state !== 'stopped' && row.state !== 'failed') {
      return hasSeveral(row) ? retryFailed(sql, row, args.now) : row;
    }
    const over = await refuseClaim(sql, await withAskedClaims(sql, row), row.id);
    if (over !== null) return { ok: false, code: 'quota_exceeded', details: over };
    const set = { intent: 'running', park_cause: 'none', attempts: 0, not_before: 0 } as const;
    return moveWorkload(sql, row, { event: 'start', set, ...why }, args);
  });
}

export function deleteWorkload(sql: Sql, args: ChangeArgs): Promise<Idempotent<ChangeResult>> {
  return change(sql, args, async (row, why) => {
    if (row.state === 'deleting') return row;
    const set = { intent: 'deleted' } as const;
    const moved = await moveWorkload(sql, row, { event: 'delete', set, ...why }, args);
    if (moved === null) return null;
    await revokeKeysOf(sql, { workload_id: row.id, now: args.now });
    await dropAliasesOf(sql, row.id);
    const left = await wantRuns(sql, row.id, 'remove');
    return left > 0 ? moved : moveWorkload(sql, moved, { event: 'removed', ...why }, args);
  });
}

type Why = { code: ReasonCode; details: Details };

/**
 * Finds, changes, and answers `already_deleted` where the table of states refused it (null), or
 * what else refused it.
 */
function change(
  sql: Sql,
  args: ChangeArgs,
  action: (row: WorkloadRow, why: Why) => Promise<WorkloadRow | OverQuota | null>,
): Promise<Idempotent<ChangeResult>> {
  return once(sql, args.idempotency, args.now, async (): Promise<ChangeResult> => {
    const row = await findWorkload(sql, args);
    if (row === undefined) return { ok: false, code: 'not_found' };
    if (row.state === 'deleted') return { ok: false, code: 'already_deleted' };
    const who = args.actor.replace(/^user:/, '');
    const changed = await action(row, { code: 'asked_by_user', details: { who } });
    if (changed === null) return { ok: false, code: 'already_deleted' };
    if (isOverQuota(changed)) return changed;
    if (changed.revision !== row.revision) {
      const details = { name: row.name };
      await recordAction(sql, args.action, { target: `workload:${row.id}`, details });
    }
    return { ok: true, row: changed };
  });
}

function isOverQuota(changed: WorkloadRow | OverQuota): changed is OverQuota {
  return 'ok' in changed;
}

async function setIntent(
  sql: Sql,
  row: WorkloadRow,
  intent: WorkloadRow['intent'],
  park_cause: string,
): Promise<WorkloadRow> {
  if (row.intent === intent && row.park_cause === park_cause) return row;
  const changed = await sql.get<WorkloadRow>(
    `update workloads set intent = $1, park_cause = $2, revision = revision + 1
     where id = $3 returning *`,
    [intent, park_cause, row.id],
  );
  return changed ?? row;
}

/**
 * Turns what is wanted of a workload's runs to park or remove, and returns how many still have to
 * be confirmed: unproven runs for `park`, everything not removed for `remove`.
 */
export async function wantRuns(
  sql: Sql,
  workload_id: string,
  wanted: 'park' | 'remove',
): Promise<number> {
  await bumpMachinesOf(sql, workload_id);
  await sql.run(
    `update runs set wanted = $1 where workload_id = $2 and removed_at is null
       and wanted <> 'remove'`,
    [wanted, workload_id],
  );
  // One that another run followed is not waited for: it says nothing of the workload any more.
  const open =
    wanted === 'park' ? 'ended_at is null and superseded_at is null' : 'removed_at is null';
  const left = await sql.get<{ count: number }>(
    `select count(*) as count from runs where workload_id = $1 and ${open}`,
    [workload_id],
  );
  return left?.count ?? 0;
}

/** A workload of the tenant by id or by name; a deleted one only by id. */
export const findWorkload: Query<
  { tenant_id: string; workload: string },
  WorkloadRow | undefined
> = (sql, args) =>
  sql.get<WorkloadRow>(
    `select * from workloads where tenant_id = $1
         and (id = $2 or (name = $2 and state <> 'deleted'))
       order by case when id = $2 then 0 else 1 end limit 1`,
    [args.tenant_id, args.workload],
  );

/** The same, and nobody else changes it until this transaction ends. */
export async function lockNamed(
  sql: Sql,
  args: { tenant_id: string; workload: string },
): Promise<WorkloadRow | undefined> {
  const found = await findWorkload(sql, args);
  return found === undefined ? undefined : lockWorkload(sql, found.id);
}

export type PageArgs = {
  tenant_id: string;
  /** Rows older than this one; null for the newest. */
  before: { created_at: number; id: string } | null;
  limit: number;
  deleted: boolean;
};

/** A page of a tenant's workloads, newest first. */
export const listWorkloads: Query<PageArgs, WorkloadRow[]> = (sql, args) =>
  sql.all<WorkloadRow>(
    `select * from workloads where tenant_id = $1
       and ($2 = 1 or state <> 'deleted')
       and ($3 = 0 or (created_at, id) < ($4, $5))
     order by created_at desc, id desc limit $6`,
    [
      args.tenant_id,
      args.deleted ? 1 : 0,
      args.before === null ? 0 : 1,
      args.before?.created_at ?? 0,
      args.before?.id ?? '',
      args.limit,
    ],
  );

/** The current run of each replica of some workloads, where it has one that was not removed. */
export const currentRuns: Query<
  { workload_ids: string[] },
  (RunRow & { machine_name: string; machine_tenant_id: string; machine_reclaim: string })[]
> = async (sql, args) =>
  args.workload_ids.length === 0
    ? []
    : sql.all(
        // A machine that is not shared with them any more may have another name by now.
        `select r.*, m.tenant_id as machine_tenant_id, m.reclaim as machine_reclaim,
             case when m.tenant_id = w.tenant_id or m.sharing = 'community'
               or (m.sharing = 'invite-only' and exists (select 1 from machine_guests g
                     where g.machine_id = m.id and g.tenant_id = w.tenant_id))
               then m.name else 'a machine of others' end as machine_name
           from runs r join workloads w on w.id = r.workload_id
             join machines m on m.id = r.machine_id
           where r.workload_id ${sql.in(args.workload_ids, 1)} and r.superseded_at is null
             and r.removed_at is null order by r.workload_id, r.replica`,
        args.workload_ids,
      );

/** Names of what has a run that is not proven gone. */
export const listRunningNames: Query<Record<string, never>, string[]> = async (sql) => {
  const rows = await sql.all<Row & { name: string }>(
    `select distinct w.name from workloads w join runs r on r.workload_id = w.id
     where r.ended_at is null and w.state in ('provisioning', 'running') order by w.name`,
  );
  return rows.map((row) => row.name);
};
