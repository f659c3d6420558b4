/**
 * Who has which GPU of a machine: one run alone, or a creator for some of their own (ADR-0053).
 *
 * Invariants: a device has one taker at a time, by a unique index, and each open hold of a device
 * names that taker, by a foreign key: so no second user's hold can be written, whatever the code
 * that writes it thought; a device is free once the last of its holds has ended, by proof alone.
 */
import { sharers_limit } from '../core/devices.ts';
import { type RunKey, runName } from '../core/run.ts';
import type { Query, Row, Sql } from './sql.ts';

export type DevicesAsked = {
  machine_id: string;
  devices: readonly string[];
  /** The creator who shares it; null where a run has it alone. */
  sharer: string | null;
};

/** Whether these devices can be taken. Asked with the machine's row locked, so it stays so. */
export async function areFree(sql: Sql, asked: DevicesAsked): Promise<boolean> {
  const { machine_id, devices, sharer } = asked;
  if (new Set(devices).size !== devices.length) return false;
  for (const device of devices) {
    const taken = await sql.get<Row & { taker: string; holds: number }>(
      `select t.taker, (select cast(count(*) as bigint) from holds h
         where h.taken = t.id) as holds
       from taken_devices t where t.machine_id = $1 and t.device = $2`,
      [machine_id, device],
    );
    if (taken === undefined) continue;
    if (sharer === null || taken.taker !== sharer || taken.holds >= sharers_limit) return false;
  }
  return true;
}

/** A hold of each device for a run, which `areFree` said could be had. */
export async function takeDevices(
  sql: Sql,
  run: RunKey,
  { machine_id, devices, sharer }: DevicesAsked,
  now: number,
): Promise<void> {
  const taker = sharer ?? runName(run);
  for (const device of devices) {
    const id = `${machine_id}/${device}/${taker}`;
    await sql.run(
      `insert into taken_devices (id, machine_id, device, taker, created_at)
       values ($1, $2, $3, $4, $5) on conflict (id) do nothing`,
      [id, machine_id, device, taker, now],
    );
    await sql.run(
      `insert into holds (workload_id, replica, run_epoch, machine_id, device, cpu_millis,
         memory_bytes, disk_bytes, created_at, sharer, taken)
       values ($1, $2, $3, $4, $5, 0, 0, 0, $6, $7, $8)`,
      [run.workload_id, run.replica, run.run_epoch, machine_id, device, now, sharer ?? '', id],
    );
  }
}

/** What nobody of a machine holds any more is free. */
export async function freeDevices(sql: Sql, machine_id: string): Promise<void> {
  await sql.run(
    `delete from taken_devices where machine_id = $1
       and not exists (select 1 from holds h where h.taken = taken_devices.id)`,
    [machine_id],
  );
}

export type DeviceOfRun = Row & RunKey & { device: string };

/** Devices that runs of a machine hold, by run. */
export const devicesOfMachine: Query<{ machine_id: string }, DeviceOfRun[]> = (sql, args) =>
  sql.all<DeviceOfRun>(
    `select h.workload_id, h.replica, h.run_epoch, h.device
     from taken_devices t join holds h on h.taken = t.id
     where t.machine_id = $1 order by h.workload_id, h.replica, h.run_epoch, h.device`,
    [args.machine_id],
  );

export type HeldDevice = Row & {
  machine_id: string;
  device: string;
  sharer: string;
  workload_id: string;
  tenant_id: string;
  name: string;
};

/** Holds of devices of some machines, with whose they are. */
export const heldDevices: Query<{ ids: string[] }, HeldDevice[]> = async (sql, args) =>
  args.ids.length === 0
    ? []
    : sql.all<HeldDevice>(
        `select t.machine_id, t.device, h.sharer, h.workload_id, w.tenant_id, w.name
         from taken_devices t join holds h on h.taken = t.id
           join workloads w on w.id = h.workload_id
         where t.machine_id ${sql.in(args.ids, 1)}
         order by t.machine_id, t.device, h.created_at, w.name`,
        args.ids,
      );

export type DeviceOfWorkload = Row &
  RunKey & { device: string; sharer: string; taken: string; other: string | null };

/**
 * Devices that workloads hold now, by run, and who shares each: a row for each other workload that
 * does, or one without any.
 */
export const devicesOfWorkloads: Query<{ workload_ids: string[] }, DeviceOfWorkload[]> = async (
  sql,
  args,
) =>
  args.workload_ids.length === 0
    ? []
    : sql.all<DeviceOfWorkload>(
        `select h.workload_id, h.replica, h.run_epoch, h.device, h.sharer, h.taken,
           w.name as other
         from holds h
           left join holds o on o.taken = h.taken and o.workload_id <> h.workload_id
           left join workloads w on w.id = o.workload_id
         where h.taken is not null and h.workload_id ${sql.in(args.workload_ids, 1)}
         order by h.workload_id, h.replica, h.run_epoch, h.device, w.name`,
        args.workload_ids,
      );
