/**
 * What of a machine is free, and how well a workload would use it: pure.
 *
 * Invariants: what is held and what is reserved is nobody else's, amounts and GPUs alike; nothing
 * is negative, even where an owner lowered the offer; a workload without GPUs costs no look at any.
 */
import type { Ask } from './ask.ts';
import { chooseDevices, type DeviceView, deviceWaste } from './devices.ts';
import type { ReasonCode } from './reasons.ts';
import type { DriverName } from './trust.ts';
import type { Amounts, MachineView } from './workload.ts';

/** By which driver it would run, and who made it: they may share a GPU among their own. */
export type By = { driver: DriverName; creator_id?: string | undefined };

/** What is neither held nor reserved. */
export function freeOf({ offered, held, reserved }: MachineView): Amounts {
  const free = (name: keyof Amounts) => Math.max(0, offered[name] - held[name] - reserved[name]);
  return {
    cpu_millis: free('cpu_millis'),
    memory_bytes: free('memory_bytes'),
    disk_bytes: free('disk_bytes'),
  };
}

/** Whether it fits now: its amounts, and as many free GPUs as it asks for. */
export function hasRoom(ask: Ask, machine: MachineView, by: By): boolean {
  return hasAmounts(ask, machine) && (ask.gpu_count === 0 || devicesFor(ask, machine, by) !== null);
}

export function hasAmounts(ask: Amounts, { offered, held, reserved }: MachineView): boolean {
  const fits = (name: keyof Amounts) =>
    ask[name] <= Math.max(0, offered[name] - held[name] - reserved[name]);
  return fits('cpu_millis') && fits('memory_bytes') && fits('disk_bytes');
}

/** What keeps it from the machine now, and may not keep it for ever; null where it fits. */
export function roomRefusal(ask: Ask, machine: MachineView, by: By): ReasonCode | null {
  if (hasRoom(ask, machine, by)) return null;
  if (isKept(machine) && hasRoom(ask, unreserved(machine), by)) return 'reserved_for_head';
  if (ask.home_machine_id) return 'home_busy';
  return hasAmounts(ask, machine) ? 'gpus_busy' : 'machine_busy';
}

/** Whether anything of it is kept free for who has waited long. */
function isKept({ reserved, devices = [] }: MachineView): boolean {
  const { cpu_millis, memory_bytes, disk_bytes } = reserved;
  return cpu_millis + memory_bytes + disk_bytes > 0 || devices.some((one) => one.reserved);
}

/** As it would be if nothing was kept free for who has waited long. */
function unreserved(machine: MachineView): MachineView {
  const { devices = [] } = machine;
  return {
    ...machine,
    reserved: { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 },
    devices: devices.map((one) => ({ ...one, reserved: false })),
  };
}

/** The GPUs that it would take there; null where too few are free. */
export function devicesFor(ask: Ask, { devices = [] }: MachineView, by: By): DeviceView[] | null {
  return chooseDevices(ask, by.driver, devices, by.creator_id ?? '');
}

/**
 * How much of the machine stays unused beside this one, as a share, and before that how much memory
 * of its GPUs: less is better.
 */
export function leftOver(machine: MachineView, ask: Ask, by: By): number {
  const { offered, held, reserved } = machine;
  const share = (name: 'cpu_millis' | 'memory_bytes') =>
    offered[name] === 0
      ? 0
      : (Math.max(0, offered[name] - held[name] - reserved[name]) - ask[name]) / offered[name];
  const amounts = share('cpu_millis') + share('memory_bytes');
  if (ask.gpu_count === 0) return amounts;
  return amounts + deviceWaste(ask, devicesFor(ask, machine, by) ?? []) * most_amounts;
}

/** Both shares together: a GiB of a GPU weighs more than all of them. */
const most_amounts = 2;
