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
import { createOutlooks, type Outlook, type Outlooks } from './outlook.ts';
import { placementOn, whyGone } from './placement.ts';
import type { Details, ReasonCode } from './reasons.ts';
import { hasRoom, leftOver, roomRefusal } from './room.ts';
import { refusalDetails, waitCode, waitDetails } from './why-not.ts';
import type { Amounts, MachineView, Placement } from './workload.ts';

export type WaitReason = { code: ReasonCode; details: Details };

/** Workloads of one tenant that ask the same. */
export type Group = {
  readonly ask: Ask;
  readonly tenant_id: string;
  /** Who made them, where they may share a GPU; else empty: it changes nothing. */
  readonly creator_id: string;
  readonly outlook: Outlook;
  /** How many machines are suited, busy or not. */
  readonly suited: number;
  /** The one machine that it is about: its home, the one it asks for, or the only one that the tenant may know of. */
  readonly only: MachineView | null;
  /** Of the machines that are not suited. */
  readonly refusals: ReadonlyMap<ReasonCode, number>;
  /** Suited machines that have or had room, best first. */
  readonly best: Heap<Candidate>;
  /** How far of what changed it has seen. */
  seen: number;
};

/** `at`: its place in the list of machines. */
type Candidate = { machine: MachineView; at: number; waste: number };

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
  const placeOf = new Map(machines.map(({ id }, at) => [id, at]));
  const outlooks = createOutlooks(machines, placeOf, catalog);
  const world = { machines, outlooks, catalog };
  const groups = new Map<string, Map<Ask, Group>>();
  /** Machines whose room is another by now, in order. */
  const changed: number[] = [];
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
    choose: (group, avoid = null) => choose(group, world, changed, avoid),
    chooseApart: (group, apart) => chooseApart(group, world, apart),
    reason: (group) => reasonOf(group, world, kept.size > 0),
    take({ machine_id, devices = [] }, ask, creator_id = '') {
      const at = placeOf.get(machine_id);
      const machine = at === undefined ? undefined : machines[at];
      if (at === undefined || machine === undefined) return;
      add(machine.held, ask);
      for (const uuid of devices) takeDevice(machine, uuid, ask.share_device ? creator_id : null);
      changed.push(at);
    },
    reserve(group, head) {
      const { ask } = group;
      const nearest = leastLacking(group, world);
      if (nearest === null) return false;
      const { machine, at, devices } = nearest;
      add(machine.reserved, ask);
      if (head !== undefined) machine.reserved_for ??= head;
      for (const device of devices) device.reserved = true;
      changed.push(at);
      kept.set(group, { machine, at, devices, head });
      return true;
    },
    unreserve(group) {
      const found = kept.get(group);
      if (found === undefined) return undefined;
      const { machine, at, devices, head } = found;
      kept.delete(group);
      add(machine.reserved, negative(group.ask));
      if (head !== undefined && machine.reserved_for === head) delete machine.reserved_for;
      for (const device of devices) device.reserved = false;
      changed.push(at);
      return head;
    },
  };
}

function choose(
  group: Group,
  { machines, catalog }: World,
  changed: readonly number[],
  avoid: string | null,
): Placement | null {
  const { ask, outlook, best, creator_id } = group;
  for (; group.seen < changed.length; group.seen += 1) {
    const candidate = candidateAt(group, machines, changed[group.seen] ?? -1);
    if (candidate !== null) best.push(candidate);
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
  const chosen = found ?? avoided;
  const entry = chosen === null ? null : outlook.driver(chosen.at);
  if (chosen === null || entry === null) return null;
  return placementOn(chosen.machine, entry, ask, creator_id, catalog);
}

function chooseApart(
  group: Group,
  { machines, catalog }: World,
  apart: ReadonlySet<string>,
): Placement | null {
  const { ask, outlook, creator_id } = group;
  let found: Candidate | null = null;
  for (let at = outlook.first; at < outlook.end; at += 1) {
    const candidate = candidateAt(group, machines, at);
    if (candidate === null) continue;
    if (found === null || isBetterApart(candidate, found, apart)) found = candidate;
  }
  const entry = found && outlook.driver(found.at);
  return found && entry && placementOn(found.machine, entry, ask, creator_id, catalog);
}

/** A machine that is suited and has room now, weighed. */
function candidateAt(
  { ask, outlook, creator_id }: Group,
  machines: readonly MachineView[],
  at: number,
): Candidate | null {
  const entry = outlook.driver(at);
  const machine = entry === null ? undefined : machines[at];
  if (machine === undefined || entry === null) return null;
  const by = { driver: entry.driver, creator_id };
  return hasRoom(ask, machine, by) ? { machine, at, waste: leftOver(machine, ask, by) } : null;
}

function reasonOf(
  { ask, tenant_id, only, outlook, suited, refusals, creator_id }: Group,
  { machines, catalog }: World,
  /** Room is kept free on some machine. */
  is_kept: boolean,
): WaitReason {
  if (only === null && onlyMachine(ask) !== null) return whyGone(ask);
  const all = new Map(refusals);
  // Of many machines that are suited and have no room, nothing else can be in the way.
  const is_plain = only === null && !is_kept && ask.gpu_count === 0;
  if (is_plain && suited > 0) all.set('machine_busy', suited);
  for (let at = outlook.first; at < outlook.end && !is_plain; at += 1) {
    const [machine, entry] = [machines[at], outlook.driver(at)];
    if (machine === undefined || entry === null) continue;
    const code = roomRefusal(ask, machine, { driver: entry.driver, creator_id });
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
function isFresh({ ask, outlook, creator_id }: Group, { machine, at, waste }: Candidate): boolean {
  const entry = outlook.driver(at);
  if (entry === null) return false;
  const by = { driver: entry.driver, creator_id };
  return waste === leftOver(machine, ask, by) && hasRoom(ask, machine, by);
}

type Nearest = { machine: MachineView; at: number; devices: DeviceView[] };

/** What is kept free for a group, and for which head. */
type Kept = Nearest & { head: MachineView['reserved_for'] };

function negative({ cpu_millis, memory_bytes, disk_bytes }: Amounts): Amounts {
  return { cpu_millis: -cpu_millis, memory_bytes: -memory_bytes, disk_bytes: -disk_bytes };
}

type World = { machines: readonly MachineView[]; outlooks: Outlooks; catalog: Catalog };

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
  const { machines } = world;
  const outlook = world.outlooks.of(ask, tenant_id);
  const refusals = new Map<ReasonCode, number>();
  const best = createHeap<Candidate>((a, b) =>
    a.waste === b.waste ? a.machine.id < b.machine.id : a.waste < b.waste,
  );
  let known = 0;
  let suited = 0;
  let only: MachineView | null = null;
  for (let at = outlook.first; at < outlook.end; at += 1) {
    const [machine, answer] = [machines[at], outlook.answer(at)];
    if (machine === undefined || answer === null) continue;
    known += 1;
    only = known === 1 ? machine : null;
    if (typeof answer === 'string') {
      refusals.set(answer, (refusals.get(answer) ?? 0) + 1);
      continue;
    }
    suited += 1;
    const by = { driver: answer.driver, creator_id };
    if (hasRoom(ask, machine, by)) best.push({ machine, at, waste: leftOver(machine, ask, by) });
  }
  return { ...asked, outlook, suited, only, refusals, best, seen };
}

/** The machine where the least of what is asked is missing now, as a share of that. */
function leastLacking({ ask, outlook }: Group, { machines }: World): Nearest | null {
  let nearest: (Nearest & { lack: number }) | null = null;
  for (let at = outlook.first; at < outlook.end; at += 1) {
    const [machine, entry] = [machines[at], outlook.driver(at)];
    if (machine === undefined || entry === null || !couldReserve(ask, machine)) continue;
    const { driver } = entry;
    const devices = devicesToReserve(ask, driver, machine.devices ?? []);
    if (devices === null) continue;
    const lack = lackOf(ask, machine) + lackOfDevices(ask, driver, machine.devices ?? []);
    const is_nearer =
      nearest === null ||
      lack < nearest.lack ||
      (lack === nearest.lack && machine.id < nearest.machine.id);
    if (is_nearer) nearest = { machine, at, devices, lack };
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
