/**
 * Replicas that are to get a run while their workload goes on: those that wait beside others, and
 * those whose run nobody has heard of for long (ADR-0062, ADR-0063).
 *
 * Invariants: why a replica waits is a note of the timeline, once for each reason; nothing here
 * moves a workload.
 */
import { back_off_limit_ms } from '../core/judge.ts';
import { type Details, type ReasonCode, sentenceOf } from '../core/reasons.ts';
import { type Cause, lockWorkload, noteWorkload } from './events.ts';
import { readReplica, setReplica } from './replicas.ts';
import type { Query, Row, Sql } from './sql.ts';

/** Of a replica's workload, what admission goes by. */
export type Whose = {
  workload_id: string;
  replica: number;
  tenant_id: string;
  creator_id: string;
  spec: string;
  fallback_step: number;
  created_at: number;
};

export type WaitingReplica = Row & Whose & { revision: number; code: string | null; since: number };

const of_workload = `w.tenant_id, w.creator_id, w.spec, w.fallback_step, w.created_at`;
const goes_on = `w.state in ('provisioning', 'running') and w.intent = 'running'`;

/** Those that wait beside others and may be tried now, at most so many. */
export const listWaitingReplicas: Query<{ now: number; limit: number }, WaitingReplica[]> = (
  sql,
  args,
) =>
  sql.all<WaitingReplica>(
    `select p.workload_id, p.replica, p.revision, p.code, p.since, ${of_workload}
     from replicas p join workloads w on w.id = p.workload_id and ${goes_on}
     where p.state = 'waiting' and (p.not_before <= $1 or p.not_before > $2)
     order by p.workload_id, p.replica limit $3`,
    [args.now, args.now + back_off_limit_ms, args.limit],
  );

export type SilentReplica = Row &
  Whose & { run_epoch: number; machine_id: string; machine_name: string };

/** Endpoints' runs on these machines that count and are not proven gone, at most so many. */
export const listSilentReplicas: Query<
  { machine_ids: string[]; limit: number },
  SilentReplica[]
> = async (sql, args) =>
  args.machine_ids.length === 0
    ? []
    : sql.all<SilentReplica>(
        `select r.workload_id, r.replica, r.run_epoch, r.machine_id, m.name as machine_name,
           ${of_workload}
         from runs r join machines m on m.id = r.machine_id
           join workloads w on w.id = r.workload_id and w.kind = 'endpoint' and ${goes_on}
             and r.replica < w.replicas
         where r.machine_id ${sql.in(args.machine_ids, 2)} and r.removed_at is null
           and r.ended_at is null and r.superseded_at is null and r.wanted = 'run'
         order by r.workload_id, r.replica limit $1`,
        [args.limit, ...args.machine_ids],
      );

/** Where the other replicas of these workloads are. */
export const machinesOfReplicas: Query<
  { workload_ids: string[] },
  (Row & { workload_id: string; machine_id: string })[]
> = async (sql, args) =>
  args.workload_ids.length === 0
    ? []
    : sql.all(
        `select workload_id, machine_id from runs
         where workload_id ${sql.in(args.workload_ids, 1)} and superseded_at is null
           and ended_at is null`,
        args.workload_ids,
      );

/** Ids of machines that are in use: those whose silence matters. */
export const listMachineIds: Query<Record<string, never>, string[]> = async (sql) =>
  (await sql.all<{ id: string }>('select id from machines where removed_at is null')).map(
    ({ id }) => id,
  );

export type QueueReplicasArgs = Cause & {
  /** At most 100. */
  members: { workload_id: string; replica: number; revision: number }[];
  code: ReasonCode;
  details: Details;
};

/** Says of replicas why they wait, where that is news. */
export async function queueReplicas(
  sql: Sql,
  args: QueueReplicasArgs,
): Promise<{ queued: number }> {
  const { code, details } = args;
  let queued = 0;
  for (const { workload_id, replica, revision } of args.members) {
    const row = await lockWorkload(sql, workload_id);
    const own = await readReplica(sql, { workload_id, replica });
    const is_same = own?.state === 'waiting' && own.revision === revision;
    if (row === undefined || !is_same || own.code === code) continue;
    await setReplica(sql, own, { code, details }, args.now);
    const why = sentenceOf(code, { name: row.name, ...details });
    await noteWorkload(sql, row, { code: 'replica_waits', details: { replica, why } }, args);
    queued += 1;
  }
  return { queued };
}
