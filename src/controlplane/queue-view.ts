/**
 * The queue as the last pass of the controller left it: whose turn is next, why each waits, and
 * what is kept free for whom.
 *
 * Invariants: in memory only, for showing; a restart forgets it and the next pass tells it again;
 * nothing is decided by it.
 */
import type { Use, Waiting } from '../core/fair-share.ts';
import type { WaitReason } from '../core/placement-index.ts';
import type { Amounts, MachineView } from '../core/workload.ts';

export type QueueView = {
  /** 1 is next; null for what the last pass did not see waiting. */
  place(workload_id: string): number | null;
  /** Why it waits, with the figures of the last pass. */
  reason(workload_id: string): WaitReason | null;
  /** What waits, and what everybody used: enough to say where one more would stand. */
  waiting(): Line;
  /** What is kept free on a machine, and for the head of which class. */
  reserved(machine_id: string): Reserved | null;
  replace(
    standings: ReadonlyMap<string, Standing>,
    line?: Line,
    machines?: readonly Reservable[],
  ): void;
};

/** Of a workload that waits, or of one replica that waits while others of it go on. */
export function standingKey({ id, one }: { id: string; one?: { replica: number } }): string {
  return one === undefined ? id : `${id}.${one.replica}`;
}

export type Line = { waiting: readonly Waiting[]; uses: readonly Use[] };
export type Reserved = {
  amounts: Amounts;
  head: MachineView['reserved_for'];
  devices: ReadonlySet<string>;
};
type Reservable = Pick<MachineView, 'id' | 'reserved' | 'reserved_for' | 'devices'>;

const nobody: Line = { waiting: [], uses: [] };

export type Standing = { place: number; reason: WaitReason };

export function createQueueView(): QueueView {
  let standings: ReadonlyMap<string, Standing> = new Map();
  let line = nobody;
  let kept: ReadonlyMap<string, Reserved> = new Map();
  return {
    place: (workload_id) => standings.get(workload_id)?.place ?? null,
    reason: (workload_id) => standings.get(workload_id)?.reason ?? null,
    waiting: () => line,
    reserved: (machine_id) => kept.get(machine_id) ?? null,
    replace: (latest, waiting = nobody, machines = []) => {
      standings = latest;
      line = waiting;
      kept = keptOn(machines);
    },
  };
}

function keptOn(machines: readonly Reservable[]): Map<string, Reserved> {
  const kept = new Map<string, Reserved>();
  for (const { id, reserved, reserved_for, devices = [] } of machines) {
    if (reserved_for === undefined) continue;
    const uuids = devices.filter((one) => one.reserved).map(({ uuid }) => uuid);
    kept.set(id, { amounts: reserved, head: reserved_for, devices: new Set(uuids) });
  }
  return kept;
}
