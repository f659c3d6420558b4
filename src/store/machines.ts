/**
 * Machines: who owns them, what they offer, and which agent speaks for them.
 *
 * Invariants: `agent_epoch` and `generation` only rise; an agent says what the machine has, never
 * who owns it, where it is or with whom it is shared; a poll that changes nothing writes nothing.
 */
import type { Details } from '../core/reasons.ts';
import type { Amounts } from '../core/workload.ts';
import { type Action, recordAction } from './activity.ts';
import type { Query, Row, Sql } from './sql.ts';

type MachineFields = {
  id: string;
  tenant_id: string;
  name: string;
  region: string;
  sharing: 'private' | 'invite-only' | 'community';
  cpu_millis: number;
  memory_bytes: number;
  disk_bytes: number;
  /** Rises whenever the inventory is written. */
  inventory_revision: number;
  hello_at: number | null;
};

export type MachineRow = Row &
  MachineFields & {
    boot_id: string | null;
    agent_epoch: number;
    generation: number;
    inventory: string | null;
    created_at: number;
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
       cpu_millis, memory_bytes, disk_bytes, created_at, reconciled_epoch)
     values ($1, $2, $3, $4, 'private', 0, 0, 0, 0, 0, $5,
       coalesce((select cast(value as bigint) from meta where key = 'store_epoch'), 0))
     on conflict (id) do nothing`,
    [args.id, args.tenant_id, args.name, args.region, args.now],
  );
  return { added };
}

export type InventoryArgs = {
  machine_id: string;
  name: string;
  offered: Amounts;
  inventory: string;
  news?: MachineNews | undefined;
};

/** What of a change of a machine is to stand in its owner's activity log. */
export type MachineNews = { action: Action; details: Details };

/** What a machine offers has changed while its agent ran. */
export async function updateInventory(sql: Sql, args: InventoryArgs): Promise<{ changed: number }> {
  const changed = await sql.run(
    `update machines set name = $2, cpu_millis = $3, memory_bytes = $4, disk_bytes = $5,
       inventory = $6, inventory_revision = inventory_revision + 1 where id = $1`,
    [
      args.machine_id,
      args.name,
      args.offered.cpu_millis,
      args.offered.memory_bytes,
      args.offered.disk_bytes,
      args.inventory,
    ],
  );
  await recordNews(sql, args.machine_id, args.news);
  return { changed };
}

export async function recordNews(
  sql: Sql,
  machine_id: string,
  news: MachineNews | undefined,
): Promise<void> {
  const target = `machine:${machine_id}`;
  if (news !== undefined) await recordAction(sql, news.action, { target, details: news.details });
}

export const findMachine: Query<{ machine_id: string }, MachineRow | undefined> = (sql, args) =>
  sql.get<MachineRow>('select * from machines where id = $1', [args.machine_id]);

/** A page of the generations of machines, by id; empty where their sum is still `known`. */
export const listGenerations: Query<
  { after: string; limit: number; known: number | null },
  (Row & { id: string; generation: number })[]
> = (sql, args) =>
  sql.all(
    `select id, generation from machines where id > $1 and cast($3 as bigint) is distinct from
       (select cast(coalesce(sum(generation + 1), 0) as bigint) from machines)
     order by id limit $2`,
    [args.after, args.limit, args.known],
  );

/** Rises with each generation and each machine: neither goes back, and no machine goes away. */
export function sumOfGenerations(generations: Iterable<number>): number {
  let sum = 0;
  for (const generation of generations) sum += generation + 1;
  return sum;
}

/** A machine with who owns it and the sums that are held of it. */
export type MachineWithHolds = MachineFields & { owner: string; held: Amounts };

export type MachinePage = {
  /** The last id of the page before; empty for the first. */
  after: string;
  limit: number;
  /** Only those that this tenant may know of; null for all. */
  tenant_id: string | null;
};

/**
 * A page of machines by id, with the sums that are held of each. Their inventories are read apart:
 * they are long, and seldom change. Two reads, each along an index: one that joined would go
 * through all later machines for every page.
 */
export const listMachines: Query<MachinePage, MachineWithHolds[]> = async (sql, args) => {
  const rows = await sql.all<Row & MachineFields & { owner: string }>(
    `select m.id, m.tenant_id, m.name, m.region, m.sharing, m.cpu_millis, m.memory_bytes,
       m.disk_bytes, m.inventory_revision, m.hello_at, t.name as owner
     from machines m join tenants t on t.id = m.tenant_id
     where m.id > $1 and ($2 = '' or m.tenant_id = $2 or m.sharing = 'community')
     order by m.id limit $3`,
    [args.after, args.tenant_id ?? '', args.limit],
  );
  const sums = await sql.all<Row & Amounts & { machine_id: string }>(
    `select machine_id, cast(sum(cpu_millis) as bigint) as cpu_millis,
       cast(sum(memory_bytes) as bigint) as memory_bytes,
       cast(sum(disk_bytes) as bigint) as disk_bytes
     from holds where released_at is null and machine_id > $1 and machine_id <= $2
     group by machine_id order by machine_id`,
    [args.after, rows.at(-1)?.id ?? ''],
  );
  const held = new Map(sums.map((sum) => [sum.machine_id, sum]));
  return rows.map((row) => {
    const { cpu_millis = 0, memory_bytes = 0, disk_bytes = 0 } = held.get(row.id) ?? {};
    return { ...row, held: { cpu_millis, memory_bytes, disk_bytes } };
  });
};

export type InventoryRow = Row & { id: string; inventory: string | null };

/** Inventories of some machines. */
export const readInventories: Query<{ ids: string[] }, InventoryRow[]> = async (sql, args) =>
  args.ids.length === 0
    ? []
    : sql.all(`select id, inventory from machines where id ${sql.in(args.ids, 1)}`, args.ids);

export type HolderRow = Row & { machine_id: string; name: string };

/** What of a tenant holds something of which machine: pairs of machine and workload name. */
export const listHolders: Query<{ tenant_id: string }, HolderRow[]> = (sql, args) =>
  sql.all(
    `select h.machine_id, w.name from holds h join workloads w on w.id = h.workload_id
     where h.released_at is null and w.tenant_id = $1
     order by h.machine_id, h.created_at, w.name limit 5000`,
    [args.tenant_id],
  );
