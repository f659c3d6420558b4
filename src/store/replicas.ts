/**
 * Replicas of endpoints that have more than one, as rows (ADR-0062).
 *
 * Invariants: a workload has a row for each of its replicas, or none where it is deleted or has one
 * alone: then its own row says it all; a row says of a replica what the workload's says of one that
 * is alone: tries, back-off, why it waits; the state of a workload is written by `moveWorkload` and
 * nowhere here.
 */
import type { ReplicaChange, ReplicaState, Siblings } from '../core/replicas.ts';
import type { WorkloadRow } from './events.ts';
import type { RunRow } from './runs.ts';
import type { Query, Row, Sql } from './sql.ts';

export type ReplicaRow = Row & {
  workload_id: string;
  replica: number;
  state: ReplicaState;
  attempts: number;
  not_before: number;
  code: string | null;
  details: string;
  since: number;
  revision: number;
};

export function hasSeveral({ replicas }: Pick<WorkloadRow, 'replicas'>): boolean {
  return replicas > 1;
}

export function replicasOf(sql: Sql, workload_id: string): Promise<ReplicaRow[]> {
  return sql.all<ReplicaRow>('select * from replicas where workload_id = $1 order by replica', [
    workload_id,
  ]);
}

/** Rows for the replicas from `from` up to `to`, waiting; what is there already stays. */
export async function addReplicas(
  sql: Sql,
  workload_id: string,
  { from, to, now }: { from: number; to: number; now: number },
): Promise<void> {
  for (let replica = from; replica < to; replica += 1) {
    await sql.run(
      `insert into replicas (workload_id, replica, state, attempts, not_before, code, details,
         since, revision)
       values ($1, $2, 'waiting', 0, 0, null, '{}', $3, 1) on conflict do nothing`,
      [workload_id, replica, now],
    );
  }
}

/** All of them wait, and none was ever tried: the workload begins anew. */
export async function resetReplicas(sql: Sql, workload_id: string, now: number): Promise<void> {
  await sql.run(
    `update replicas set state = 'waiting', attempts = 0, not_before = 0, code = null,
       details = '{}', since = $2, revision = revision + 1 where workload_id = $1`,
    [workload_id, now],
  );
}

/** Of what is deleted none is waited for. */
export async function forgetReplicas(sql: Sql, workload_id: string): Promise<void> {
  await sql.run('delete from replicas where workload_id = $1', [workload_id]);
}

export async function setReplica(
  sql: Sql,
  key: { workload_id: string; replica: number },
  change: Partial<ReplicaChange>,
  now: number,
): Promise<void> {
  const row = await readReplica(sql, key);
  if (row === undefined) return;
  const { details, ...plain } = change;
  const set = { ...row, ...plain };
  await sql.run(
    `update replicas set state = $3, attempts = $4, not_before = $5, code = $6, details = $7,
       since = $8, revision = revision + 1 where workload_id = $1 and replica = $2`,
    [
      ...[key.workload_id, key.replica, set.state, set.attempts, set.not_before, set.code],
      details === undefined ? row.details : JSON.stringify(details),
      set.state === row.state ? row.since : now,
    ],
  );
}

/** A person asks that those which failed be tried again. */
export async function retryFailed(sql: Sql, row: WorkloadRow, now: number): Promise<WorkloadRow> {
  const tried = await sql.run(
    `update replicas set state = 'waiting', attempts = 0, not_before = 0, code = null,
       details = '{}', since = $2, revision = revision + 1
     where workload_id = $1 and state = 'failed'`,
    [row.id, now],
  );
  if (tried === 0) return row;
  const changed = await sql.get<WorkloadRow>(
    'update workloads set revision = revision + 1 where id = $1 returning *',
    [row.id],
  );
  return changed ?? row;
}

/** Which of those that wait is to be placed first: one that rests waits behind one that does not. */
export async function firstWaiting(
  sql: Sql,
  workload_id: string,
  now: number,
): Promise<number | null> {
  const row = await sql.get<Row & { replica: number }>(
    `select replica from replicas where workload_id = $1 and state = 'waiting'
     order by case when not_before <= $2 then 0 else 1 end, replica limit 1`,
    [workload_id, now],
  );
  return row?.replica ?? null;
}

export function readReplica(
  sql: Sql,
  { workload_id, replica }: { workload_id: string; replica: number },
): Promise<ReplicaRow | undefined> {
  return sql.get<ReplicaRow>('select * from replicas where workload_id = $1 and replica = $2', [
    workload_id,
    replica,
  ]);
}

/** What is to go counts against the quota until it is proven gone, and no longer. */
export async function settleClaims(sql: Sql, row: WorkloadRow): Promise<WorkloadRow> {
  if (row.claims <= row.replicas) return row;
  const open = (await countingRuns(sql, row.id)).filter(
    (run) => run.replica >= row.replicas && run.ended_at === null,
  );
  const claims = row.replicas + open.length;
  if (claims === row.claims) return row;
  const changed = await sql.get<WorkloadRow>(
    'update workloads set claims = $2, revision = revision + 1 where id = $1 returning *',
    [row.id, claims],
  );
  return changed ?? row;
}

export type CurrentRun = Pick<RunRow, 'replica' | 'ready_at' | 'ended_at' | 'wanted'>;

/** Runs that count: of each replica the last one, those of replicas that are to go as well. */
export function countingRuns(sql: Sql, workload_id: string): Promise<CurrentRun[]> {
  return sql.all<Row & CurrentRun>(
    `select replica, ready_at, ended_at, wanted from runs
     where workload_id = $1 and superseded_at is null`,
    [workload_id],
  );
}

/** How the others stand beside one replica (-1: all of them). */
export async function siblingsOf(sql: Sql, row: WorkloadRow, replica: number): Promise<Siblings> {
  const runs = await countingRuns(sql, row.id);
  const others = runs.filter((run) => run.replica !== replica && run.ended_at === null);
  const wanted = others.filter((run) => run.replica < row.replicas && run.wanted === 'run');
  const rows = (await replicasOf(sql, row.id)).filter((one) => one.replica !== replica);
  const ready = wanted.filter((run) => run.ready_at !== null).length;
  const waiting = rows.filter(({ state }) => state !== 'failed');
  const off = waiting.length - wanted.length;
  const restings = waiting.filter(({ state }) => state === 'waiting');
  return {
    ...{ ready, preparing: wanted.length - ready, open: others.length },
    ...{ waiting: Math.max(0, off), failed: rows.length - waiting.length },
    not_before:
      restings.length === 0 ? null : Math.min(...restings.map(({ not_before }) => not_before)),
  };
}

/** Of each replica of some workloads, how it stands; nothing of those that have one alone. */
export const listReplicas: Query<{ workload_ids: string[] }, ReplicaRow[]> = async (sql, args) =>
  args.workload_ids.length === 0
    ? []
    : sql.all<ReplicaRow>(
        `select * from replicas where workload_id ${sql.in(args.workload_ids, 1)}
         order by workload_id, replica`,
        args.workload_ids,
      );
