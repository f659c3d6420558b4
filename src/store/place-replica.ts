/**
 * Placing one replica of an endpoint while its workload goes on: one that waits beside others, or
 * one whose run nobody has heard of (ADR-0062, ADR-0063).
 *
 * Invariants: only an endpoint gets a run while another one of the same replica is not proven gone;
 * that one gets no requests, says nothing of the workload any more, and keeps what it holds until
 * it is proven gone; no run is followed by another before a place for that one is found.
 */
import { stepSpec, takenOf } from '../core/fallback.ts';
import { eventOf } from '../core/replicas.ts';
import { type Placement, readSpec } from '../core/workload.ts';
import { takeDevices } from './device-holds.ts';
import { type Cause, noteWorkload, type WorkloadRow } from './events.ts';
import type { PlacedAs } from './fallback.ts';
import { closeMetered, openInterval, type RunKeys } from './ledger.ts';
import { moveWorkload } from './moves.ts';
import { insertRun, type PlaceResult, supersedeRuns, takeable } from './place.ts';
import { hasSeveral, readReplica, setReplica, siblingsOf } from './replicas.ts';
import { isReconciled, nextRunEpoch } from './restore.ts';
import { bumpMachinesOf, type RunRow } from './runs.ts';
import type { Sql } from './sql.ts';

/** What was decided on: a replica as its row was, or the run that nobody has heard of. */
export type ReplicaUnit =
  | { why: 'waiting'; revision: number }
  | { why: 'silent'; run_epoch: number; machine: string; since: string };

export type PlaceReplicaArgs = Cause & {
  workload_id: string;
  replica: number;
  unit: ReplicaUnit;
  placement: Placement;
};

export async function placeReplica(sql: Sql, args: PlaceReplicaArgs): Promise<PlaceResult> {
  const { workload_id, replica, unit, placement } = args;
  const row = await sql.get<WorkloadRow>(
    `select * from workloads where id = $1 and kind = 'endpoint' and intent = 'running'
       and replicas > $2 and state in ('provisioning', 'running') ${sql.forUpdate}`,
    [workload_id, replica],
  );
  if (row === undefined) return { outcome: 'changed_meanwhile' };
  const before = await sql.get<RunRow>(
    'select * from runs where workload_id = $1 and replica = $2 and superseded_at is null',
    [workload_id, replica],
  );
  if (!(await isAsDecided(sql, args, before))) return { outcome: 'changed_meanwhile' };
  if (!(await isReconciled(sql, row.restored_epoch))) return { outcome: 'unreconciled' };
  const as = asPlaced(row, placement);
  if (as === null) return { outcome: 'not_allowed' };
  const devices = await takeable(sql, row, as.spec, placement, as.spec.region);
  if ('outcome' in devices) return devices;
  const run = { workload_id, replica, run_epoch: nextRunEpoch(row) };
  await supersedeRuns(sql, run, args.now);
  const left = unit.why === 'silent' ? await leave(sql, row, run, unit, args) : row;
  await insertRun(sql, args, run, as);
  await takeDevices(sql, run, devices, args.now);
  await bumpMachinesOf(sql, workload_id);
  const placed = await tell(sql, left, run, args);
  await openInterval(sql, 'held', run, row, placed.event_at, args);
  return { outcome: 'placed' };
}

/** As the others of it: what was asked, or the fallback that stands in for it. */
function asPlaced(row: WorkloadRow, { placed_class }: Placement): PlacedAs | null {
  const asked = readSpec(row.spec);
  const { fallback_step: step } = row;
  if (step === 0) return { spec: asked, taken: null };
  const spec = stepSpec(asked, step);
  return spec === null ? null : { spec, taken: takenOf(asked, step, placed_class, 0) };
}

async function isAsDecided(
  sql: Sql,
  { workload_id, replica, unit }: PlaceReplicaArgs,
  before: RunRow | undefined,
): Promise<boolean> {
  const is_open = before !== undefined && before.ended_at === null;
  if (unit.why === 'silent') {
    return is_open && before.run_epoch === unit.run_epoch && before.wanted === 'run';
  }
  const row = await readReplica(sql, { workload_id, replica });
  return !is_open && row?.state === 'waiting' && row.revision === unit.revision;
}

/** What is not heard of is measured no longer; where nothing else answers, the workload waits. */
async function leave(
  sql: Sql,
  row: WorkloadRow,
  { replica }: RunKeys,
  { machine, since, run_epoch }: ReplicaUnit & { why: 'silent' },
  args: PlaceReplicaArgs,
): Promise<WorkloadRow> {
  const why = { code: 'replica_unheard', details: { machine, since, replica } } as const;
  const followed = { workload_id: row.id, replica, run_epoch };
  if (!hasSeveral(row)) {
    const set = { not_before: 0 };
    const moved = await moveWorkload(sql, row, { event: 'replace', set, ...why }, args);
    if (moved === null) throw new Error(`a replacement was refused in ${row.state}`);
    return moved;
  }
  await closeMetered(sql, followed, args, 'unseen');
  const others = await siblingsOf(sql, row, replica);
  const event = eventOf(row.state, { ...others, preparing: others.preparing + 1 });
  if (event === null) return noteWorkload(sql, row, why, args);
  return (await moveWorkload(sql, row, { event, ...why }, args)) ?? row;
}

/** The new run on the timeline: a move where the workload has none, a note where others go on. */
async function tell(
  sql: Sql,
  row: WorkloadRow,
  run: RunKeys,
  args: PlaceReplicaArgs,
): Promise<WorkloadRow> {
  const { run_epoch, replica } = run;
  const { machine_name: machine, driver, placed_class, isolation } = args.placement;
  const extra = { machine, driver, placed_class, isolation, run_epoch };
  if (!hasSeveral(row)) {
    const set = { run_epoch };
    const moved = await moveWorkload(sql, row, { event: 'place', code: null, set, extra }, args);
    if (moved === null) throw new Error(`placing was refused in ${row.state}`);
    return moved;
  }
  await setReplica(sql, run, { state: 'placed', code: null, not_before: 0 }, args.now);
  const numbered = await sql.get<WorkloadRow>(
    'update workloads set run_epoch = $2, revision = revision + 1 where id = $1 returning *',
    [row.id, run_epoch],
  );
  if (numbered === undefined) throw new Error('a workload went while it was locked');
  const details = { replica, machine, driver, placed_class };
  return noteWorkload(sql, numbered, { code: 'replica_placed', details, extra }, args);
}
