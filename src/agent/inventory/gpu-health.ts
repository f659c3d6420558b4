/**
 * How an NVIDIA GPU is: from the kernel's side up to the tool's.
 *
 * Invariants: pure. A GPU that answers soundly, and of which its driver wants nothing, is proven
 * well whatever the log said before; without that proof what the log said stands. Errors of a
 * program on it (Xid 13, 31, 43, 45, 68, 109) are not errors of the GPU.
 */
import type { GpuReasonCode } from '../../core/gpus.ts';
import type { Details } from '../../core/reasons.ts';
import { installDriver } from './distribution.ts';
import type { GpuSnapshot } from './gpu-snapshot.ts';
import type { GpuTroubles } from './kernel-log.ts';
import { type NvidiaRow, type NvidiaTrouble, nvidia_timeout_ms } from './nvidia-smi.ts';
import type { GpuReason } from './passthrough.ts';
import type { PciDisplay } from './pci.ts';

/** Caused by the program that ran there. */
export const program_xids: readonly number[] = [13, 31, 43, 45, 68, 109];
const memory_xids: readonly number[] = [48, 63, 64, 94, 95];
const firmware_xids: readonly number[] = [119, 120];
const lost_xid = 79;

export function judgeHealth(
  seen: GpuSnapshot,
  pci: string | null,
  row: NvidiaRow | null,
  card: PciDisplay | null,
): GpuReason[] {
  const log = (pci === null ? undefined : seen.log.gpus[pci]) ?? null;
  return row === null ? judgeSilent(seen, pci, card, log) : judgeRow(seen, pci, row, log);
}

function judgeRow(
  { here, nvidia }: GpuSnapshot,
  pci: string | null,
  row: NvidiaRow,
  log: GpuTroubles | null,
): GpuReason[] {
  const reboot = `${here.sudo}reboot`;
  const reset = `${here.sudo}nvidia-smi --gpu-reset -i ${pci ?? row.uuid}, or: ${reboot}`;
  const found: GpuReason[] = [];
  const add = (code: GpuReasonCode, fix: string | null, details: Details = {}) =>
    found.push({ code, details, fix });
  const wants = row.recovery ?? log?.recovery ?? null;
  const is_proven = row.recovery !== null && /^none$/i.test(row.recovery);

  const lost = row.errors.some((error) => /is lost/i.test(error));
  if (lost || (row.errors.length > 0 && hasFallenOff(log))) {
    add('gpu_lost', reboot, { xid: xidText(log) });
  } else if (row.errors.some((error) => /requires reset/i.test(error))) {
    add('gpu_reset_needed', reset);
  } else if (row.errors.length > 0) {
    const what = row.errors.slice(0, 3).join(', ');
    add('gpu_not_answering', reset, { what });
  }
  if (wants !== null && /reboot/i.test(wants)) add('gpu_reboot_needed', reboot);
  else if (wants !== null && /reset|drain/i.test(wants)) add('gpu_reset_needed', reset);

  if (row.failed_remap || (log?.xids[64] ?? 0) > 1) {
    const what = row.failed_remap ? 'a row could not be remapped' : 'Xid 64, more than once';
    add('gpu_memory_failing', 'have it replaced by who sold it', { what });
  } else {
    const what = memoryTrouble(row, is_proven ? null : log);
    if (what !== null) add('gpu_memory_error', reset, { what });
  }
  const stuck = firmware_xids.find((xid) => (log?.xids[xid] ?? 0) > 0);
  if (stuck !== undefined && !is_proven) add('gpu_firmware_stuck', reset, { xid: stuck });
  if (pci !== null && nvidia.inforom.includes(pci)) {
    add('gpu_inforom', 'have it looked at by who sold it');
  }
  return withoutRepeats(found);
}

/** It is on the bus, and the tool has no row of it. */
function judgeSilent(
  seen: GpuSnapshot,
  pci: string | null,
  card: PciDisplay | null,
  log: GpuTroubles | null,
): GpuReason[] {
  const { here, nvidia, module } = seen;
  const reboot = `${here.sudo}reboot`;
  const one = (code: GpuReasonCode, fix: string | null, details: Details = {}) => [
    { code, details, fix },
  ];
  if (card?.driver === 'nouveau') {
    return one('gpu_nouveau', `${installDriver(here)}, then reboot`);
  }
  const trouble = (pci === null ? undefined : nvidia.alone[pci]) ?? nvidia.trouble;
  if (trouble?.kind === 'mismatch') {
    const library = trouble.nvml_version ?? 'another';
    const details = { loaded: module?.version ?? 'one', library };
    return one('gpu_driver_mismatch', reboot, details);
  }
  if (hasFallenOff(log) || trouble?.kind === 'lost') {
    return one('gpu_lost', reboot, { xid: xidText(log) });
  }
  const is_unloaded = module === null && !seen.is_wsl && trouble?.kind !== 'timeout';
  if (is_unloaded) return judgeUnloaded(seen, trouble);
  return judgeTrouble(seen, trouble);
}

function judgeUnloaded(seen: GpuSnapshot, trouble: NvidiaTrouble | null): GpuReason[] {
  const { here, secure_boot, board } = seen;
  if (trouble?.kind === 'not_installed' || trouble === null) {
    const fix = board === null ? installDriver(here) : "install NVIDIA's JetPack";
    return [{ code: 'gpu_driver_missing', details: {}, fix }];
  }
  const hint = secure_boot
    ? ' (Secure Boot is on and refuses unsigned modules: sign it, or switch that off)'
    : '';
  const fix = `${here.sudo}modprobe nvidia   (details: dkms status; dmesg | grep -i nvidia)`;
  return [{ code: 'gpu_driver_not_loaded', details: { hint }, fix }];
}

function judgeTrouble({ here }: GpuSnapshot, trouble: NvidiaTrouble | null): GpuReason[] {
  const reboot = `${here.sudo}reboot`;
  const log = "dmesg | grep -iE 'nvrm|nvidia'";
  const one = (code: GpuReasonCode, fix: string | null, details: Details = {}) => [
    { code, details, fix },
  ];
  switch (trouble?.kind) {
    case 'not_installed':
      return one('gpu_tool_missing', installDriver(here));
    case 'timeout':
      return one('gpu_tool_silent', `if it stays so: ${reboot}`, {
        seconds: nvidia_timeout_ms / 1000,
      });
    case 'no_driver':
      return one('gpu_tool_failed', `${log}, then: ${reboot}`, {
        why: 'it cannot reach the driver',
      });
    case 'no_permission':
      return one('gpu_no_permission', 'ls -l /dev/nvidia*, or run einsora as root');
    case 'power':
      return one('gpu_power_cable', 'attach them, then reboot');
    case 'failed':
      return one('gpu_tool_failed', `${log}, then: ${reboot}`, { why: trouble.text });
    default:
      return one('gpu_not_listed', `${log}, then: ${reboot}`);
  }
}

function hasFallenOff(log: GpuTroubles | null): boolean {
  return log !== null && (log.fell_off || (log.xids[lost_xid] ?? 0) > 0);
}

function xidText(log: GpuTroubles | null): string {
  return (log?.xids[lost_xid] ?? 0) > 0 ? ' (Xid 79)' : '';
}

function memoryTrouble(row: NvidiaRow, log: GpuTroubles | null): string | null {
  const what = [
    ...(row.pending_remap ? ['rows are to be remapped'] : []),
    ...(row.pending_retirement ? ['pages are to be retired'] : []),
    ...memory_xids.filter((xid) => (log?.xids[xid] ?? 0) > 0).map((xid) => `Xid ${xid}`),
  ];
  return what.length === 0 ? null : what.join(', ');
}

function withoutRepeats(reasons: GpuReason[]): GpuReason[] {
  return reasons.filter(
    (one, index) => reasons.findIndex((other) => other.code === one.code) === index,
  );
}
