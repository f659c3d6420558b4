/**
 * What is true of a GPU because of a reason, and which GPUs count for placement: pure rules.
 *
 * Invariants: the worst reason decides the state; only a GPU in the state `ok` is usable by
 * anything; an accelerator and a class exist on a machine only where a usable GPU stands behind it.
 */
import type { GpuRecord, GpuState } from '../contract/gpus.ts';
import type { machineReasons } from './reasons/machines.ts';

export type GpuReasonCode = Extract<keyof typeof machineReasons, `gpu_${string}`>;
export type GpuDriver = GpuRecord['usable_by'][number];

/** The state that it means, and, where that is `ok`, what it keeps from using the GPU. */
type Meaning = { state: GpuState; hinders: readonly GpuDriver[] };

const means = (state: Exclude<GpuState, 'ok'>): Meaning => ({ state, hinders: [] });
const hinders = (...drivers: GpuDriver[]): Meaning => ({ state: 'ok', hinders: drivers });

export const gpuMeanings = {
  gpu_driver_missing: means('unsupported'),
  gpu_nouveau: means('unsupported'),
  gpu_driver_not_loaded: means('unsupported'),
  gpu_driver_mismatch: means('needs_reboot'),
  gpu_tool_missing: means('unsupported'),
  gpu_tool_silent: means('unknown'),
  gpu_tool_failed: means('unknown'),
  gpu_no_permission: means('unsupported'),
  gpu_not_listed: means('unhealthy'),
  gpu_lost: means('missing'),
  gpu_gone: means('missing'),
  gpu_not_answering: means('unhealthy'),
  gpu_power_cable: means('unhealthy'),
  gpu_inforom: hinders(),
  gpu_memory_error: means('degraded'),
  gpu_memory_failing: means('unhealthy'),
  gpu_firmware_stuck: means('unhealthy'),
  gpu_reset_needed: means('degraded'),
  gpu_reboot_needed: means('needs_reboot'),
  gpu_busy: means('busy_owner'),
  gpu_mig: means('unsupported'),
  gpu_mig_empty: means('unsupported'),
  gpu_set_aside: hinders('docker'),
  gpu_display: hinders('libvirt'),
  gpu_unified_memory: hinders(),
  gpu_in_wsl: hinders('libvirt'),
  gpu_persistence_off: hinders(),
  gpu_amd_unsupported: means('unsupported'),
  gpu_amd_driver_missing: means('unsupported'),
  gpu_engine_missing: hinders('docker'),
  gpu_engine_old: hinders('docker'),
  gpu_engine_snap: hinders('docker'),
  gpu_toolkit_missing: hinders('docker'),
  gpu_toolkit_old: hinders(), // containers are for the owner anyway
  gpu_cdi_off: hinders('docker'),
  gpu_cdi_missing: hinders('docker'),
  gpu_cdi_stale: hinders('docker'),
  gpu_cdi_unlisted: hinders('docker'),
  gpu_iommu_off: hinders('libvirt'),
  gpu_group_shared: hinders('libvirt'),
  gpu_no_reset: hinders('libvirt'),
  gpu_boot_display: hinders('libvirt'),
  gpu_not_dedicated: hinders('libvirt'),
} as const satisfies Record<GpuReasonCode, Meaning>;

/** Worst first. */
const severity: readonly GpuState[] = [
  'missing',
  'needs_reboot',
  'unhealthy',
  'unknown',
  'unsupported',
  'degraded',
  'busy_owner',
  'ok',
];

export function gpuState(codes: readonly GpuReasonCode[]): GpuState {
  const states = codes.map((code): GpuState => gpuMeanings[code].state);
  return severity.find((state) => states.includes(state)) ?? 'ok';
}

/** Whether one state is worse than another. */
export function isWorse(one: GpuState, other: GpuState): boolean {
  return severity.indexOf(one) < severity.indexOf(other);
}

export function gpuUsableBy(codes: readonly GpuReasonCode[]): GpuDriver[] {
  if (gpuState(codes) !== 'ok') return [];
  const hindered = codes.flatMap((code): readonly GpuDriver[] => gpuMeanings[code].hinders);
  return (['docker', 'libvirt'] as const).filter((driver) => !hindered.includes(driver));
}

/** What keeps a GPU from every workload, in a sentence; null where nothing does. */
export function whyUnusable({ state, reasons, usable_by }: GpuRecord): string | null {
  if (state === 'ok' && usable_by.length > 0) return null;
  const meaningOf = (code: string) =>
    Object.hasOwn(gpuMeanings, code) ? gpuMeanings[code as GpuReasonCode] : null;
  const cause =
    reasons.find(({ code }) => isCause(code, state)) ??
    reasons.find(({ code }) => (meaningOf(code)?.hinders.length ?? 0) > 0);
  return cause?.message ?? null;
}

/** What a report claims to have, without what no healthy GPU stands behind. */
export function healthyAccelerators(told: {
  accelerators: readonly string[];
  gpus: readonly Pick<GpuRecord, 'vendor' | 'state' | 'usable_by'>[];
}): string[] {
  const usable = told.gpus.filter((gpu) => gpu.state === 'ok' && gpu.usable_by.length > 0);
  return told.accelerators.filter(
    (name) => name !== 'nvidia' || usable.some((gpu) => gpu.vendor === name),
  );
}

/** What changed from one look to a later one, a line for each GPU that did. */
export function gpuChanges(before: readonly GpuRecord[], after: readonly GpuRecord[]): string[] {
  const lines: string[] = [];
  const add = (gpu: GpuRecord, text: string) => {
    lines.push(`${gpu.model}${gpu.pci === null ? '' : ` at ${gpu.pci}`}: ${text}`);
  };
  for (const gpu of after) {
    const was = before.find((one) => isSameGpu(one, gpu));
    const causes = gpu.reasons.map(({ code }) => code).filter((code) => isCause(code, gpu.state));
    const now = causes.length === 0 ? gpu.state : `${gpu.state} (${causes.join(', ')})`;
    if (was === undefined) add(gpu, `new, ${now}`);
    else if (was.state !== gpu.state) add(gpu, `${was.state}, now ${now}`);
  }
  for (const gpu of before) {
    if (!after.some((one) => isSameGpu(one, gpu))) add(gpu, 'no longer listed');
  }
  return lines;
}

function isSameGpu(one: GpuRecord, other: GpuRecord): boolean {
  if (one.uuid !== null && other.uuid !== null) return one.uuid === other.uuid;
  return one.pci !== null && one.pci === other.pci && one.mig_of === null && other.mig_of === null;
}

function isCause(code: string, state: GpuState): boolean {
  const meaning = Object.hasOwn(gpuMeanings, code) ? gpuMeanings[code as GpuReasonCode] : null;
  return state !== 'ok' && meaning?.state === state;
}

/** Sizes in GiB under which GPUs are sold: the drivers report a little less. */
const sold_gib = [
  ...[2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 180, 192],
  ...[256, 288],
];

/** What a driver tells of a GPU's memory, at least, as a share of that under which it is sold. */
export const told_share = 0.9;

/** The class of a whole GPU, such as `l40s-48gb`; null where its model or memory is not known. */
export function gpuClassName(model: string, memory_bytes: number): string | null {
  const gib = memory_bytes / 2 ** 30;
  const sold = sold_gib.find((size) => gib >= size * told_share && gib <= size * 1.01);
  const name = gpuModelName(model);
  return name === '' || sold === undefined ? null : `${name}-${sold}gb`;
}

/** The model as classes name it: `NVIDIA GeForce RTX 4090` is `rtx-4090`. */
export function gpuModelName(model: string): string {
  return model
    .toLowerCase()
    .replace(/\b(nvidia|geforce|tesla|quadro|graphics|laptop gpu|generation)\b/g, ' ')
    .replace(/\b\d+ ?gb\b|\bhbm\w*\b|\b(sxm\d?|pcie)\b/g, ' ')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '');
}
