/**
 * What really happens on the machines, held against what the journals and the store say at that
 * moment: the invariants that no look at the database alone can see.
 */
import { runName } from '../../src/core/run.ts';
import { mayRun, type Sharing, trustLevel } from '../../src/core/trust.ts';
import { machine_memory_bytes } from './amounts.ts';
import type { Database } from './database.ts';
import type { Deployment } from './deployment.ts';
import type { Truth } from './invariants.ts';
import type { Machine } from './machine.ts';
import type { Process, WorldEvents } from './machine-world.ts';
import type { Story } from './story.ts';

export type Truths = Truth & {
  eventsOf(machine_id: string): WorldEvents;
  alive(): { process: Process; machine: Machine }[];
};

type TrustRow = {
  tenant_id: string;
  owner: string;
  sharing: Sharing;
  wanted: string;
  is_guest: number;
};

type Context = {
  story: Story;
  there: () => Deployment;
  living: Map<string, { process: Process; machine: Machine }>;
  begun: Set<string>;
};

export function createTruths(story: Story, there: () => Deployment): Truths {
  const context: Context = {
    ...{ story, there, living: new Map(), begun: new Set() },
  };
  const { living } = context;
  const ended = new Map<string, number>();
  const machineOf = (id: string) => there().machines.find((one) => one.id === id);
  return {
    isAlive: (name) => living.has(name),
    endedAt: (name) => ended.get(name) ?? null,
    steppedAt: () => there().host.steppedAt(),
    alive: () => [...living.values()],
    eventsOf: (machine_id) => ({
      started(process) {
        const machine = machineOf(machine_id);
        if (machine !== undefined) started(context, machine, process);
      },
      stopping: (process) => stopping(context, machine_id, process),
      ended(process, why) {
        living.delete(runName(process.run));
        ended.set(runName(process.run), story.time.now());
        story.tell(machineOf(machine_id)?.host.name ?? machine_id, `${process.name} ends ${why}`);
      },
    }),
  };
}

function started(context: Context, machine: Machine, process: Process): void {
  const { story, living, begun } = context;
  const { name, run } = process;
  story.tell(machine.host.name, `${name} starts`);
  const text = machine.disk.files.get(`${name}.json`);
  const entry = text === undefined ? null : (JSON.parse(text) as { intent: string });
  if (entry?.intent !== 'run') story.violate('I-05', `${name} started without its intent on disk`);
  if (begun.has(name)) story.violate('I-06', `${name} was started again: a run is one attempt`);
  begun.add(name);
  for (const [other, { process: one }] of living) {
    if (one.run.workload_id !== run.workload_id || one.run.replica !== run.replica) continue;
    // Either may be the one that another follows: what it was told last may reach it late.
    if (isFollowed(context, one) || isFollowed(context, process)) continue;
    story.violate('I-03', `${name} starts while ${other} lives`);
  }
  living.set(name, { process, machine });
  checkTrust(context, machine, process);
  checkMemory(context, machine);
  checkGpus(context, machine, process);
}

/**
 * Its machine was silent for long, and another run has taken its place (ADR-0063): in this store,
 * or in the one from before a restore, which may still be served.
 */
function isFollowed({ there }: Context, { run }: Process): boolean {
  const { database, old } = there();
  const isIn = ({ watch }: Database) => {
    const row = watch.get<{ superseded_at: number | null }>(
      `select superseded_at from runs
       where workload_id = ?1 and replica = ?2 and run_epoch = ?3 and ended_at is null`,
      ...[run.workload_id, run.replica, run.run_epoch],
    );
    return row !== undefined && row.superseded_at !== null;
  };
  return isIn(database) || (old !== null && isIn(old));
}

/** What lives on a machine is never more than it has, whatever the store believes. */
function checkMemory({ story, living }: Context, machine: Machine): void {
  const here = [...living.values()].filter((one) => one.machine === machine);
  const sum = here.reduce((all, { process }) => all + process.memory_bytes, 0);
  if (sum > machine_memory_bytes) {
    story.violate('I-01', `${machine.host.name} runs ${sum} bytes, more than it has`);
  }
}

/** I-01: a GPU has one process on it, or those of one creator who shares it; each has its own. */
function checkGpus({ story, living, there }: Context, machine: Machine, process: Process): void {
  const { workload_id, replica, run_epoch } = process.run;
  const held = there().database.watch.all<{ device: string }>(
    `select device from holds where workload_id = ?1 and replica = ?2 and run_epoch = ?3
       and device <> '' order by device`,
    ...[workload_id, replica, run_epoch],
  );
  const own = held.map(({ device }) => device).join(', ');
  const known = there().database.watch.get(
    'select run_epoch from runs where workload_id = ?1 and replica = ?2 and run_epoch = ?3',
    ...[workload_id, replica, run_epoch],
  );
  // What an agent has of an older store is in no other.
  if (known !== undefined && own !== process.gpu_uuids.join(', ')) {
    story.violate('I-01', `${process.name} has ${process.gpu_uuids.join(', ')}, not ${own}`);
  }
  const creatorOf = ({ run }: Process) =>
    there().database.watch.get<{ creator_id: string; shares: number }>(
      `select creator_id, coalesce(json_extract(spec, '$.share_device'), 0) as shares
       from workloads where id = ?1`,
      run.workload_id,
    );
  for (const { process: other, machine: where } of living.values()) {
    if (where !== machine || other === process) continue;
    if (!process.gpu_uuids.some((uuid) => other.gpu_uuids.includes(uuid))) continue;
    const [one, two] = [creatorOf(process), creatorOf(other)];
    const is_shared = one?.shares === 1 && two?.shares === 1;
    if (is_shared && one.creator_id === two.creator_id) continue;
    story.violate('I-01', `${process.name} and ${other.name} have one GPU`);
  }
}

/** What may not run there (any more) is at least on its way to be parked. */
export function checkTrust(
  { story, there }: Pick<Context, 'story' | 'there'>,
  machine: Machine,
  { name, run }: Process,
): void {
  const row = there().database.watch.get<TrustRow>(
    `select w.tenant_id, m.tenant_id as owner, m.sharing, r.wanted,
       (select count(*) from machine_guests g
        where g.machine_id = m.id and g.tenant_id = w.tenant_id) as is_guest
     from workloads w join runs r on r.workload_id = w.id join machines m on m.id = r.machine_id
     where w.id = ?1 and r.replica = ?2 and r.run_epoch = ?3 and m.id = ?4`,
    ...[run.workload_id, run.replica, run.run_epoch, machine.id],
  );
  if (row === undefined || row.wanted !== 'run') return;
  const invited_tenant_ids = row.is_guest > 0 ? [row.tenant_id] : [];
  const trust = trustLevel(row.tenant_id, { owner_tenant_id: row.owner, invited_tenant_ids });
  if (!mayRun(trust, machine.driver, row.sharing)) {
    story.violate('I-11', `${name} may not run on ${machine.host.name}`);
  }
}

/** Nobody ends what is healthy and wanted. What an agent has of an older store does not count. */
function stopping({ story, there }: Context, machine_id: string, process: Process): void {
  if (!there().hasMet(machine_id)) return;
  const { workload_id, replica, run_epoch } = process.run;
  const row = there().database.watch.get<{ wanted: string }>(
    `select wanted from runs
     where workload_id = ?1 and replica = ?2 and run_epoch = ?3 and machine_id = ?4`,
    ...[workload_id, replica, run_epoch, machine_id],
  );
  if (row === undefined || row.wanted !== 'run' || process.is_hanging) return;
  story.violate('I-06', `${process.name} is healthy and wanted, and is being stopped`);
}
