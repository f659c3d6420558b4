/**
 * Agents: who speaks for a machine, and what a person says of one that cannot speak.
 *
 * Invariants: `agent_epoch` only rises, and a hello that comes late or twice supersedes nobody; a
 * machine that is still heard of from one boot is not taken over from another; a fence is a
 * person's word, on record; what may not run on a machine any more is stopped with the change.
 */
import type { AgentIdentity } from '../contract/sync.ts';
import { mayRun, type Sharing, trustLevel } from '../core/trust.ts';
import type { Amounts } from '../core/workload.ts';
import { type Cause, moveWorkload, type WorkloadRow } from './events.ts';
import { type MachineNews, type MachineRow, recordNews } from './machines.ts';
import { readStoreEpoch } from './restore.ts';
import { endByFence } from './run-reports.ts';
import type { RunRow } from './runs.ts';
import type { Sql } from './sql.ts';

export type HelloArgs = {
  machine_id: string;
  boot_id: string;
  hello_id: string;
  /** What the machine's agents were told last; null for its very first one. */
  known: AgentIdentity | null;
  /** Another agent of it may be alive: it was heard of within the last lease, or we just began. */
  is_heard: boolean;
  name: string;
  offered: Amounts;
  inventory: string;
  news?: MachineNews | undefined;
  now: number;
};

export type HelloResult =
  | ({ outcome: 'greeted' } & AgentIdentity)
  | ({ outcome: 'behind' } & AgentIdentity)
  | { outcome: 'unknown_machine' | 'other_boot' | 'newer_store' };

/** An agent begins: every earlier one of this machine is superseded. A repeat changes nothing. */
export async function greetMachine(sql: Sql, args: HelloArgs): Promise<HelloResult> {
  const row = await sql.get<MachineRow & { hello_id: string | null }>(
    `select * from machines where id = $1 ${sql.forUpdate}`,
    [args.machine_id],
  );
  if (row === undefined) return { outcome: 'unknown_machine' };
  const store = await readStoreEpoch(sql);
  if ((args.known?.store_epoch ?? 0) > store.store_epoch) return { outcome: 'newer_store' };
  const { agent_epoch } = row;
  if (row.hello_id === args.hello_id) return { outcome: 'greeted', ...store, agent_epoch };
  // After a restore the store's own number may be the lower one.
  const is_same_store = args.known?.store_epoch === store.store_epoch;
  const told = args.known?.agent_epoch ?? 0;
  if (told < agent_epoch && (args.known === null || is_same_store)) {
    return { outcome: 'behind', ...store, agent_epoch };
  }
  const is_other_boot = row.boot_id !== null && row.boot_id !== args.boot_id;
  if (is_other_boot && args.is_heard) return { outcome: 'other_boot' };
  const next = Math.max(agent_epoch, told) + 1;
  await takeOver(sql, args, next);
  return { outcome: 'greeted', ...store, agent_epoch: next };
}

async function takeOver(sql: Sql, args: HelloArgs, agent_epoch: number): Promise<void> {
  await sql.run(
    `update machines set agent_epoch = $2, boot_id = $3, hello_id = $4, name = $5, cpu_millis = $6,
       memory_bytes = $7, disk_bytes = $8, inventory = $9, hello_at = $10,
       inventory_revision = inventory_revision + 1
     where id = $1`,
    [
      args.machine_id,
      agent_epoch,
      args.boot_id,
      args.hello_id,
      args.name,
      args.offered.cpu_millis,
      args.offered.memory_bytes,
      args.offered.disk_bytes,
      args.inventory,
      args.now,
    ],
  );
  await recordNews(sql, args.machine_id, args.news);
}

export type FenceArgs = Cause & {
  machine_id: string;
  /** The machine's agent as the person knew it: where another one spoke since, nothing is fenced. */
  agent_epoch: number;
};

/**
 * A person says that the machine is powered off: whatever ran on it is over, and what it held is
 * free. What turns out to run there after all is removed as soon as the machine is heard of.
 */
export async function fenceMachine(
  sql: Sql,
  args: FenceArgs,
): Promise<{ outcome: 'fenced' | 'spoke_since' | 'not_found'; ended: number }> {
  const machine = await sql.get<MachineRow>(
    `select * from machines where id = $1 ${sql.forUpdate}`,
    [args.machine_id],
  );
  if (machine === undefined) return { outcome: 'not_found', ended: 0 };
  if (machine.agent_epoch !== args.agent_epoch) return { outcome: 'spoke_since', ended: 0 };
  await sql.run(
    `update machines set fenced_at = $2, fenced_by = $3, generation = generation + 1
     where id = $1`,
    [machine.id, args.now, args.actor],
  );
  const runs = await sql.all<RunRow>(
    'select * from runs where machine_id = $1 and ended_at is null order by workload_id',
    [machine.id],
  );
  for (const run of runs) await endByFence(sql, run, machine.name, args);
  // What a restored store waits to hear of this machine, nobody will say.
  const { store_epoch } = await readStoreEpoch(sql);
  await sql.run('update machines set reconciled_epoch = $2 where id = $1', [
    machine.id,
    store_epoch,
  ]);
  return { outcome: 'fenced', ended: runs.length };
}

export type ShareArgs = Cause & { machine_id: string; tenant_id: string; sharing: Sharing };

/**
 * Changes who owns a machine and with whom it is shared. What may not run there any more is
 * stopped in the same transaction; it stays parked until a person starts it.
 */
export async function shareMachine(sql: Sql, args: ShareArgs): Promise<{ parked: number }> {
  const { machine_id, tenant_id, sharing } = args;
  await sql.run(
    `update machines set tenant_id = $2, sharing = $3, generation = generation + 1 where id = $1`,
    [machine_id, tenant_id, sharing],
  );
  const rows = await sql.all<RunRow & { tenant_id: string }>(
    `select r.*, w.tenant_id from runs r join workloads w on w.id = r.workload_id
     where r.machine_id = $1 and r.ended_at is null and r.wanted = 'run' order by r.workload_id`,
    [machine_id],
  );
  let parked = 0;
  for (const run of rows) {
    const owner = { owner_tenant_id: tenant_id, invited_tenant_ids: [] };
    if (mayRun(trustLevel(run.tenant_id, owner), run.driver, sharing)) continue;
    parked += await parkForTrust(sql, run, args);
  }
  return { parked };
}

async function parkForTrust(sql: Sql, run: RunRow, cause: Cause): Promise<number> {
  await sql.run(
    `update runs set wanted = 'park' where workload_id = $1 and replica = $2 and run_epoch = $3`,
    [run.workload_id, run.replica, run.run_epoch],
  );
  const row = await sql.get<WorkloadRow>('select * from workloads where id = $1', [
    run.workload_id,
  ]);
  if (row === undefined || row.run_epoch !== run.run_epoch) return 0;
  if (row.state !== 'provisioning' && row.state !== 'running') return 0;
  const set = { intent: 'stopped', park_cause: 'trust' } as const;
  await moveWorkload(sql, row, { event: 'stop', code: 'trust_lost', set }, cause);
  return 1;
}
