/**
 * Agents: who speaks for a machine, and what a person says of one that cannot speak.
 *
 * Invariants: `agent_epoch` only rises, and a hello that comes late or twice supersedes nobody; a
 * machine that is still heard of from one boot is not taken over from another; of one that was
 * removed no agent is heard; a fence is a person's word, on record.
 */
import type { AgentIdentity } from '../contract/sync.ts';
import type { Amounts } from '../core/workload.ts';
import { type Action, recordAction } from './activity.ts';
import type { Cause } from './events.ts';
import { lockMachine, type MachineNews, type MachineRow, writeInventory } from './machines.ts';
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
  const row = await lockMachine(sql, args.machine_id);
  if (row === undefined) return { outcome: 'unknown_machine' };
  const store = await readStoreEpoch(sql);
  if ((args.known?.store_epoch ?? 0) > store.store_epoch) return { outcome: 'newer_store' };
  const { agent_epoch } = row;
  if (row.hello_id === args.hello_id) return { outcome: 'greeted', ...store, agent_epoch };
  const told = args.known?.agent_epoch ?? 0;
  // What knows less comes late; but to the first hello after a restore the store's own number may
  // be of another history.
  const is_first = row.hello_id === null && args.known?.store_epoch !== store.store_epoch;
  if (told < agent_epoch && (args.known === null || !is_first)) {
    return { outcome: 'behind', ...store, agent_epoch };
  }
  const is_other_boot = row.boot_id !== null && row.boot_id !== args.boot_id;
  if (is_other_boot && args.is_heard) return { outcome: 'other_boot' };
  const next = Math.max(agent_epoch, told) + 1;
  await takeOver(sql, row, args, next);
  return { outcome: 'greeted', ...store, agent_epoch: next };
}

async function takeOver(
  sql: Sql,
  row: MachineRow,
  args: HelloArgs,
  agent_epoch: number,
): Promise<void> {
  await sql.run(
    `update machines set agent_epoch = $2, boot_id = $3, hello_id = $4, hello_at = $5
     where id = $1`,
    [row.id, agent_epoch, args.boot_id, args.hello_id, args.now],
  );
  await writeInventory(sql, row, args);
}

export type FenceArgs = Cause & {
  machine_id: string;
  /** The machine's agent as the person knew it: where another one spoke since, nothing is fenced. */
  agent_epoch: number;
  /** Whose machine it has to be. */
  tenant_id?: string;
  action?: Action | undefined;
};

/**
 * A person says that the machine is powered off: whatever ran on it is over, and what it held is
 * free. What turns out to run there after all is removed as soon as the machine is heard of.
 */
export async function fenceMachine(
  sql: Sql,
  args: FenceArgs,
): Promise<{ outcome: 'fenced' | 'spoke_since' | 'not_found'; ended: number }> {
  const machine = await lockMachine(sql, args.machine_id);
  const is_theirs = args.tenant_id === undefined || args.tenant_id === machine?.tenant_id;
  if (machine === undefined || !is_theirs) return { outcome: 'not_found', ended: 0 };
  if (machine.agent_epoch !== args.agent_epoch) return { outcome: 'spoke_since', ended: 0 };
  await sql.run(
    `update machines set fenced_at = $2, fenced_by = $3, fenced_epoch = agent_epoch,
       generation = generation + 1
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
  const details = { name: machine.name, ended: runs.length };
  await recordAction(sql, args.action, { target: `machine:${machine.id}`, details });
  return { outcome: 'fenced', ended: runs.length };
}
