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
  replace(standings: Standings, line?: Line, machines?: readonly Reservable[]): void;
};

/** What waits, in its order, and why each does: null where nothing is told of it. */
export type Standings = { rows: readonly Keyed[]; reasons: readonly (WaitReason | null)[] };
type Keyed = { id: string; one?: { replica: number } };
export const nobody_stands: Standings = { rows: [], reasons: [] };

/** Of a workload that waits, or of one replica that waits while others of it go on. */
export function standingKey({ id, one }: Keyed): string {
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

type Standing = { place: number; reason: WaitReason };

export function createQueueView(): QueueView {
  let told = nobody_stands;
  /** Made when somebody asks: a pass over a long queue is over before most are asked for. */
  let standings: ReadonlyMap<string, Standing> | null = null;
  let line = nobody;
  let kept: ReadonlyMap<string, Reserved> = new Map();
  const find = (key: string) => {
    standings ??= standingsOf(told);
    return standings.get(key);
  };
  return {
    place: (workload_id) => find(workload_id)?.place ?? null,
    reason: (workload_id) => find(workload_id)?.reason ?? null,
    waiting: () => line,
    reserved: (machine_id) => kept.get(machine_id) ?? null,
    replace: (latest, waiting = nobody, machines = []) => {
      told = latest;
      standings = null;
      line = waiting;
      kept = keptOn(machines);
    },
  };
}

function standingsOf({ rows, reasons }: Standings): Map<string, Standing> {
  const standings = new Map<string, Standing>();
  for (const [index, row] of rows.entries()) {
    const reason = reasons[index] ?? null;
    if (reason !== null) standings.set(standingKey(row), { place: index + 1, reason });
  }
  return standings;
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
