/**
 * Regions: where machines are. A machine's region is an operator's word, never its agent's.
 *
 * Invariants: a machine changes its region only while nothing lives there: no run that is not
 * proven gone, no workload whose disk it keeps; checked with its row locked, as placing does.
 */
import { type Action, recordAction } from './activity.ts';
import type { Query, Row, Sql } from './sql.ts';

/** Regions of the machines that a tenant may know of; of all machines where none is named. */
export const listRegions: Query<{ tenant_id: string | null }, string[]> = async (sql, args) => {
  const rows = await sql.all<Row & { region: string }>(
    `select distinct region from machines
     where removed_at is null and ($1 = '' or tenant_id = $1 or sharing = 'community'
       or (sharing = 'invite-only' and id in
         (select machine_id from machine_guests where tenant_id = $1)))
     order by region limit 200`,
    [args.tenant_id ?? ''],
  );
  return rows.map(({ region }) => region);
};

export type MoveArgs = {
  machine_id: string;
  region: string;
  now: number;
  action?: Action;
};

export type MoveResult =
  | { outcome: 'moved' | 'not_found' }
  | { outcome: 'in_use'; runs: number; homes: number };

/** Says in which region a machine is. */
export async function setMachineRegion(sql: Sql, args: MoveArgs): Promise<MoveResult> {
  const { machine_id, region } = args;
  const machine = await sql.get<Row & { region: string }>(
    `select region from machines where id = $1 and removed_at is null ${sql.forUpdate}`,
    [machine_id],
  );
  if (machine === undefined) return { outcome: 'not_found' };
  if (machine.region === region) return { outcome: 'moved' };
  const lives = await sql.get<Row & { runs: number; homes: number }>(
    `select (select count(*) from runs where machine_id = $1 and ended_at is null) as runs,
       (select count(*) from workloads where home_machine_id = $1 and state <> 'deleted') as homes`,
    [machine_id],
  );
  const { runs = 0, homes = 0 } = lives ?? {};
  if (runs > 0 || homes > 0) return { outcome: 'in_use', runs, homes };
  await sql.run(
    'update machines set region = $2, inventory_revision = inventory_revision + 1 where id = $1',
    [machine_id, region],
  );
  const details = { from: machine.region, region };
  await recordAction(sql, args.action, { target: `machine:${machine_id}`, details });
  return { outcome: 'moved' };
}

/** A machine of anybody, by id or by name; of one's own before others'. For operators. */
export const findAnyMachine: Query<
  { tenant_id: string; machine: string },
  (Row & { id: string; name: string }) | undefined
> = (sql, args) =>
  sql.get(
    `select id, name from machines where removed_at is null and (id = $2 or name = $2)
     order by case when id = $2 then 0 when tenant_id = $1 then 1 else 2 end, id limit 1`,
    [args.tenant_id, args.machine],
  );
