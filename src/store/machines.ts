/**
 * Machines: who owns them, what they offer, and which agent speaks for them.
 *
 * Invariants: `agent_epoch` and `generation` only rise; an agent says what the machine has, never
 * who owns it, where it is, with whom it is shared, what a person calls it, nor more than its owner
 * lets it offer; a machine that was removed is none, but for its history; a poll that changes
 * nothing writes nothing.
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
  /** Rises whenever the inventory, or what people say of the machine, is written. */
  inventory_revision: number;
  hello_at: number | null;
  /** Since when nothing new is placed on it. */
  drained_at: number | null;
  /** What its owner wants of it back, as JSON of core/reclaim.ts; empty: nothing. */
  reclaim: string;
  cap_cpu_millis: number | null;
  cap_memory_bytes: number | null;
  cap_disk_bytes: number | null;
};

export type MachineRow = Row &
  MachineFields & {
    boot_id: string | null;
    /** Of the hello of its last agent. */
    hello_id: string | null;
    agent_epoch: number;
    generation: number;
    inventory: string | null;
    created_at: number;
    /** What its agent calls it; its name, too, until a person gives it one. */
    host_name: string;
    named_at: number | null;
    removed_at: number | null;
    reported_cpu_millis: number;
    reported_memory_bytes: number;
    reported_disk_bytes: number;
    fenced_at: number | null;
    /** The agent that was the last one when it was fenced. */
    fenced_epoch: number | null;
  };

export type AddMachineArgs = {
  id: string;
  tenant_id: string;
  name: string;
  region: string;
  now: number;
};

/**
 * Adds a machine unless the id is known already. One that was removed comes back as a new one would
 * be: private, under its own name; what its agents were told before still holds.
 */
export async function addMachine(sql: Sql, args: AddMachineArgs): Promise<{ added: number }> {
  const name = await freeMachineName(sql, args, args.name);
  const added = await sql.run(
    `insert into machines (id, tenant_id, name, region, sharing, agent_epoch, generation,
       cpu_millis, memory_bytes, disk_bytes, created_at, reconciled_epoch)
     values ($1, $2, $3, $4, 'private', 0, 0, 0, 0, 0, $5,
       coalesce((select cast(value as bigint) from meta where key = 'store_epoch'), 0))
     on conflict (id) do update set tenant_id = excluded.tenant_id, name = excluded.name,
       region = excluded.region, sharing = 'private', host_name = '', named_at = null,
       drained_at = null, removed_at = null, cap_cpu_millis = null, cap_memory_bytes = null,
       cap_disk_bytes = null, generation = machines.generation + 1,
       reconciled_epoch = excluded.reconciled_epoch
     where machines.removed_at is not null`,
    [args.id, args.tenant_id, name, args.region, args.now],
  );
  return { added };
}

/** How many names are tried before one is made of the machine's own id. */
const names_tried = 9;

/** A name that no other machine of the tenant has: `desk`, `desk-2`, … */
export async function freeMachineName(
  sql: Sql,
  machine: { id: string; tenant_id: string },
  wanted: string,
): Promise<string> {
  for (let number = 1; number <= names_tried; number += 1) {
    const name = number === 1 ? wanted : `${wanted}-${number}`;
    if (!(await isMachineName(sql, machine, name))) return name;
  }
  return `${wanted}-${machine.id.slice(-6)}`;
}

/** Whether another machine of the tenant has this name. */
export async function isMachineName(
  sql: Sql,
  { id, tenant_id }: { id: string; tenant_id: string },
  name: string,
): Promise<boolean> {
  const found = await sql.get(
    `select id from machines where tenant_id = $1 and name = $2 and removed_at is null
       and id <> $3 limit 1`,
    [tenant_id, name, id],
  );
  return found !== undefined;
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
  const row = await lockMachine(sql, args.machine_id);
  if (row === undefined) return { changed: 0 };
  await writeInventory(sql, row, args);
  return { changed: 1 };
}

/** What an agent says: under the name that a person gave, and within what its owner allows. */
export async function writeInventory(
  sql: Sql,
  row: MachineRow,
  { name: host_name, offered, inventory, news }: Omit<InventoryArgs, 'machine_id'>,
): Promise<void> {
  const is_theirs = row.named_at !== null || row.host_name === host_name;
  const name = is_theirs ? row.name : await freeMachineName(sql, row, host_name);
  const most = offeredWithin(capsOf(row), offered);
  await sql.run(
    `update machines set name = $2, host_name = $3, cpu_millis = $4, memory_bytes = $5,
       disk_bytes = $6, reported_cpu_millis = $7, reported_memory_bytes = $8,
       reported_disk_bytes = $9, inventory = $10, inventory_revision = inventory_revision + 1
     where id = $1`,
    [
      ...[row.id, name, host_name],
      ...[most.cpu_millis, most.memory_bytes, most.disk_bytes],
      ...[offered.cpu_millis, offered.memory_bytes, offered.disk_bytes],
      inventory,
    ],
  );
  await recordNews(sql, row.id, news);
}

/** What a machine's owner lets it offer at most; null: whatever it has. */
export type Caps = { [Name in keyof Amounts]: number | null };

export function capsOf(row: MachineFields): Caps {
  return {
    cpu_millis: row.cap_cpu_millis,
    memory_bytes: row.cap_memory_bytes,
    disk_bytes: row.cap_disk_bytes,
  };
}

/** What an agent reports, held to the owner's word (I-12). */
export function offeredWithin(caps: Caps, reported: Amounts): Amounts {
  const least = (name: keyof Amounts) => Math.min(caps[name] ?? reported[name], reported[name]);
  return {
    cpu_millis: least('cpu_millis'),
    memory_bytes: least('memory_bytes'),
    disk_bytes: least('disk_bytes'),
  };
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

/** What each report needs of its machine: without the inventory, which is long. */
export const machineInBrief: Query<
  { machine_id: string },
  (Row & { name: string; generation: number }) | undefined
> = (sql, args) =>
  sql.get('select name, generation from machines where id = $1', [args.machine_id]);

/** A machine, which is not changed by another transaction meanwhile; one that was removed is none. */
export function lockMachine(sql: Sql, machine_id: string): Promise<MachineRow | undefined> {
  return sql.get<MachineRow>(
    `select * from machines where id = $1 and removed_at is null ${sql.forUpdate}`,
    [machine_id],
  );
}

/** Machines of a name or an id that are shared with anybody: for operators, who may lower that. */
export const findShared: Query<{ machine: string }, (Row & { id: string; name: string })[]> = (
  sql,
  args,
) =>
  sql.all(
    `select id, name from machines where removed_at is null and sharing <> 'private'
       and (id = $1 or name = $1) order by id limit 2`,
    [args.machine],
  );

/**
 * A page of the generations of machines, by id; empty where their sum is still `known`. Those that
 * were removed are among them, so that the sum only rises.
 */
export const listGenerations: Query<
  { after: string; limit: number; known: number | null },
  (Row & { id: string; generation: number; removed_at: number | null })[]
> = (sql, args) =>
  sql.all(
    `select id, generation, removed_at from machines
     where id > $1 and cast($3 as bigint) is distinct from
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
export type MachineWithHolds = MachineFields & { owner: string; held: Amounts; guests: Guest[] };

/** A tenant that a machine is shared with by name. */
export type Guest = { tenant_id: string; slug: string };

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
       m.disk_bytes, m.inventory_revision, m.hello_at, m.drained_at, m.reclaim,
       m.cap_cpu_millis, m.cap_memory_bytes, m.cap_disk_bytes, t.name as owner
     from machines m join tenants t on t.id = m.tenant_id
     where m.id > $1 and m.removed_at is null
       and ($2 = '' or m.tenant_id = $2 or m.sharing = 'community'
         or (m.sharing = 'invite-only' and exists (select 1 from machine_guests g
               where g.machine_id = m.id and g.tenant_id = $2)))
     order by m.id limit $3`,
    [args.after, args.tenant_id ?? '', args.limit],
  );
  const page = [args.after, rows.at(-1)?.id ?? ''];
  const sums = await sql.all<Row & Amounts & { machine_id: string }>(
    `select machine_id, cast(sum(cpu_millis) as bigint) as cpu_millis,
       cast(sum(memory_bytes) as bigint) as memory_bytes,
       cast(sum(disk_bytes) as bigint) as disk_bytes
     from holds where released_at is null and machine_id > $1 and machine_id <= $2
     group by machine_id order by machine_id limit $3`,
    [...page, args.limit],
  );
  const held = new Map(sums.map((sum) => [sum.machine_id, sum]));
  const guests = await guestsBy(sql, page);
  return rows.map((row) => {
    const { cpu_millis = 0, memory_bytes = 0, disk_bytes = 0 } = held.get(row.id) ?? {};
    const amounts = { cpu_millis, memory_bytes, disk_bytes };
    return { ...row, held: amounts, guests: guests.get(row.id) ?? [] };
  });
};

/** Guests of the machines of a page, by slug. Most machines have none. */
async function guestsBy(sql: Sql, page: string[]): Promise<Map<string, Guest[]>> {
  const found = await sql.all<Row & Guest & { machine_id: string }>(
    `select g.machine_id, g.tenant_id, t.slug from machine_guests g
       join tenants t on t.id = g.tenant_id
     where g.machine_id > $1 and g.machine_id <= $2 order by g.machine_id, t.slug`,
    page,
  );
  const byMachine = new Map<string, Guest[]>();
  for (const { machine_id, tenant_id, slug } of found) {
    const guests = byMachine.get(machine_id) ?? [];
    guests.push({ tenant_id, slug });
    byMachine.set(machine_id, guests);
  }
  return byMachine;
}

export type InventoryRow = Row & { id: string; inventory: string | null };

/** Inventories of some machines. */
export const readInventories: Query<{ ids: string[] }, InventoryRow[]> = async (sql, args) =>
  args.ids.length === 0
    ? []
    : sql.all(`select id, inventory from machines where id ${sql.in(args.ids, 1)}`, args.ids);

export type HolderRow = Row & { machine_id: string; name: string };

/** What of a tenant holds something of which machine: pairs of machine and workload name. */
export const listHolders: Query<{ tenant_id: string; of_gpus?: boolean }, HolderRow[]> = (
  sql,
  args,
) =>
  sql.all(
    `select h.machine_id, w.name from holds h join workloads w on w.id = h.workload_id
     where h.released_at is null and h.device ${args.of_gpus ? '<>' : '='} '' and w.tenant_id = $1
     group by h.machine_id, w.id, w.name
     order by h.machine_id, min(h.created_at), w.name limit 5000`,
    [args.tenant_id],
  );
