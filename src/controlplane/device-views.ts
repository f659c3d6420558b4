/**
 * GPUs of machines as placement sees them: what their agents last reported, and who holds which.
 *
 * Invariants: only a GPU that is well, has a name and that some driver can hand out can be placed,
 * the others say why not; of its holders only the asking tenant's workloads are named; machines
 * without GPUs cost no read.
 */
import type { GpuRecord, HeldGpu } from '../contract/gpus.ts';
import type { Machine } from '../contract/machines.ts';
import type { ClassEntry } from '../core/catalog.ts';
import { type DeviceView, deviceRefusal } from '../core/devices.ts';
import { told_share, whyUnusable } from '../core/gpus.ts';
import type { MachineView, Placement } from '../core/workload.ts';
import { devicesOfWorkloads, type HeldDevice, heldDevices } from '../store/device-holds.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type DeviceFacts = Omit<DeviceView, 'held' | 'reserved' | 'holders'>;

/** Of an inventory, worked out once for each. */
export function deviceFacts(gpus: readonly GpuRecord[]): DeviceFacts[] {
  return gpus.flatMap((gpu) => {
    const { uuid, vendor, state, usable_by, model } = gpu;
    if (uuid === null || vendor !== 'nvidia') return [];
    const is_usable = state === 'ok' && usable_by.length > 0;
    const why = is_usable ? {} : { why: whyUnusable(gpu) };
    return [
      {
        ...{ uuid, model, usable_by: is_usable ? usable_by : [], ...why },
        memory_bytes: Math.max(0, gpu.memory_bytes - gpu.reserved_bytes),
        is_part: gpu.mig_of !== null,
        only_all: gpu.reasons.some(({ code }) => code === 'gpu_in_wsl'),
      },
    ];
  });
}

/** What workloads have of GPUs, by their ids; who has none costs no read. */
export async function heldGpus(
  store: EinsoraStore,
  rows: readonly { id: string; gpu_count: number; run_epoch: number }[],
): Promise<Map<string, HeldGpu[]>> {
  const workload_ids = rows.flatMap((row) =>
    row.gpu_count > 0 && row.run_epoch > 0 ? row.id : [],
  );
  const held = new Map<string, HeldGpu[]>();
  if (workload_ids.length === 0) return held;
  for (const { workload_id, device, other } of await store.read(devicesOfWorkloads, {
    workload_ids,
  })) {
    const own = held.get(workload_id) ?? [];
    held.set(workload_id, own);
    let gpu = own.find(({ uuid }) => uuid === device);
    if (gpu === undefined) {
      gpu = { uuid: device, shared_with: [] };
      own.push(gpu);
    }
    if (other !== null && !gpu.shared_with.includes(other)) gpu.shared_with.push(other);
  }
  return held;
}

/** Those that somebody has. */
export function heldDevicesOf(devices: readonly DeviceView[]): NonNullable<Machine['held_gpus']> {
  return devices.flatMap(({ uuid, held, holders }) =>
    held === null ? [] : [{ uuid, workloads: [...holders], shared: held.sharer !== null }],
  );
}

/** Whether a machine has what a class asks for, free or not, as far as may be known of it. */
export function offersClass(
  { offered, inventory }: Pick<Machine, 'offered' | 'inventory'>,
  entry: ClassEntry,
): boolean {
  const { accelerator, cpu_millis, memory_bytes, gpu_model } = entry;
  if (offered.cpu_millis < cpu_millis || offered.memory_bytes < memory_bytes) return false;
  if (accelerator === 'cpu') return true;
  if (accelerator !== 'nvidia') return inventory?.accelerators.includes(accelerator) === true;
  const gpu_memory_bytes = Math.floor(entry.gpu_memory_bytes * told_share);
  const ask = { gpu_count: 1, gpu_class: entry.name, gpu_memory_bytes, gpu_model };
  const facts = deviceFacts(inventory?.gpus ?? []);
  // By whichever driver: sim stands for any.
  return deviceRefusal(ask, 'sim', deviceViews(facts, [], null)) === null;
}

/** Whose GPU it would share, of what placement chose. */
export function sharesWith(machines: readonly MachineView[], chosen: Placement | null): string[] {
  const machine = machines.find(({ id }) => id === chosen?.machine_id);
  const devices = machine?.devices?.filter(({ uuid }) => chosen?.devices?.includes(uuid)) ?? [];
  return [...new Set(devices.flatMap(({ holders }) => holders))];
}

export type DevicesBy = Map<string, HeldDevice[]>;

/** What is held of these machines' GPUs. */
export async function readHeld(store: EinsoraStore, ids: string[]): Promise<DevicesBy> {
  if (ids.length === 0) return new Map();
  const held = await store.read(heldDevices, { ids });
  return Map.groupBy(held, ({ machine_id }) => machine_id);
}

/** Views of their own: placement notes in them what it takes. */
export function deviceViews(
  facts: readonly DeviceFacts[],
  held: readonly HeldDevice[],
  tenant_id: string | null,
): DeviceView[] {
  return facts.map((one) => {
    const holds = held.filter(({ device }) => device === one.uuid);
    const [first] = holds;
    const own = holds.filter((hold) => hold.tenant_id === tenant_id);
    return {
      ...one,
      held: first === undefined ? null : { sharer: first.sharer || null, count: holds.length },
      reserved: false,
      holders: own.map(({ name }) => name),
    };
  });
}
