/**
 * Keys of runs: what a notebook calls its tenant's endpoints with (ADR-0051).
 *
 * Invariants: only the hash is stored; a key works while its run is the current one of a workload
 * that is wanted to run, and while whoever made the workload may use endpoints: nothing has to be
 * revoked, and nothing of it is listed; rows of runs that have ended are forgotten.
 */
import type { Query, Row, Sql } from './sql.ts';

export type KeepRunKeyArgs = {
  workload_id: string;
  replica: number;
  run_epoch: number;
  hash: string;
  now: number;
};

/** Under another deployment key the same run has another one, from then on alone. */
export async function keepRunKey(sql: Sql, args: KeepRunKeyArgs): Promise<{ kept: number }> {
  const kept = await sql.run(
    `insert into run_keys (workload_id, replica, run_epoch, hash, created_at)
     select r.workload_id, r.replica, r.run_epoch, cast($4 as text), cast($5 as bigint)
     from runs r
     where r.workload_id = $1 and r.replica = $2 and r.run_epoch = $3 and r.ended_at is null
     on conflict (workload_id, replica, run_epoch) do update set hash = excluded.hash`,
    [args.workload_id, args.replica, args.run_epoch, args.hash, args.now],
  );
  return { kept };
}

/** Forgets those of ended runs, at most 1,000 at a time. */
export async function forgetRunKeys(
  sql: Sql,
  _: Record<string, never>,
): Promise<{ forgotten: number }> {
  const forgotten = await sql.run(
    `delete from run_keys where hash in
       (select k.hash from run_keys k join runs r on r.workload_id = k.workload_id
          and r.replica = k.replica and r.run_epoch = k.run_epoch
        where r.ended_at is not null order by k.hash limit 1000)`,
  );
  return { forgotten };
}

export type RunKeyRow = Row & {
  workload_id: string;
  tenant_id: string;
  /** Who made the workload; the limits are theirs. */
  user_id: string;
  user_rpm: number | null;
  user_tpm: number | null;
  user_concurrency: number | null;
};

/** The key of a run that goes on, for the endpoints of the tenant of who made it. */
export const findRunKey: Query<{ hash: string }, RunKeyRow | undefined> = (sql, args) =>
  sql.get<RunKeyRow>(
    `select k.workload_id, w.tenant_id, u.id as user_id, l.rpm as user_rpm, l.tpm as user_tpm,
       l.concurrency as user_concurrency
     from run_keys k
       join runs r on r.workload_id = k.workload_id and r.replica = k.replica
         and r.run_epoch = k.run_epoch and r.ended_at is null and r.wanted = 'run'
       join workloads w on w.id = k.workload_id and w.run_epoch = k.run_epoch
         and w.intent = 'running' and w.state <> 'deleted'
       join users u on u.id = w.creator_id and u.tenant_id = w.tenant_id
         and u.disabled_at is null and u.role <> 'viewer'
       join tenants t on t.id = w.tenant_id and t.disabled_at is null
       left join request_limits l on l.kind = 'user' and l.subject_id = u.id
     where k.hash = $1`,
    [args.hash],
  );
export const hasRunKey: Query<{ hash: string }, Row | undefined> = (sql, args) =>
  sql.get('select workload_id from run_keys where hash = $1', [args.hash]);
