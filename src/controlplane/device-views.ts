/**
 * GPUs of machines as placement sees them: what their agents last reported, and who holds which.
 *
 * Invariants: only a GPU that is well, has a name and that some driver can hand out is there to be
 * placed; of its holders only the asking tenant's workloads are named; machines without GPUs cost
 * no read.
 */
import type { GpuRecord } from '../contract/gpus.ts';
import type { DeviceView } from '../core/devices.ts';
import { type HeldDevice, heldDevices } from '../store/device-holds.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type DeviceFacts = Omit<DeviceView, 'held' | 'reserved' | 'holders'>;

/** Of an inventory, worked out once for each. */
export function deviceFacts(gpus: readonly GpuRecord[]): DeviceFacts[] {
  return gpus.flatMap((gpu) => {
    const { uuid, vendor, state, usable_by, model } = gpu;
    if (uuid === null || vendor !== 'nvidia' || state !== 'ok' || usable_by.length === 0) return [];
    return [
      {
        ...{ uuid, model, usable_by },
        memory_bytes: Math.max(0, gpu.memory_bytes - gpu.reserved_bytes),
        is_part: gpu.mig_of !== null,
        only_all: gpu.reasons.some(({ code }) => code === 'gpu_in_wsl'),
      },
    ];
  });
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
      held:
        first === undefined ? null : { sharer: first.sharer || null, count: holds.length },
      reserved: false,
      holders: own.map(({ name }) => name),
    };
  });
}
