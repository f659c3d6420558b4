/**
 * Placement of many: the same decisions as `place`, over machines that are looked at once for each
 * ask and tenant, not once for each workload.
 *
 * Invariants: what is chosen is what `place` would choose, given all that was taken before; a
 * decision costs no more than the machines that changed since the last one of its group; nothing
 * that was given is changed but by `take` and `reserve`.
 */
import type { Ask } from './ask.ts';
import { createHeap, type Heap } from './heap.ts';
import { hasRoom, leftOver, placementOn, refusalDetails, suitable, waitCode } from './placement.ts';
import type { Details, ReasonCode } from './reasons.ts';
import { maySee, trustLevel } from './trust.ts';
import type { Amounts, MachineDriver, MachineView, Placement } from './workload.ts';

export type WaitReason = { code: ReasonCode; details: Details };

/** Workloads of one tenant that ask the same. */
export type Group = {
  readonly ask: Ask;
  readonly tenant_id: string;
  readonly suited: ReadonlyMap<string, MachineDriver>;
  /** The one machine that the tenant may know of, where it is the only one. */
  readonly only: MachineView | null;
  readonly refusals: ReadonlySet<ReasonCode>;
  readonly known: number;
  /** Suited machines that have or had room, best first. */
  readonly best: Heap<Candidate>;
  /** How far of what changed it has seen. */
  seen: number;
};

type Candidate = { machine: MachineView; waste: number };

export type PlacementIndex = {
  /** The group of an ask and a tenant; looks at every machine the first time. */
  group(ask: Ask, tenant_id: string): Group;
  choose(group: Group): Placement | null;
  /** Why `choose` gave nothing. */
  reason(group: Group): WaitReason;
  /** Counts a placement in. */
  take(machine_id: string, ask: Amounts): void;
  /** Keeps room free where the group lacks the least; false where no machine could ever take it. */
  reserve(group: Group): boolean;
};

export function createPlacementIndex(machines: readonly MachineView[]): PlacementIndex {
  const byId = new Map(machines.map((machine) => [machine.id, machine]));
  const groups = new Map<string, Map<Ask, Group>>();
  /** Machines that lost room, in order. */
  const changed: MachineView[] = [];

  return {
    group(ask, tenant_id) {
      let own = groups.get(tenant_id);
      if (own === undefined) {
        own = new Map();
        groups.set(tenant_id, own);
      }
      let group = own.get(ask);
      if (group === undefined) {
        group = lookAt(ask, tenant_id, machines, changed.length);
        own.set(ask, group);
      }
      return group;
    },
    choose(group) {
      const { ask, suited, best } = group;
      for (; group.seen < changed.length; group.seen += 1) {
        const machine = changed[group.seen];
        if (machine !== undefined && suited.has(machine.id) && hasRoom(ask, machine)) {
          best.push({ machine, waste: leftOver(machine, ask) });
        }
      }
      for (let top = best.peek(); top !== undefined; top = best.peek()) {
        const driver = suited.get(top.machine.id);
        const is_fresh = top.waste === leftOver(top.machine, ask);
        if (is_fresh && driver !== undefined && hasRoom(ask, top.machine)) {
          return placementOn(top.machine, driver, ask);
        }
        best.pop();
      }
      return null;
    },
    reason({ ask, tenant_id, only, suited, refusals, known }) {
      const busy = suited.size > 0 ? new Set([...refusals, 'machine_busy' as const]) : refusals;
      const [code] = busy;
      if (only === null || code === undefined) {
        return { code: waitCode(busy), details: { machines: known } };
      }
      // Where there is only one machine, its own refusal says more than "no machine matches".
      return { code, details: refusalDetails(code, ask, tenant_id, only) };
    },
    take(machine_id, ask) {
      const machine = byId.get(machine_id);
      if (machine === undefined) return;
      add(machine.held, ask);
      changed.push(machine);
    },
    reserve({ ask, suited }) {
      const nearest = leastLacking(ask, suited, byId);
      if (nearest === null) return false;
      add(nearest.reserved, ask);
      changed.push(nearest);
      return true;
    },
  };
}

function lookAt(
  ask: Ask,
  tenant_id: string,
  machines: readonly MachineView[],
  seen: number,
): Group {
  const suited = new Map<string, MachineDriver>();
  const refusals = new Set<ReasonCode>();
  const best = createHeap<Candidate>((a, b) =>
    a.waste === b.waste ? a.machine.id < b.machine.id : a.waste < b.waste,
  );
  let known = 0;
  let only: MachineView | null = null;
  for (const machine of machines) {
    if (!maySee(trustLevel(tenant_id, machine), machine)) continue;
    known += 1;
    only = known === 1 ? machine : null;
    const driver = suitable(ask, tenant_id, machine);
    if (typeof driver === 'string') {
      refusals.add(driver);
      continue;
    }
    suited.set(machine.id, driver);
    if (hasRoom(ask, machine)) best.push({ machine, waste: leftOver(machine, ask) });
  }
  return { ask, tenant_id, suited, only, refusals, known, best, seen };
}

/** The machine where the least of what is asked is missing now, as a share of that. */
function leastLacking(
  ask: Amounts,
  suited: ReadonlyMap<string, MachineDriver>,
  byId: ReadonlyMap<string, MachineView>,
): MachineView | null {
  let nearest: { machine: MachineView; lack: number } | null = null;
  for (const id of suited.keys()) {
    const machine = byId.get(id);
    if (machine === undefined || !couldReserve(ask, machine)) continue;
    const lack = lackOf(ask, machine);
    const is_nearer =
      nearest === null ||
      lack < nearest.lack ||
      (lack === nearest.lack && machine.id < nearest.machine.id);
    if (is_nearer) nearest = { machine, lack };
  }
  return nearest?.machine ?? null;
}

/** A machine that is empty but for what is reserved already must be able to take it. */
function couldReserve(ask: Amounts, { offered, reserved }: MachineView): boolean {
  const fits = (name: keyof Amounts) => ask[name] + reserved[name] <= offered[name];
  return fits('cpu_millis') && fits('memory_bytes') && fits('disk_bytes');
}

function lackOf(ask: Amounts, { offered, held, reserved }: MachineView): number {
  const lack = (name: keyof Amounts) =>
    ask[name] === 0
      ? 0
      : Math.max(0, ask[name] + held[name] + reserved[name] - offered[name]) / ask[name];
  return lack('cpu_millis') + lack('memory_bytes') + lack('disk_bytes');
}

function add(sum: Amounts, more: Amounts): void {
  sum.cpu_millis += more.cpu_millis;
  sum.memory_bytes += more.memory_bytes;
  sum.disk_bytes += more.disk_bytes;
}
