/**
 * What the people of its owner do about a machine: its name, what it may offer, whether anything
 * new comes, and that it is gone (ADR-0056).
 *
 * Invariants: all of it on the machine's locked row, on which placement waits, too; a machine goes
 * only once nothing can run there any more and nobody's disk is on it, unless that was said; what
 * its timelines and ledgers tell of it stays.
 */
import { type Action, recordAction } from './activity.ts';
import { type Cause, noteWorkload, type WorkloadRow } from './events.ts';
import { unsettle } from './homes.ts';
import {
  type Caps,
  capsOf,
  isMachineName,
  lockMachine,
  type MachineRow,
  offeredWithin,
} from './machines.ts';
import { moveWorkload } from './moves.ts';
import { finishDeletion } from './run-reports.ts';
import type { RunRow } from './runs.ts';
import { type MachineChange, parkRuns } from './sharing.ts';
import type { Row, Sql } from './sql.ts';

export type NotThere = { ok: false; code: 'not_found' };
const not_found = { ok: false, code: 'not_found' } as const;

/** The machine, where it is of whoever asks. */
async function ownMachine(sql: Sql, args: MachineChange): Promise<MachineRow | undefined> {
  const row = await lockMachine(sql, args.machine_id);
  return row?.tenant_id === args.tenant_id ? row : undefined;
}

export async function renameMachine(
  sql: Sql,
  args: MachineChange & { name: string },
): Promise<{ ok: true } | NotThere | { ok: false; code: 'machine_name_taken' }> {
  const row = await ownMachine(sql, args);
  if (row === undefined) return not_found;
  if (row.name === args.name && row.named_at !== null) return { ok: true };
  // Two machines that are named at once wait for each other here.
  await sql.get(`select id from tenants where id = $1 ${sql.forUpdate}`, [row.tenant_id]);
  if (await isMachineName(sql, row, args.name)) return { ok: false, code: 'machine_name_taken' };
  await sql.run(
    `update machines set name = $2, named_at = $3, inventory_revision = inventory_revision + 1
     where id = $1`,
    [row.id, args.name, args.now],
  );
  await record(sql, row, args.action, { name: args.name, before: row.name });
  return { ok: true };
}

/**
 * `drained` 1: nothing new is placed there; 0: again. With `stop` what runs there is stopped too,
 * and runs again where it can: its creator wanted nothing else.
 */
export async function drainMachine(
  sql: Sql,
  args: MachineChange & { drained: number; stop: number },
): Promise<{ ok: true; parked: number } | NotThere> {
  const row = await ownMachine(sql, args);
  if (row === undefined) return not_found;
  const was = row.drained_at === null ? 0 : 1;
  const parked = args.stop === 1 ? await parkAll(sql, row, args) : 0;
  if (was === args.drained && parked === 0) return { ok: true, parked };
  await sql.run(
    `update machines set drained_at = $2, generation = generation + 1,
       inventory_revision = inventory_revision + 1 where id = $1`,
    [row.id, args.drained === 1 ? (row.drained_at ?? args.now) : null],
  );
  await record(sql, row, args.action, { name: row.name, parked });
  return { ok: true, parked };
}

async function parkAll(sql: Sql, machine: MachineRow, cause: Cause): Promise<number> {
  const runs = await sql.all<RunRow>(
    `select * from runs where machine_id = $1 and ended_at is null and wanted = 'run'
     order by workload_id`,
    [machine.id],
  );
  const details = { machine: machine.name };
  const set = { park_cause: 'preempted' };
  return parkRuns(sql, runs, { event: 'stop', code: 'machine_drained', details, set }, cause);
}

/** Sets what a machine offers at most; what is left out stays, null is no limit. */
export async function limitMachine(
  sql: Sql,
  args: MachineChange & { caps: Partial<Caps> },
): Promise<{ ok: true } | NotThere> {
  const row = await ownMachine(sql, args);
  if (row === undefined) return not_found;
  const before = capsOf(row);
  const caps = { ...before, ...args.caps };
  const names = ['cpu_millis', 'memory_bytes', 'disk_bytes'] as const;
  if (names.every((name) => caps[name] === before[name])) return { ok: true };
  const most = offeredWithin(caps, {
    cpu_millis: row.reported_cpu_millis,
    memory_bytes: row.reported_memory_bytes,
    disk_bytes: row.reported_disk_bytes,
  });
  await sql.run(
    `update machines set cap_cpu_millis = $2, cap_memory_bytes = $3, cap_disk_bytes = $4,
       cpu_millis = $5, memory_bytes = $6, disk_bytes = $7,
       inventory_revision = inventory_revision + 1
     where id = $1`,
    [
      ...[row.id, caps.cpu_millis, caps.memory_bytes, caps.disk_bytes],
      ...[most.cpu_millis, most.memory_bytes, most.disk_bytes],
    ],
  );
  await record(sql, row, args.action, { name: row.name, ...caps });
  return { ok: true };
}

export type RemoveResult =
  | { ok: true; forgotten: number }
  | NotThere
  | {
      ok: false;
      code: 'machine_has_runs' | 'machine_in_use';
      machine: string;
      /** Names of the owner's own workloads, and how many are of others. */
      own: string[];
      others: number;
    };

/**
 * Removes a machine. With `forget_homes` the disks of the owner's workloads are given up with it,
 * and those of others only once it was fenced: then they are lost anyway. Nothing is deleted on
 * the machine.
 */
export async function removeMachine(
  sql: Sql,
  args: MachineChange & { forget_homes: number },
): Promise<RemoveResult> {
  const row = await ownMachine(sql, args);
  if (row === undefined) return not_found;
  const running = await sql.all<WorkloadRow>(
    `select * from workloads where id in
       (select workload_id from runs where machine_id = $1 and ended_at is null) order by name`,
    [row.id],
  );
  if (running.length > 0) return inTheWay('machine_has_runs', row, running);
  const homes = await sql.all<WorkloadRow>(
    `select * from workloads where home_machine_id = $1 and state not in ('deleting', 'deleted')
     order by name`,
    [row.id],
  );
  const is_fenced = row.fenced_epoch === row.agent_epoch;
  const theirs = homes.filter((home) => home.tenant_id !== row.tenant_id);
  const may_forget = args.forget_homes === 1 && (theirs.length === 0 || is_fenced);
  if (homes.length > 0 && !may_forget) return inTheWay('machine_in_use', row, homes);
  for (const home of homes) await forgetHome(sql, row, home, args);
  await sql.run('update runs set removed_at = $2 where machine_id = $1 and removed_at is null', [
    row.id,
    args.now,
  ]);
  await finishDeletions(sql, row.id, args);
  await sql.run('delete from machine_guests where machine_id = $1', [row.id]);
  await sql.run('delete from model_files where machine_id = $1', [row.id]);
  await sql.run(
    `update machines set removed_at = $2, sharing = 'private', generation = generation + 1,
       inventory_revision = inventory_revision + 1 where id = $1`,
    [row.id, args.now],
  );
  await record(sql, row, args.action, { name: row.name, forgotten: homes.length });
  return { ok: true, forgotten: homes.length };
}

function inTheWay(
  code: 'machine_has_runs' | 'machine_in_use',
  { name: machine, tenant_id }: MachineRow,
  rows: readonly WorkloadRow[],
): RemoveResult {
  const own = rows.filter((one) => one.tenant_id === tenant_id).map((one) => one.name);
  return { ok: false, code, machine, own, others: rows.length - own.length };
}

/** Says on its timeline that its disk is gone. What waits for that disk does not begin without it. */
async function forgetHome(
  sql: Sql,
  machine: MachineRow,
  home: WorkloadRow,
  cause: Cause,
): Promise<void> {
  const who = cause.actor.replace(/^user:/, '');
  const why = { code: 'home_lost', details: { machine: machine.name, who } } as const;
  await unsettle(sql, home);
  const row = await sql.get<WorkloadRow>('select * from workloads where id = $1', [home.id]);
  if (row === undefined) return;
  const waits = row.state === 'pending' || row.state === 'queued';
  if (waits) await moveWorkload(sql, row, { event: 'fail', ...why }, cause);
  else await noteWorkload(sql, row, why, cause);
}

/** What was to be deleted, and only waited to hear that of this machine. */
async function finishDeletions(sql: Sql, machine_id: string, cause: Cause): Promise<void> {
  const rows = await sql.all<WorkloadRow>(
    `select * from workloads where state = 'deleting' and id in
       (select workload_id from runs where machine_id = $1)`,
    [machine_id],
  );
  for (const row of rows) await finishDeletion(sql, row, cause);
}

async function record(
  sql: Sql,
  { id }: Row & { id: string },
  action: Action | undefined,
  details: Record<string, string | number | null>,
): Promise<void> {
  await recordAction(sql, action, { target: `machine:${id}`, details });
}
