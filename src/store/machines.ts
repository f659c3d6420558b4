/**
 * Machines: who owns them, what they offer, and which agent speaks for them.
 *
 * Invariants: `agent_epoch` and `generation` only rise; an agent says what the machine has, never
 * who owns it, where it is or with whom it is shared; a poll that changes nothing writes nothing.
 */
import type { Amounts } from '../core/workload.ts';
import type { Query, Row, Sql } from './sql.ts';

export type MachineRow = Row & {
  id: string;
  tenant_id: string;
  name: string;
  region: string;
  sharing: 'private' | 'invite-only' | 'community';
  boot_id: string | null;
  agent_epoch: number;
  generation: number;
  cpu_millis: number;
  memory_bytes: number;
  disk_bytes: number;
  inventory: string | null;
  created_at: number;
  hello_at: number | null;
};

export type AddMachineArgs = {
  id: string;
  tenant_id: string;
  name: string;
  region: string;
  now: number;
};

/** Adds a machine unless the id is known already. */
export async function addMachine(sql: Sql, args: AddMachineArgs): Promise<{ added: number }> {
  const added = await sql.run(
    `insert into machines (id, tenant_id, name, region, sharing, agent_epoch, generation,
       cpu_millis, memory_bytes, disk_bytes, created_at)
     values ($1, $2, $3, $4, 'private', 0, 0, 0, 0, 0, $5)
     on conflict (id) do nothing`,
    [args.id, args.tenant_id, args.name, args.region, args.now],
  );
  return { added };
}

export type HelloArgs = {
  machine_id: string;
  boot_id: string;
  name: string;
  offered: Amounts;
  inventory: string;
  now: number;
};

/**
 * An agent begins: every earlier one of this machine is superseded. Null for an unknown machine.
 */
export async function greetMachine(
  sql: Sql,
  args: HelloArgs,
): Promise<{ agent_epoch: number } | null> {
  const row = await sql.get<MachineRow>(
    `update machines set agent_epoch = agent_epoch + 1, boot_id = $2, name = $3, cpu_millis = $4,
       memory_bytes = $5, disk_bytes = $6, inventory = $7, hello_at = $8
     where id = $1 returning *`,
    [
      args.machine_id,
      args.boot_id,
      args.name,
      args.offered.cpu_millis,
      args.offered.memory_bytes,
      args.offered.disk_bytes,
      args.inventory,
      args.now,
    ],
  );
  return row === undefined ? null : { agent_epoch: row.agent_epoch };
}

/** What a machine offers has changed while its agent ran. */
export async function updateInventory(
  sql: Sql,
  args: Omit<HelloArgs, 'boot_id' | 'now'>,
): Promise<{ changed: number }> {
  const changed = await sql.run(
    `update machines set name = $2, cpu_millis = $3, memory_bytes = $4, disk_bytes = $5,
       inventory = $6 where id = $1`,
    [
      args.machine_id,
      args.name,
      args.offered.cpu_millis,
      args.offered.memory_bytes,
      args.offered.disk_bytes,
      args.inventory,
    ],
  );
  return { changed };
}

export const findMachine: Query<{ machine_id: string }, MachineRow | undefined> = (sql, args) =>
  sql.get<MachineRow>('select * from machines where id = $1', [args.machine_id]);

export type MachineWithHolds = MachineRow & {
  owner: string;
  held_cpu_millis: number;
  held_memory_bytes: number;
  held_disk_bytes: number;
};

/** Every machine of a region (or of all), with the sums that are held of it. */
export const listMachines: Query<{ region: string | null }, MachineWithHolds[]> = (sql, args) =>
  sql.all<MachineWithHolds>(
    `select m.*, t.name as owner,
       cast(coalesce(sum(h.cpu_millis), 0) as bigint) as held_cpu_millis,
       cast(coalesce(sum(h.memory_bytes), 0) as bigint) as held_memory_bytes,
       cast(coalesce(sum(h.disk_bytes), 0) as bigint) as held_disk_bytes
     from machines m
       join tenants t on t.id = m.tenant_id
       left join holds h on h.machine_id = m.id and h.released_at is null
     where ($1 is null or m.region = $1)
     group by m.id, t.name order by m.id`,
    [args.region],
  );

/** Who holds something of which machine: pairs of machine and workload name. */
export const listHolders: Query<
  Record<string, never>,
  (Row & { machine_id: string; tenant_id: string; name: string })[]
> = (sql) =>
  sql.all(
    `select h.machine_id, w.tenant_id, w.name from holds h join workloads w on w.id = h.workload_id
     where h.released_at is null order by h.machine_id, h.created_at limit 5000`,
  );

/** Workloads that wait to be placed, in the order in which they are decided. */
export const listWaiting: Query<
  { now: number; limit: number },
  (Row & {
    id: string;
    tenant_id: string;
    state: 'pending' | 'queued';
    spec: string;
    code: string | null;
    details: string;
    revision: number;
    not_before: number;
  })[]
> = (sql, args) =>
  sql.all(
    `select id, tenant_id, state, spec, code, details, revision, not_before from workloads
     where state in ('pending', 'queued') and not_before <= $1
     order by created_at, id limit $2`,
    [args.now, args.limit],
  );

/** When the next workload that backs off may be decided, or null. */
export const nextAttempt: Query<{ now: number }, number | null> = async (sql, args) => {
  const row = await sql.get<Row & { at: number | null }>(
    `select min(not_before) as at from workloads
     where state in ('pending', 'queued') and not_before > $1`,
    [args.now],
  );
  return row?.at ?? null;
};
