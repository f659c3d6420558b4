/**
 * Placing: a new run of a workload on a machine, and what it keeps of that.
 *
 * Invariants: a run is placed together with its hold, its event and the machine's generation; sums
 * of holds are checked with the machine's row locked, so no machine is promised twice.
 */
import { type Amounts, type Placement, readSpec, type WorkloadSpec } from '../core/workload.ts';
import { type Cause, moveWorkload, type WorkloadRow } from './events.ts';
import { openInterval } from './ledger.ts';
import { withClaims } from './quotas.ts';
import { isReconciled, nextRunEpoch } from './restore.ts';
import { bumpMachinesOf } from './runs.ts';
import type { Row, Sql } from './sql.ts';

export type PlaceArgs = Cause & {
  workload_id: string;
  revision: number;
  placement: Placement;
};

export type PlaceResult = {
  outcome: 'placed' | 'changed_meanwhile' | 'no_room' | 'unreconciled';
};

/** Places a waiting workload: a new run, its hold, and the machine's next generation. */
export async function placeWorkload(sql: Sql, args: PlaceArgs): Promise<PlaceResult> {
  const row = await sql.get<WorkloadRow>(
    `select * from workloads where id = $1 and revision = $2
       and state in ('pending', 'queued') ${sql.forUpdate}`,
    [args.workload_id, args.revision],
  );
  if (row === undefined) return { outcome: 'changed_meanwhile' };
  const unproven = await sql.get(
    'select run_epoch from runs where workload_id = $1 and ended_at is null',
    [row.id],
  );
  if (unproven !== undefined) return { outcome: 'changed_meanwhile' };
  if (!(await isReconciled(sql, row.restored_epoch))) return { outcome: 'unreconciled' };
  const asked = readSpec(row.spec);
  await withClaims(sql, row);
  const machine_id = args.placement.machine_id;
  if (!(await hasRoom(sql, machine_id, asked))) return { outcome: 'no_room' };
  const run_epoch = nextRunEpoch(row);
  await sql.run(`update runs set wanted = 'remove' where workload_id = $1 and removed_at is null`, [
    row.id,
  ]);
  await insertRun(sql, args, run_epoch, asked);
  await bumpMachinesOf(sql, row.id);
  const { machine_name, driver, placed_class, isolation } = args.placement;
  const placed = await moveWorkload(
    sql,
    row,
    {
      event: 'place',
      code: null,
      set: { run_epoch },
      extra: { machine: machine_name, driver, placed_class, isolation, run_epoch },
    },
    args,
  );
  if (placed === null) throw new Error(`placing was refused in ${row.state}`);
  const run = { workload_id: row.id, replica: 0, run_epoch };
  await openInterval(sql, 'held', run, row, placed.event_at, args);
  return { outcome: 'placed' };
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

async function insertRun(
  sql: Sql,
  args: PlaceArgs,
  run_epoch: number,
  asked: WorkloadSpec,
): Promise<void> {
  const { machine_id, driver, isolation, placed_class } = args.placement;
  await sql.run(
    `insert into runs (workload_id, replica, run_epoch, machine_id, driver, isolation,
       placed_class, wanted, observed, created_at)
     values ($1, 0, $2, $3, $4, $5, $6, 'run', 'absent', $7)`,
    [args.workload_id, run_epoch, machine_id, driver, isolation, placed_class, args.now],
  );
  await sql.run(
    `insert into holds (workload_id, replica, run_epoch, machine_id, device, cpu_millis,
       memory_bytes, disk_bytes, created_at)
     values ($1, 0, $2, $3, '', $4, $5, $6, $7)`,
    [
      args.workload_id,
      run_epoch,
      machine_id,
      asked.cpu_millis,
      asked.memory_bytes,
      asked.disk_bytes,
      args.now,
    ],
  );
}
