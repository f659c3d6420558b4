/**
 * Placement of many: the same decisions as `place`, over machines that are looked at once for each
 * ask and tenant, not once for each workload.
 *
 * Invariants: what is chosen is what `place` would choose, given all that was taken before; a
 * decision costs no more than the machines that changed since the last one of its group; nothing
 * that was given is changed but by `take` and `reserve`.
 */
import { type Ask, onlyMachine } from './ask.ts';
import { builtin_catalog, type Catalog } from './catalog.ts';
import { type DeviceView, devicesToReserve, lackOfDevices } from './devices.ts';
import { createHeap, type Heap } from './heap.ts';
import { placementOn, whyGone } from './placement.ts';
import type { Details, ReasonCode } from './reasons.ts';
import { hasRoom, leftOver, roomRefusal } from './room.ts';
import { suitable } from './suitable.ts';
import { maySee, trustLevel } from './trust.ts';
import { refusalDetails, waitCode, waitDetails } from './why-not.ts';
import type { Amounts, MachineDriver, MachineView, Placement } from './workload.ts';

export type WaitReason = { code: ReasonCode; details: Details };

/** Workloads of one tenant that ask the same. */
export type Group = {
  readonly ask: Ask;
  readonly tenant_id: string;
  /** Who made them, where they may share a GPU; else empty: it changes nothing. */
  readonly creator_id: string;
  readonly suited: ReadonlyMap<string, MachineDriver>;
  /** The one machine that it is about: its home, the one it asks for, or the only one that the tenant may know of. */
  readonly only: MachineView | null;
  /** Of the machines that are not suited. */
  readonly refusals: ReadonlyMap<ReasonCode, number>;
  /** Suited machines that have or had room, best first. */
  readonly best: Heap<Candidate>;
  /** How far of what changed it has seen. */
  seen: number;
};

type Candidate = { machine: MachineView; waste: number };

export type Taken = Pick<Placement, 'machine_id' | 'devices'>;

export type PlacementIndex = {
  /** The group of an ask and a tenant; looks at every machine the first time. */
  group(ask: Ask, tenant_id: string, creator_id?: string): Group;
  /** Another machine than `avoid` where there is one with room. */
  choose(group: Group, avoid?: string | null): Placement | null;
  /** The same, looked for among all: on another machine than these where one has room. */
  chooseApart(group: Group, apart: ReadonlySet<string>): Placement | null;
  /** Why `choose` gave nothing. */
  reason(group: Group): WaitReason;
  /** Counts a placement in, for this creator. */
  take(placement: Taken, ask: Ask, creator_id?: string): void;
  /**
   * Keeps room free where the group lacks the least, for the head of a class that waited so long;
   * false where no machine could ever take it.
   */
  reserve(group: Group, head?: MachineView['reserved_for']): boolean;
  /** Gives back what `reserve` kept free for the group, and says for which head that was. */
  unreserve(group: Group): MachineView['reserved_for'];
};

export function createPlacementIndex(
  machines: readonly MachineView[],
  catalog: Catalog = builtin_catalog,
): PlacementIndex {
  const byId = new Map(machines.map((machine) => [machine.id, machine]));
  const world = { machines, byId, catalog };
  const groups = new Map<string, Map<Ask, Group>>();
  /** Machines whose room is another by now, in order. */
  const changed: MachineView[] = [];
  const kept = new Map<Group, Kept>();

  return {
    group(ask, tenant_id, creator_id = '') {
      const sharer = ask.share_device ? creator_id : '';
      const whose = sharer === '' ? tenant_id : `${tenant_id} ${sharer}`;
      let own = groups.get(whose);
      if (own === undefined) {
        own = new Map();
        groups.set(whose, own);
      }
      let group = own.get(ask);
      if (group === undefined) {
        group = lookAt({ ask, tenant_id, creator_id: sharer }, world, changed.length);
        own.set(ask, group);
      }
      return group;
    },
    choose: (group, avoid = null) => choose(group, changed, avoid, catalog),
    chooseApart: (group, apart) => chooseApart(group, world, apart),
    reason: (group) => reasonOf(group, world, kept.size > 0),
    take({ machine_id, devices = [] }, ask, creator_id = '') {
      const machine = byId.get(machine_id);
      if (machine === undefined) return;
      add(machine.held, ask);
      for (const uuid of devices) takeDevice(machine, uuid, ask.share_device ? creator_id : null);
      changed.push(machine);
    },
    reserve(group, head) {
      const { ask, suited } = group;
      const nearest = leastLacking(ask, suited, byId);
      if (nearest === null) return false;
      const { machine, devices } = nearest;
      add(machine.reserved, ask);
      if (head !== undefined) machine.reserved_for ??= head;
      for (const device of devices) device.reserved = true;
      changed.push(machine);
      kept.set(group, { machine, devices, head });
      return true;
    },
    unreserve(group) {
      const found = kept.get(group);
      if (found === undefined) return undefined;
      const { machine, devices, head } = found;
      kept.delete(group);
      add(machine.reserved, negative(group.ask));
      if (head !== undefined && machine.reserved_for === head) delete machine.reserved_for;
      for (const device of devices) device.reserved = false;
      changed.push(machine);
      return head;
    },
  };
}

function choose(
  group: Group,
  changed: readonly MachineView[],
  avoid: string | null,
  catalog: Catalog,
): Placement | null {
  const { ask, suited, best, creator_id } = group;
  for (; group.seen < changed.length; group.seen += 1) {
    const machine = changed[group.seen];
    const entry = machine === undefined ? undefined : suited.get(machine.id);
    if (machine === undefined || entry === undefined) continue;
    const by = { driver: entry.driver, creator_id };
    if (hasRoom(ask, machine, by)) best.push({ machine, waste: leftOver(machine, ask, by) });
  }
  let avoided: Candidate | null = null;
  let found: Candidate | null = null;
  for (let top = best.peek(); top !== undefined && found === null; top = best.peek()) {
    const is_avoided = top.machine.id === avoid;
    if (!isFresh(group, top)) best.pop();
    else if (is_avoided) avoided = best.pop() ?? null;
    else found = top;
  }
  if (avoided !== null) best.push(avoided);
  const machine = (found ?? avoided)?.machine;
  const entry = machine === undefined ? undefined : suited.get(machine.id);
  if (machine === undefined || entry === undefined) return null;
  return placementOn(machine, entry, ask, creator_id, catalog);
}

function chooseApart(
  { ask, suited, creator_id }: Group,
  { byId, catalog }: World,
  apart: ReadonlySet<string>,
): Placement | null {
  let found: (Candidate & { entry: MachineDriver }) | null = null;
  for (const [id, entry] of suited) {
    const machine = byId.get(id);
    const by = { driver: entry.driver, creator_id };
    if (machine === undefined || !hasRoom(ask, machine, by)) continue;
    const candidate = { machine, waste: leftOver(machine, ask, by), entry };
    if (found === null || isBetterApart(candidate, found, apart)) found = candidate;
  }
  return found && placementOn(found.machine, found.entry, ask, creator_id, catalog);
}

function reasonOf(
  { ask, tenant_id, only, suited, refusals, creator_id }: Group,
  { byId, catalog }: World,
  /** Room is kept free on some machine. */
  is_kept: boolean,
): WaitReason {
  if (only === null && onlyMachine(ask) !== null) return whyGone(ask);
  const all = new Map(refusals);
  // Of many machines that are suited and have no room, nothing else can be in the way.
  const is_plain = only === null && !is_kept && ask.gpu_count === 0;
  if (is_plain && suited.size > 0) all.set('machine_busy', suited.size);
  for (const [id, entry] of is_plain ? [] : suited) {
    const machine = byId.get(id);
    const code = machine && roomRefusal(ask, machine, { driver: entry.driver, creator_id });
    if (code) all.set(code, (all.get(code) ?? 0) + 1);
  }
  const [code] = all.keys();
  if (only === null || code === undefined) {
    return { code: waitCode(all), details: waitDetails(all, ask) };
  }
  // Where there is only one machine, its own refusal says more than "no machine matches".
  return { code, details: refusalDetails(code, ask, tenant_id, only, catalog) };
}

/** Whether it was weighed as the machine is now, and has room. */
function isFresh({ ask, suited, creator_id }: Group, { machine, waste }: Candidate): boolean {
  const entry = suited.get(machine.id);
  if (entry === undefined) return false;
  const by = { driver: entry.driver, creator_id };
  return waste === leftOver(machine, ask, by) && hasRoom(ask, machine, by);
}

/** What is kept free for a group, and for which head. */
type Kept = {
  machine: MachineView;
  devices: DeviceView[];
  head: MachineView['reserved_for'];
};

function negative({ cpu_millis, memory_bytes, disk_bytes }: Amounts): Amounts {
  return { cpu_millis: -cpu_millis, memory_bytes: -memory_bytes, disk_bytes: -disk_bytes };
}

type World = {
  machines: readonly MachineView[];
  byId: ReadonlyMap<string, MachineView>;
  catalog: Catalog;
};

/** First another machine than those where others are, then the least waste, then the lower id. */
function isBetterApart(one: Candidate, other: Candidate, apart: ReadonlySet<string>): boolean {
  const [own, theirs] = [apart.has(one.machine.id), apart.has(other.machine.id)];
  if (own !== theirs) return theirs;
  if (one.waste !== other.waste) return one.waste < other.waste;
  return one.machine.id < other.machine.id;
}

function lookAt(
  asked: Pick<Group, 'ask' | 'tenant_id' | 'creator_id'>,
  world: World,
  seen: number,
): Group {
  const { ask, tenant_id, creator_id } = asked;
  const suited = new Map<string, MachineDriver>();
  const refusals = new Map<ReasonCode, number>();
  const best = createHeap<Candidate>((a, b) =>
    a.waste === b.waste ? a.machine.id < b.machine.id : a.waste < b.waste,
  );
  let known = 0;
  let only: MachineView | null = null;
  for (const machine of candidates(ask, world)) {
    if (!maySee(trustLevel(tenant_id, machine), machine)) continue;
    known += 1;
    only = known === 1 ? machine : null;
    const driver = suitable(ask, tenant_id, machine, world.catalog);
    if (typeof driver === 'string') {
      refusals.set(driver, (refusals.get(driver) ?? 0) + 1);
      continue;
    }
    suited.set(machine.id, driver);
    const by = { driver: driver.driver, creator_id };
    if (hasRoom(ask, machine, by)) best.push({ machine, waste: leftOver(machine, ask, by) });
  }
  return { ...asked, suited, only, refusals, best, seen };
}

/** What has a home, or asks for one machine, runs there or nowhere. */
function candidates(ask: Ask, world: World): readonly MachineView[] {
  const only = onlyMachine(ask);
  if (only === null) return world.machines;
  const machine = world.byId.get(only);
  return machine === undefined ? [] : [machine];
}

/** The machine where the least of what is asked is missing now, as a share of that. */
function leastLacking(
  ask: Ask,
  suited: ReadonlyMap<string, MachineDriver>,
  byId: ReadonlyMap<string, MachineView>,
): { machine: MachineView; devices: DeviceView[] } | null {
  let nearest: { machine: MachineView; devices: DeviceView[]; lack: number } | null = null;
  for (const [id, { driver }] of suited) {
    const machine = byId.get(id);
    if (machine === undefined || !couldReserve(ask, machine)) continue;
    const devices = devicesToReserve(ask, driver, machine.devices ?? []);
    if (devices === null) continue;
    const lack = lackOf(ask, machine) + lackOfDevices(ask, driver, machine.devices ?? []);
    const is_nearer =
      nearest === null ||
      lack < nearest.lack ||
      (lack === nearest.lack && machine.id < nearest.machine.id);
    if (is_nearer) nearest = { machine, devices, lack };
  }
  return nearest;
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

function takeDevice({ devices = [] }: MachineView, uuid: string, sharer: string | null): void {
  const device = devices.find((one) => one.uuid === uuid);
  if (device !== undefined) device.held = { sharer, count: (device.held?.count ?? 0) + 1 };
}

function add(sum: Amounts, more: Amounts): void {
  sum.cpu_millis += more.cpu_millis;
  sum.memory_bytes += more.memory_bytes;
  sum.disk_bytes += more.disk_bytes;
}
