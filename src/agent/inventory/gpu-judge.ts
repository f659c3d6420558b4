/**
 * From one look at the machine to a record of each of its GPUs.
 *
 * Invariants: pure; every GPU that the bus, the driver, the tool or the past knows has exactly one
 * record, and one that is broken changes no other's; the PCI bus is believed before any tool.
 */
import type { GpuRecord } from '../../contract/gpus.ts';
import { type GpuReasonCode, gpuState, gpuUsableBy } from '../../core/gpus.ts';
import { sentenceOf } from '../../core/reasons.ts';
import { type AmdGpu, isIntegrated } from './amd.ts';
import { judgeHealth } from './gpu-health.ts';
import type { GpuSnapshot, KnownGpu } from './gpu-snapshot.ts';
import {
  busyReason,
  displayOf,
  displayReserve,
  judgeContainers,
  judgeUse,
  unified_share,
} from './gpu-use.ts';
import type { MigInstance } from './nvidia-mig.ts';
import type { NvidiaRow } from './nvidia-smi.ts';
import { type GpuReason, judgePassthrough } from './passthrough.ts';
import type { PciDisplay } from './pci.ts';

type Device = {
  pci: string | null;
  row: NvidiaRow | null;
  card: PciDisplay | null;
  uuid: string | null;
  model: string;
  memory_bytes: number;
};

/** As many as a report may have. */
const most_records = 256;

export function judgeGpus(seen: GpuSnapshot): GpuRecord[] {
  const devices = listNvidia(seen);
  const gone = seen.known.filter((known) => !devices.some((device) => isSame(device, known)));
  const records = [
    ...devices.flatMap((device) => nvidiaRecords(seen, device)),
    ...amdRecords(seen),
    ...gone.map(goneRecord),
  ];
  return records.slice(0, most_records);
}

function isSame(device: Device, known: KnownGpu): boolean {
  if (device.uuid !== null) return device.uuid === known.uuid;
  return device.pci !== null && device.pci === known.pci;
}

function listNvidia(seen: GpuSnapshot): Device[] {
  const { bus, nvidia, board, known } = seen;
  const cards = bus.displays.filter((one) => one.vendor === 'nvidia');
  const rows = nvidia.rows.filter(
    (row, index) => nvidia.rows.findIndex((other) => other.uuid === row.uuid) === index,
  );
  const placed = cards.map((card) =>
    deviceOf(seen, card.address, rows.find((row) => row.pci === card.address) ?? null, card),
  );
  // Inside Windows, on a board and in a container without /sys the bus does not show them.
  const placeless = rows
    .filter((row) => !cards.some((card) => card.address === row.pci))
    .map((row) => deviceOf(seen, row.pci, row, null));
  const devices = [...placed, ...placeless];
  // Those have only the tool to speak for them: where it is in trouble, they are not gone.
  const is_offbus = (one: KnownGpu) => one.pci === null || seen.is_wsl || bus.devices === null;
  const unheard = nvidia.trouble === null ? [] : known.filter(is_offbus);
  for (const one of unheard) {
    if (devices.some((device) => isSame(device, one))) continue;
    devices.push({ ...one, row: null, card: null });
  }
  if (devices.length === 0 && board !== null) devices.push(deviceOf(seen, null, null, null));
  return devices;
}

function deviceOf(
  seen: GpuSnapshot,
  pci: string | null,
  row: NvidiaRow | null,
  card: PciDisplay | null,
): Device {
  const told = pci === null ? undefined : seen.module?.cards[pci];
  const uuid = row?.uuid ?? told?.uuid ?? null;
  const known = seen.known.find((one) =>
    uuid === null ? pci !== null && one.pci === pci : one.uuid === uuid,
  );
  const anonymous = seen.board ?? `NVIDIA GPU ${card?.device_id ?? ''}`.trim();
  return {
    ...{ pci, row, card },
    uuid: uuid ?? known?.uuid ?? null,
    model: row?.name ?? told?.model ?? known?.model ?? anonymous,
    memory_bytes: memoryOf(seen, row) ?? known?.memory_bytes ?? 0,
  };
}

function memoryOf(seen: GpuSnapshot, row: NvidiaRow | null): number | null {
  if (row === null) return null;
  if (row.memory_bytes !== null || !row.is_unified) return row.memory_bytes;
  return Math.floor(seen.memory_bytes * unified_share);
}

function nvidiaRecords(seen: GpuSnapshot, device: Device): GpuRecord[] {
  const { row, card, pci, uuid, memory_bytes } = device;
  const version = row?.driver_version ?? seen.module?.version ?? null;
  if (card?.driver === 'vfio-pci') {
    return [recordOf(device, judgePassthrough(card, seen.here), { driver_version: null })];
  }
  const health = judgeHealth(seen, pci, row, card);
  const use = row === null ? [] : judgeUse(seen, row, card, memory_bytes);
  const reasons = [...health, ...use];
  const is_well = gpuState(codesOf(reasons)) === 'ok';
  if (is_well && uuid !== null) reasons.push(...judgeContainers(seen, uuid, version));
  if (is_well && card !== null && !seen.is_wsl) reasons.push(...judgePassthrough(card, seen.here));
  const has_display = displayOf(row, card) !== null;
  const whole = recordOf(device, reasons, {
    unified: row?.is_unified === true && row.memory_bytes === null,
    reserved_bytes: has_display && memory_bytes > 0 ? displayReserve(memory_bytes) : 0,
    display_attached: has_display,
    mig_mode: row?.mig ?? null,
    driver_version: version,
  });
  const parts = (seen.instances ?? []).filter((one) => row !== null && one.gpu_uuid === row.uuid);
  return [whole, ...parts.map((part) => instanceRecord(seen, device, part, health, version))];
}

/** A MIG instance is as well as the GPU that it is a part of. */
function instanceRecord(
  seen: GpuSnapshot,
  whole: Device,
  part: MigInstance,
  health: GpuReason[],
  version: string | null,
): GpuRecord {
  const { uuid, profile, memory_bytes } = part;
  // Some drivers tell a program by the whole GPU: then it may be on any instance.
  const busy = busyReason(seen, uuid, part.gpu_uuid);
  const reasons = [...health, ...(busy === null ? [] : [busy])];
  if (gpuState(codesOf(reasons)) === 'ok') reasons.push(...judgeContainers(seen, uuid, version));
  const model = `${whole.model} MIG ${profile}`;
  const record = recordOf({ ...whole, uuid, model, memory_bytes }, reasons, {
    ...{ mig_mode: 'enabled', mig_of: part.gpu_uuid, driver_version: version },
  });
  return { ...record, usable_by: record.usable_by.filter((driver) => driver !== 'libvirt') };
}

function goneRecord(known: KnownGpu): GpuRecord {
  const fix = 'where that is wanted: bin/einsora machine refresh';
  const reasons: GpuReason[] = [{ code: 'gpu_gone', details: {}, fix }];
  return recordOf(known, reasons, { driver_version: null });
}

function amdRecords({ bus, amd, here }: GpuSnapshot): GpuRecord[] {
  return amd.gpus.flatMap((gpu: AmdGpu) => {
    if (isIntegrated(gpu)) return [];
    const card = bus.displays.find((one) => one.address === gpu.address) ?? null;
    const device = { ...gpu, pci: gpu.address, uuid: null };
    const reasons: GpuReason[] = [];
    if (card?.driver === 'vfio-pci') reasons.push(...judgePassthrough(card, here));
    else if (amd.has_kfd) {
      const fix = 'the CPU classes work without a GPU: bin/einsora catalog';
      reasons.push({ code: 'gpu_amd_unsupported', details: {}, fix });
    } else {
      const fix = `${here.sudo}modprobe amdgpu   (details: dmesg | grep -i amdgpu)`;
      reasons.push({ code: 'gpu_amd_driver_missing', details: {}, fix });
    }
    const display_attached = displayOf(null, card) !== null;
    return [recordOf(device, reasons, { vendor: 'amd', driver_version: null, display_attached })];
  });
}

type Shown = Pick<Device, 'pci' | 'uuid' | 'model' | 'memory_bytes'>;

function recordOf(
  { pci, uuid, model, memory_bytes }: Shown,
  reasons: GpuReason[],
  more: Partial<GpuRecord>,
): GpuRecord {
  const gpu = pci === null ? model : `${model} at ${pci}`;
  const codes = codesOf(reasons);
  return {
    ...{ uuid, pci, vendor: 'nvidia', model: model.slice(0, 128), memory_bytes },
    ...{ unified: false, reserved_bytes: 0, state: gpuState(codes) },
    reasons: reasons.slice(0, 32).map(({ code, details, fix }) => ({
      code,
      message: sentenceOf(code, { ...details, gpu }).slice(0, 1000),
      fix,
    })),
    usable_by: usableBy(codes),
    ...{ display_attached: false, mig_mode: null, mig_of: null, driver_version: null },
    ...more,
  };
}

/** A virtual machine gets only what is set aside for it, which no container can have meanwhile. */
function usableBy(codes: GpuReasonCode[]): GpuRecord['usable_by'] {
  const aside = codes.includes('gpu_set_aside');
  return gpuUsableBy(codes).filter((driver) => aside || driver !== 'libvirt');
}

function codesOf(reasons: GpuReason[]): GpuReasonCode[] {
  return reasons.map(({ code }) => code);
}
