/**
 * Runs: attempts of a workload on a machine, as rows, and what a machine's desired state reads.
 */
import { runName } from '../core/run.ts';
import type { DriverName, IsolationTier, Sharing } from '../core/trust.ts';
import { devicesOfMachine } from './device-holds.ts';
import type { WorkloadRow } from './events.ts';
import type { Query, Row, Sql } from './sql.ts';

export type RunRow = Row & {
  workload_id: string;
  replica: number;
  run_epoch: number;
  machine_id: string;
  driver: DriverName;
  /** Of a made-up machine: whose row of the trust matrix the driver took (ADR-0057). */
  driver_as: DriverName | null;
  isolation: 'strong' | 'weak';
  /** trusted: of the machine's owner; untrusted: of anybody else. */
  isolation_tier: IsolationTier;
  placed_class: string;
  wanted: 'run' | 'park' | 'remove';
  observed: 'present' | 'absent' | 'unknown';
  proven_at: number | null;
  /** The last proof that it executed, on the ledger's clock. */
  proven_steady: number | null;
  ready_at: number | null;
  ended_at: number | null;
  exit: string | null;
  removed_at: number | null;
  created_at: number;
  /** Another run of the same replica follows it: this one says nothing of its workload any more. */
  superseded_at: number | null;
  /** What it stands in for, as JSON; empty where it was placed as asked (core/fallback.ts). */
  fallback: string;
  /** Programs of it that were ended for lack of memory, as far as was noted. */
  oom_kills: number;
  /** What its machine's guard does to it ("paused owner_active"); empty where it is left alone. */
  guarded: string;
  /** For how long it stood still in all, as its agent counted. */
  paused_ms: number;
};
/** What its machine is to do with one run. */
export async function wantRun(
  sql: Sql,
  { workload_id, replica, run_epoch }: Pick<RunRow, 'workload_id' | 'replica' | 'run_epoch'>,
  wanted: RunRow['wanted'],
): Promise<void> {
  await sql.run(
    'update runs set wanted = $4 where workload_id = $1 and replica = $2 and run_epoch = $3',
    [workload_id, replica, run_epoch, wanted],
  );
}

/** Marks that the desired state of each machine with a run of this workload has changed. */
export async function bumpMachinesOf(sql: Sql, workload_id: string): Promise<void> {
  await sql.run(
    `update machines set generation = generation + 1 where id in
       (select machine_id from runs where workload_id = $1 and removed_at is null)`,
    [workload_id],
  );
}
export type DesiredRow = RunRow & {
  name: string;
  spec: string;
  intent: WorkloadRow['intent'];
  tenant_id: string;
  owner_tenant_id: string;
  sharing: Sharing;
  is_guest: number;
  /** The slug of the workload's tenant. */
  tenant: string;
  /** The GPUs that the run holds, by UUID, with commas between. */
  gpu_uuids: string;
};

/** Every run of a machine that is not yet gone without a trace, with what it is for. */
export const runsOfMachine: Query<{ machine_id: string }, DesiredRow[]> = async (sql, args) => {
  const held = await devicesOfMachine(sql, args);
  const byRun = Map.groupBy(held, runName);
  const rows = await sql.all<DesiredRow>(
    `select r.*, w.name, w.spec, w.intent, w.tenant_id, m.tenant_id as owner_tenant_id, m.sharing,
       t.slug as tenant,
       (select cast(count(*) as bigint) from machine_guests g
        where g.machine_id = m.id and g.tenant_id = w.tenant_id) as is_guest
     from runs r join workloads w on w.id = r.workload_id join machines m on m.id = r.machine_id
       join tenants t on t.id = w.tenant_id
     where r.machine_id = $1 and r.removed_at is null
     order by r.workload_id, r.replica, r.run_epoch`,
    [args.machine_id],
  );
  return rows.map((row) => {
    const devices = held.length === 0 ? [] : (byRun.get(runName(row)) ?? []);
    return { ...row, gpu_uuids: devices.map(({ device }) => device).join(',') };
  });
};
