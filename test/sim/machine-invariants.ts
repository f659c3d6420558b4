/**
 * What must hold of machines after each commit: what they should do, what they promised, and what
 * their owners said of them.
 *
 * Invariants: a mirror of each machine is kept, so that what may only rise is seen to rise.
 */
import { desiredRuns } from '../../src/core/desired.ts';
import { mayRun, trustLevel } from '../../src/core/trust.ts';
import type { DesiredRow } from '../../src/store/runs.ts';
import { checkDevices } from './device-invariants.ts';
import type { Story } from './story.ts';
import type { Watch } from './watch.ts';

export type MachineCheck = {
  /** `is_loss`: where it is not in the store, it was. */
  check(watch: Watch, id: string, is_loss: boolean): void;
  /** Begins anew with what a restored store holds. */
  reset(): void;
};

type MachineRow = {
  generation: number;
  agent_epoch: number;
  cpu_millis: number;
  memory_bytes: number;
  cap_memory_bytes: number | null;
  drained_at: number | null;
};

type MachineMirror = {
  generation: number;
  agent_epoch: number;
  desired: string;
  /** Since when nothing new comes, and how many runs it had then; null where it takes some. */
  drained: { at: number; runs: number } | null;
  most: { cpu_millis: number; memory_bytes: number };
};

type Context = { story: Story; machines: Map<string, MachineMirror>; looks: number };

export function createMachineCheck(story: Story): MachineCheck {
  const context: Context = { story, machines: new Map(), looks: 0 };
  return {
    check: (watch, id, is_loss) => checkMachine(context, watch, id, is_loss),
    reset() {
      for (const [id, { most }] of context.machines) {
        const unknown = { generation: -1, agent_epoch: -1, desired: '', drained: null };
        context.machines.set(id, { ...unknown, most });
      }
    },
  };
}

function checkMachine(context: Context, watch: Watch, id: string, is_loss: boolean): void {
  const { story, machines } = context;
  const row = watch.get<MachineRow>(
    `select generation, agent_epoch, cpu_millis, memory_bytes, cap_memory_bytes, drained_at
     from machines where id = ?1`,
    id,
  );
  if (row === undefined) {
    if (is_loss || machines.has(id)) story.violate('I-04', `machine ${id} is gone from the store`);
    return;
  }
  const rows = watch.all<DesiredRow>(desired_sql, id);
  checkTrust(story, rows);
  const desired = JSON.stringify(desiredRuns(rows));
  context.looks += 1;
  if (context.looks % again_every === 0 && desired !== JSON.stringify(desiredRuns(rows))) {
    story.violate('I-07', `the desired state of ${id} is not a function of the store`);
  }
  const before = machines.get(id);
  const { generation, agent_epoch } = row;
  const most = {
    cpu_millis: Math.max(row.cpu_millis, before?.most.cpu_millis ?? 0),
    memory_bytes: Math.max(row.memory_bytes, before?.most.memory_bytes ?? 0),
  };
  const drained = checkDrained(story, watch, id, row, before?.drained ?? null);
  if (row.memory_bytes > (row.cap_memory_bytes ?? row.memory_bytes)) {
    story.violate('I-12', `${id} offers more than its owner lets it`);
  }
  machines.set(id, { generation, agent_epoch, desired, drained, most });
  if (before !== undefined) compareMachines(story, id, before, row, desired);
  checkHolds(story, watch, id, most);
}

/** Nothing is placed on a machine from the commit that drained it on. */
function checkDrained(
  story: Story,
  watch: Watch,
  id: string,
  { drained_at: at }: MachineRow,
  before: MachineMirror['drained'],
): MachineMirror['drained'] {
  if (at === null) return null;
  const { runs = 0 } =
    watch.get<{ runs: number }>('select count(*) as runs from runs where machine_id = ?1', id) ??
    {};
  if (before?.at === at && runs > before.runs) {
    story.violate('drained', `${id} is drained, and something new was placed there`);
  }
  return { at, runs };
}

/** I-11: what is wanted of a machine may run there, from the commit that placed it on. */
function checkTrust(story: Story, rows: readonly DesiredRow[]): void {
  for (const row of rows) {
    const { owner_tenant_id } = row;
    const invited_tenant_ids = row.is_guest > 0 ? [row.tenant_id] : [];
    const trust = trustLevel(row.tenant_id, { owner_tenant_id, invited_tenant_ids });
    if (row.wanted !== 'run' || mayRun(trust, row.driver, row.sharing)) continue;
    story.violate('I-11', `${row.workload_id}.${row.replica}.${row.run_epoch} may not run there`);
  }
}

/** How often the desired state is worked out twice, to see that it comes out alike. */
const again_every = 16;

const desired_sql = `select r.*, w.name, w.spec, w.tenant_id, m.tenant_id as owner_tenant_id,
    m.sharing, (select count(*) from machine_guests g
      where g.machine_id = m.id and g.tenant_id = w.tenant_id) as is_guest, coalesce(
      (select group_concat(h.device) from (select device from holds where released_at is null
        and device <> '' and workload_id = r.workload_id and replica = r.replica
        and run_epoch = r.run_epoch order by device) h), '') as gpu_uuids
  from runs r join workloads w on w.id = r.workload_id join machines m on m.id = r.machine_id
  where r.machine_id = ?1 and r.removed_at is null
  order by r.workload_id, r.replica, r.run_epoch`;

function compareMachines(
  story: Story,
  id: string,
  before: MachineMirror,
  row: MachineRow,
  desired: string,
): void {
  if (row.generation < before.generation || row.agent_epoch < before.agent_epoch) {
    story.violate('I-08', `the generation or agent_epoch of ${id} fell`);
  }
  if (desired !== before.desired && row.generation === before.generation) {
    story.violate('I-08', `what ${id} should do changed within generation ${row.generation}`);
  }
}

/** An owner may offer less while more is held: what counts is the most that was ever offered. */
function checkHolds(story: Story, watch: Watch, id: string, most: MachineMirror['most']): void {
  const held = watch.get<{ cpu_millis: number; memory_bytes: number }>(
    `select coalesce(sum(cpu_millis), 0) as cpu_millis,
       coalesce(sum(memory_bytes), 0) as memory_bytes
     from holds where machine_id = ?1 and released_at is null`,
    id,
  );
  checkDevices(story, watch, id);
  if (held === undefined) return;
  const over = held.cpu_millis > most.cpu_millis || held.memory_bytes > most.memory_bytes;
  if (over) story.violate('I-01', `${id} is promised twice`);
}
