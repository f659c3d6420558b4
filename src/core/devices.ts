/**
 * GPUs of a machine as placement sees them: which suit an ask, which are free, and which to take.
 *
 * Invariants: pure; devices are named one by one, never counted; one that somebody holds is given
 * to nobody else, but for a creator who shares it among workloads of their own (ADR-0053); several
 * for one workload are whole and of one model (ADR-0052); the smallest that fits is taken.
 */
import type { Ask } from './ask.ts';
import { formatMemory } from './format.ts';
import { type GpuDriver, gpuModelName } from './gpus.ts';
import type { Details, ReasonCode } from './reasons.ts';
import type { DriverName } from './trust.ts';

export type DeviceView = {
  uuid: string;
  model: string;
  /** What a workload may have of it: without what is kept for a display. */
  memory_bytes: number;
  /** Drivers that can give it to a workload; empty where none can now. */
  usable_by: readonly GpuDriver[];
  /** Why none can, for the machine's owner; left out where one can. */
  why?: string | null;
  /** A part of a GPU (MIG), which works together with no other. */
  is_part: boolean;
  /** Its machine hands out all of its GPUs or none (WSL2). */
  only_all: boolean;
  held: DeviceHold | null;
  /** Kept free for a workload that has waited long. */
  reserved: boolean;
  /** Names of the asking tenant's workloads that have it. */
  holders: readonly string[];
};

/** `sharer`: the creator whose workloads share it; null where one has it alone. */
export type DeviceHold = { sharer: string | null; count: number };

/** What of an ask is about GPUs. */
export type DeviceAsk = Pick<
  Ask,
  'gpu_count' | 'gpu_memory_bytes' | 'gpu_model' | 'share_device' | 'gpu_class'
>;

/** Workloads of one creator on one device: more would only take turns. */
export const sharers_limit = 8;

/** Why this machine could never give what is asked for, whoever holds what; null where it could. */
export function deviceRefusal(
  ask: DeviceAsk,
  driver: DriverName,
  devices: readonly DeviceView[],
): ReasonCode | null {
  if (ask.gpu_count === 0) return null;
  const given = devices.filter((one) => canGive(one, driver));
  if (setsOf(ask, driver, given, () => true).length > 0) return null;
  if (given.length < ask.gpu_count) return 'too_few_gpus';
  const of_model = given.filter((one) => isModel(ask, one));
  if (of_model.length < ask.gpu_count) return 'gpus_of_other_model';
  const large = of_model.filter((one) => isLarge(ask, one));
  if (large.length < ask.gpu_count) return 'gpus_too_small';
  // Enough of each, but not of one model, or only all of them at once.
  return given.some((one) => one.only_all) ? 'gpus_only_together' : 'too_few_gpus';
}

/** The devices to take; null where too few are free. None is asked for: none. */
export function chooseDevices(
  ask: DeviceAsk,
  driver: DriverName,
  devices: readonly DeviceView[],
  creator_id: string,
): DeviceView[] | null {
  if (ask.gpu_count === 0) return [];
  const joined = joinable(ask, driver, devices, creator_id);
  if (joined !== null) return [joined];
  const sets = setsOf(ask, driver, devices, (one) => one.held === null && !one.reserved);
  return sets[0] ?? null;
}

/** GiB of device memory that nobody asked for: less is better. Sharing takes nothing new. */
export function deviceWaste(ask: DeviceAsk, taken: readonly DeviceView[]): number {
  const asked = ask.gpu_memory_bytes ?? 0;
  const wasted = taken.map((one) => (one.held === null ? one.memory_bytes - asked : 0));
  return wasted.reduce((sum, bytes) => sum + bytes, 0) / 2 ** 30;
}

/** The share of the devices asked for that is not free now. */
export function lackOfDevices(
  ask: DeviceAsk,
  driver: DriverName,
  devices: readonly DeviceView[],
): number {
  const [best] = reservable(ask, driver, devices);
  if (ask.gpu_count === 0 || best === undefined) return 0;
  return best.filter((one) => one.held !== null).length / ask.gpu_count;
}

/** Those to keep free for a workload that has waited long: free ones before held ones. */
export function devicesToReserve(
  ask: DeviceAsk,
  driver: DriverName,
  devices: readonly DeviceView[],
): DeviceView[] | null {
  return ask.gpu_count === 0 ? [] : (reservable(ask, driver, devices)[0] ?? null);
}

/** `2 GPUs of 40 GiB`, `1 GPU (h100)`. */
export function describeDevices(ask: DeviceAsk): string {
  const { gpu_count, gpu_memory_bytes = 0, gpu_model = null } = ask;
  const count = `${gpu_count} ${gpu_count === 1 ? 'GPU' : 'GPUs'}`;
  const memory = gpu_memory_bytes === 0 ? '' : ` of ${formatMemory(gpu_memory_bytes)} or more`;
  return `${count}${memory}${gpu_model === null ? '' : ` (${gpu_model})`}`;
}

/** What fills in the sentences of the codes above and of `gpus_busy`. */
export function deviceDetails(
  ask: DeviceAsk,
  driver: DriverName | null,
  devices: readonly DeviceView[],
): Details {
  const given = devices.filter((one) => driver === null || canGive(one, driver));
  const suited = given.filter((one) => isModel(ask, one) && isLarge(ask, one));
  const free = suited.filter((one) => one.held === null && !one.reserved);
  const names = [...new Set(suited.flatMap((one) => one.holders))];
  const has = given.map((one) => `${one.model} with ${formatMemory(one.memory_bytes)}`);
  return {
    asked: describeDevices(ask),
    has: counted(has).slice(0, 4).join(', ') || 'none',
    count: given.length,
    suited: suited.length,
    free: free.length,
    holders: names.slice(0, 3).join(', ') || 'others',
  };
}

/** Why the first of those that nobody can have now cannot be had; null where each can. */
export function whyNoneUsable(devices: readonly DeviceView[]): string | null {
  const found = devices.find(({ usable_by }) => usable_by.length === 0);
  return found === undefined ? null : (found.why ?? `${found.model} cannot be handed out`);
}

export function canGive({ usable_by }: DeviceView, driver: DriverName): boolean {
  // What only pretends to run gives any device that somebody could give.
  if (driver === 'sim') return usable_by.length > 0;
  return usable_by.some((one) => one === driver);
}

function isModel({ gpu_model }: DeviceAsk, { model }: DeviceView): boolean {
  return !gpu_model || gpuModelName(model) === gpu_model;
}

function isLarge({ gpu_memory_bytes = 0 }: DeviceAsk, { memory_bytes }: DeviceView): boolean {
  return memory_bytes >= gpu_memory_bytes;
}

/** One that the creator's workloads share already, with the fewest of them. */
function joinable(
  ask: DeviceAsk,
  driver: DriverName,
  devices: readonly DeviceView[],
  creator_id: string,
): DeviceView | null {
  if (!ask.share_device || ask.gpu_count !== 1 || creator_id === '') return null;
  const bound = devices.filter((one) => one.only_all && canGive(one, driver));
  const own = devices.filter(
    (one) =>
      canGive(one, driver) &&
      (!one.only_all || bound.length === 1) &&
      isModel(ask, one) &&
      isLarge(ask, one) &&
      !one.reserved &&
      one.held !== null &&
      one.held.sharer === creator_id &&
      one.held.count < sharers_limit,
  );
  const count = (one: DeviceView) => one.held?.count ?? 0;
  return own.sort((a, b) => count(a) - count(b) || byUuid(a, b))[0] ?? null;
}

/** Sets of so many that work together and that `may` be taken: the least waste first. */
function setsOf(
  ask: DeviceAsk,
  driver: DriverName,
  devices: readonly DeviceView[],
  may: (one: DeviceView) => boolean,
  order: (a: DeviceView, b: DeviceView) => number = bySize,
): DeviceView[][] {
  const fits = (one: DeviceView) => isModel(ask, one) && isLarge(ask, one) && may(one);
  const given = devices.filter((one) => canGive(one, driver));
  const bound = given.filter((one) => one.only_all);
  const loose = given.filter((one) => !one.only_all && fits(one));
  const sets = setsAmong(loose, ask.gpu_count, order);
  const takes_all = bound.length === ask.gpu_count && bound.every(fits);
  if (takes_all) sets.push(...setsAmong(bound, ask.gpu_count, order));
  const sizeOf = (set: DeviceView[]) => set.reduce((sum, one) => sum + one.memory_bytes, 0);
  return sets.sort((a, b) => sizeOf(a) - sizeOf(b));
}

function setsAmong(
  devices: readonly DeviceView[],
  count: number,
  order: (a: DeviceView, b: DeviceView) => number,
): DeviceView[][] {
  const sorted = [...devices].sort(order);
  if (count === 1) return sorted.slice(0, 1).map((one) => [one]);
  const whole = sorted.filter((one) => !one.is_part);
  const groups = Map.groupBy(whole, (one) => gpuModelName(one.model));
  return [...groups.values()].flatMap((group) =>
    group.length < count ? [] : [group.slice(0, count)],
  );
}

function reservable(
  ask: DeviceAsk,
  driver: DriverName,
  devices: readonly DeviceView[],
): DeviceView[][] {
  const heldLast = (a: DeviceView, b: DeviceView) =>
    Number(a.held !== null) - Number(b.held !== null) || bySize(a, b);
  const held = (set: DeviceView[]) => set.filter((one) => one.held !== null).length;
  const sets = setsOf(ask, driver, devices, (one) => !one.reserved, heldLast);
  return sets.sort((a, b) => held(a) - held(b));
}

function bySize(a: DeviceView, b: DeviceView): number {
  return a.memory_bytes - b.memory_bytes || byUuid(a, b);
}

function byUuid(a: DeviceView, b: DeviceView): number {
  return a.uuid < b.uuid ? -1 : a.uuid > b.uuid ? 1 : 0;
}

/** `2 x A, B`. */
function counted(names: readonly string[]): string[] {
  const groups = Map.groupBy(names, (name) => name);
  return [...groups].map(([name, all]) => (all.length === 1 ? name : `${all.length} x ${name}`));
}
