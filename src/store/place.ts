/**
 * Placing: a new run of a workload on a machine, and what it keeps of that.
 *
 * Invariants: a run is placed together with its hold, its event and the machine's generation; sums
 * of holds are checked with the machine's row locked, so no machine is promised twice.
 */
import type { Details } from '../core/reasons.ts';
import type { Amounts, Placement, WorkloadSpec } from '../core/workload.ts';
import { areFree, type DevicesAsked, takeDevices } from './device-holds.ts';
import type { Cause, WorkloadRow } from './events.ts';
import { claimPlaced, noteTaken, type PlacedAs, placedAs } from './fallback.ts';
import { settle } from './homes.ts';
import { openInterval, type RunKeys } from './ledger.ts';
import { moveWorkload } from './moves.ts';
import { firstWaiting, hasSeveral, setReplica } from './replicas.ts';
import { isReconciled, nextRunEpoch } from './restore.ts';
import { avoidedName } from './retries.ts';
import { bumpMachinesOf } from './runs.ts';
import { mayPlace } from './sharing.ts';
import type { Row, Sql } from './sql.ts';

export type PlaceArgs = Cause & {
  workload_id: string;
  revision: number;
  placement: Placement;
  /** Which step of its fallbacks this is; 0, or left out: what was asked. */
  fallback_step?: number;
};

export type PlaceResult = {
  outcome:
    | 'placed'
    | 'changed_meanwhile'
    | 'no_room'
    | 'unreconciled'
    | 'not_allowed'
    | 'over_quota';
  /** Which quota is in the way. */
  details?: Details;
};

/** Places a waiting workload: a new run, its hold, and the machine's next generation. */
export async function placeWorkload(sql: Sql, args: PlaceArgs): Promise<PlaceResult> {
  const row = await sql.get<WorkloadRow>(
    `select * from workloads where id = $1 and revision = $2
       and state in ('pending', 'queued') ${sql.forUpdate}`,
    [args.workload_id, args.revision],
  );
  if (row === undefined) return { outcome: 'changed_meanwhile' };
  const replica = hasSeveral(row) ? await firstWaiting(sql, row.id, args.now) : 0;
  if (replica === null) return { outcome: 'changed_meanwhile' };
  const unproven = await sql.get(
    `select run_epoch from runs where workload_id = $1 and replica = $2 and superseded_at is null
       and ended_at is null`,
    [row.id, replica],
  );
  if (unproven !== undefined) return { outcome: 'changed_meanwhile' };
  if (!(await isReconciled(sql, row.restored_epoch))) return { outcome: 'unreconciled' };
  const as = placedAs(row, args.placement, args.fallback_step ?? 0, args.now);
  if (as === null) return { outcome: 'not_allowed' };
  const region = row.home_machine_id === null ? as.spec.region : null;
  const devices = await takeable(sql, row, as.spec, args.placement, region);
  if ('outcome' in devices) return devices;
  const over = await claimPlaced(sql, row, as);
  if (over !== null) return { outcome: 'over_quota', details: over };
  const run_epoch = nextRunEpoch(row);
  const run = { workload_id: row.id, replica, run_epoch };
  await supersedeRuns(sql, run, args.now);
  await insertRun(sql, args, run, as);
  await takeDevices(sql, run, devices, args.now);
  await settle(sql, row, args.placement);
  await bumpMachinesOf(sql, row.id);
  const { machine_name, driver, placed_class, isolation } = args.placement;
  const avoided = await avoidedName(sql, row, args.now);
  const placed = await moveWorkload(
    sql,
    row,
    {
      event: 'place',
      code: null,
      set: { run_epoch },
      extra: {
        ...{ machine: machine_name, driver, placed_class, isolation, run_epoch },
        ...gpusPlaced(devices),
        ...(row.attempts === 0 ? {} : { attempt: row.attempts + 1, avoided }),
        ...(as.taken === null ? {} : { fallback: as.taken.to, asked: as.taken.asked }),
      },
    },
    args,
  );
  if (placed === null) throw new Error(`placing was refused in ${row.state}`);
  if (hasSeveral(row)) await setReplica(sql, run, { state: 'placed', code: null }, args.now);
  await openInterval(sql, 'held', run, row, placed.event_at, args);
  await noteTaken(sql, placed, as.taken, args.placement, args);
  return { outcome: 'placed' };
}

/**
 * What it would take of its machine's GPUs, where that has room for it and may have it: by now it
 * may be drained, removed, or shared with fewer. Its row is locked from here on.
 */
export async function takeable(
  sql: Sql,
  row: Pick<WorkloadRow, 'tenant_id' | 'creator_id'>,
  asked: WorkloadSpec,
  placement: Placement,
  /** Null: wherever its home is. */
  region: string | null,
): Promise<DevicesAsked | PlaceResult> {
  if (!(await mayPlace(sql, row.tenant_id, placement, region))) return { outcome: 'not_allowed' };
  if (!(await hasRoom(sql, placement.machine_id, asked))) return { outcome: 'no_room' };
  const devices = devicesAsked(row, asked, placement);
  return devices !== null && (await areFree(sql, devices)) ? devices : { outcome: 'no_room' };
}

/** What it takes of its machine's GPUs; null where these are not as many as it asks for. */
function devicesAsked(
  { creator_id }: Pick<WorkloadRow, 'creator_id'>,
  { gpu_count, share_device }: WorkloadSpec,
  { machine_id, devices = [] }: Placement,
): DevicesAsked | null {
  if (devices.length !== gpu_count) return null;
  return { machine_id, devices, sharer: share_device ? creator_id : null };
}

/** What the timeline says of them. */
export function gpusPlaced({ devices }: DevicesAsked): { gpus?: string } {
  return devices.length === 0 ? {} : { gpus: devices.join(', ') };
}

/** Every earlier run of this replica is to go, and says nothing of its workload any more. */
export async function supersedeRuns(
  sql: Sql,
  { workload_id, replica }: Pick<RunKeys, 'workload_id' | 'replica'>,
  now: number,
): Promise<void> {
  await sql.run(
    `update runs set wanted = 'remove', superseded_at = $3
     where workload_id = $1 and replica = $2 and superseded_at is null`,
    [workload_id, replica, now],
  );
}

async function hasRoom(sql: Sql, machine_id: string, asked: Amounts): Promise<boolean> {
  const machine = await sql.get<Row & Amounts>(
    `select cpu_millis, memory_bytes, disk_bytes from machines where id = $1
       and reconciled_epoch >=
         coalesce((select cast(value as bigint) from meta where key = 'store_epoch'), 0)
     ${sql.forUpdate}`,
    [machine_id],
  );
  // One that has not told what it runs since a restore may be full of what is unknown here.
  if (machine === undefined) return false;
  const held = await sql.get<Row & Amounts>(
    `select cast(coalesce(sum(cpu_millis), 0) as bigint) as cpu_millis,
       cast(coalesce(sum(memory_bytes), 0) as bigint) as memory_bytes,
       cast(coalesce(sum(disk_bytes), 0) as bigint) as disk_bytes
     from holds where machine_id = $1 and released_at is null`,
    [machine_id],
  );
  const fits = (name: keyof Amounts) => asked[name] + (held?.[name] ?? 0) <= machine[name];
  return fits('cpu_millis') && fits('memory_bytes') && fits('disk_bytes');
}

/** Of the run of workload `$1` on machine `$3`: its owner's own, or of somebody else. */
const tier = `case when (select w.tenant_id from workloads w where w.id = $1)
  = (select m.tenant_id from machines m where m.id = $3) then 'trusted' else 'untrusted' end`;

export async function insertRun(
  sql: Sql,
  args: Pick<PlaceArgs, 'placement' | 'now'>,
  { workload_id, replica, run_epoch }: RunKeys,
  { spec: asked, taken }: PlacedAs,
): Promise<void> {
  const { machine_id, driver, as = null, isolation, placed_class } = args.placement;
  const { runtime, weight_millis = 0 } = args.placement;
  await sql.run(
    `insert into runs (workload_id, replica, run_epoch, machine_id, driver, isolation,
       placed_class, wanted, observed, created_at, driver_as, fallback, runtime, weight_millis,
       isolation_tier)
     values ($1, $10, $2, $3, $4, $5, $6, 'run', 'absent', $7, $8, $9, $11, $12, ${tier})`,
    [
      ...[workload_id, run_epoch, machine_id, driver, isolation, placed_class, args.now, as],
      taken === null ? '' : JSON.stringify(taken),
      replica,
      ...[runtime === undefined ? null : JSON.stringify(runtime), weight_millis],
    ],
  );
  await sql.run(
    `insert into holds (workload_id, replica, run_epoch, machine_id, device, cpu_millis,
       memory_bytes, disk_bytes, created_at)
     values ($1, $8, $2, $3, '', $4, $5, $6, $7)`,
    [
      workload_id,
      run_epoch,
      machine_id,
      asked.cpu_millis,
      asked.memory_bytes,
      asked.disk_bytes,
      args.now,
      replica,
    ],
  );
}
