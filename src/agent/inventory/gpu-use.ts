/**
 * Who uses an NVIDIA GPU that is well, and what keeps a container from getting it.
 *
 * Invariants: pure; the owner's display and programs come first; a container's way to a GPU is one
 * chain (engine, toolkit, CDI, specification), of which the first broken link is told, with what
 * mends it.
 */
import { formatMemory } from '../../core/format.ts';
import type { GpuReasonCode } from '../../core/gpus.ts';
import type { Details } from '../../core/reasons.ts';
import { isOlder } from '../../drivers/docker/engine.ts';
import { installCommand, packageNames } from './distribution.ts';
import type { GpuSnapshot } from './gpu-snapshot.ts';
import type { NvidiaRow } from './nvidia-smi.ts';
import type { GpuReason } from './passthrough.ts';
import type { PciDisplay } from './pci.ts';

/** Below it, what a container holds can get out (CVE-2025-23266 and before). */
export const toolkit_floor = '1.17.8';
const cdi_api = '1.44';
/** Share of a machine's own memory that counts as its GPU's, where both are one. */
export const unified_share = 0.75;

export function judgeUse(
  seen: GpuSnapshot,
  row: NvidiaRow,
  card: PciDisplay | null,
  memory_bytes: number,
): GpuReason[] {
  const { here } = seen;
  const found: GpuReason[] = [];
  const add = (code: GpuReasonCode, fix: string | null, details: Details = {}) =>
    found.push({ code, details, fix });
  const busy = busyReason(seen, row.uuid);
  if (busy !== null) found.push(busy);
  if (row.mig === 'enabled') {
    const has_some = seen.instances?.some((one) => one.gpu_uuid === row.uuid) !== false;
    const off = `to have it whole: ${here.sudo}nvidia-smi -i ${row.pci ?? row.uuid} -mig 0`;
    const create = `${here.sudo}nvidia-smi mig -cgi <profiles> -C, or ${off}`;
    if (has_some) add('gpu_mig', off);
    else add('gpu_mig_empty', create);
  }
  const display = displayOf(row, card);
  if (display !== null) {
    const reserved = formatMemory(displayReserve(memory_bytes));
    add('gpu_display', null, { display, reserved });
  }
  if (row.is_unified && row.memory_bytes === null) {
    const total = formatMemory(seen.memory_bytes);
    add('gpu_unified_memory', null, { share: formatMemory(memory_bytes), total });
  }
  if (seen.is_wsl) add('gpu_in_wsl', null);
  else if (row.persistence === 'disabled' && display === null && !row.is_unified) {
    add('gpu_persistence_off', `${here.sudo}nvidia-smi -pm 1`);
  }
  return found;
}

/** `uuids`: under which names programs on it may be told. */
export function busyReason({ foreign }: GpuSnapshot, ...uuids: string[]): GpuReason | null {
  const programs = foreign.filter((one) => uuids.includes(one.gpu_uuid)).map((one) => one.name);
  if (programs.length === 0) return null;
  const names = [...new Set(programs)].sort();
  const shown = names.slice(0, 3).join(', ') + (names.length > 3 ? ', …' : '');
  return {
    code: 'gpu_busy',
    details: { programs: shown },
    fix: 'end them, or wait until they end: nvidia-smi',
  };
}

/** What a display is known by; null where there is none. */
export function displayOf(row: NvidiaRow | null, card: PciDisplay | null): string | null {
  const screens = card?.screens ?? [];
  if (screens.length > 0) return screens.slice(0, 4).join(', ');
  return row?.display ?? null;
}

/** 15 % of the memory, one GiB at least and two at most. */
export function displayReserve(memory_bytes: number): number {
  const reserve = Math.max(2 ** 30, Math.min(2 ** 31, memory_bytes * 0.15));
  return Math.min(memory_bytes, Math.floor(reserve));
}

/** The first link that is broken between Docker and this device; none where a container gets it. */
export function judgeContainers(
  seen: GpuSnapshot,
  uuid: string,
  driver_version: string | null,
): GpuReason[] {
  const { here, containers } = seen;
  const { engine, toolkit, specs } = containers;
  const restart = `${here.sudo}systemctl restart docker`;
  const one = (code: GpuReasonCode, fix: string | null, details: Details = {}) => [
    { code, details, fix },
  ];
  if (engine === null) return one('gpu_engine_missing', 'bin/einsora doctor');
  const install = installCommand(here, packageNames.docker, 'Docker');
  if (engine.root.startsWith('/var/snap/')) {
    return one('gpu_engine_snap', `${here.sudo}snap remove docker, then: ${install}`);
  }
  if (isOlder(engine.api, cdi_api)) {
    return one('gpu_engine_old', 'install Docker 25 or later', { api: engine.api });
  }
  if (toolkit === null && specs.length === 0) {
    return one('gpu_toolkit_missing', installCommand(here, packageNames.toolkit, 'it'));
  }
  if (!engine.cdi) {
    const fix = `set "features": {"cdi": true} in /etc/docker/daemon.json, then: ${restart}`;
    return one('gpu_cdi_off', fix);
  }
  const broken = judgeSpecs(seen, uuid, driver_version);
  if (broken.length > 0) return broken;
  if (toolkit !== null && toolkit !== '' && isOlderRelease(toolkit, toolkit_floor)) {
    const fix = installCommand(here, packageNames.toolkit, 'a newer one');
    return one('gpu_toolkit_old', fix, { version: toolkit, floor: toolkit_floor });
  }
  return [];
}

function judgeSpecs(
  { here, is_wsl, containers }: GpuSnapshot,
  uuid: string,
  driver_version: string | null,
): GpuReason[] {
  const { engine, specs } = containers;
  const path = specs[0]?.path ?? '/etc/cdi/nvidia.yaml';
  const fix = `${here.sudo}nvidia-ctk cdi generate --output=${path}`;
  const one = (code: GpuReasonCode, details: Details): GpuReason[] => [{ code, details, fix }];
  const prefix = 'nvidia.com/gpu=';
  const listed = engine?.devices?.flatMap((id) =>
    id.startsWith(prefix) ? [id.slice(prefix.length)] : [],
  );
  const names = listed ?? specs.flatMap((spec) => spec.names);
  if (specs.length === 0 && names.length === 0) return one('gpu_cdi_missing', {});
  const versions = specs.flatMap((spec) => spec.versions);
  if (driver_version !== null && versions.length > 0 && !versions.includes(driver_version)) {
    return one('gpu_cdi_stale', { path, found: versions[0] ?? '', loaded: driver_version });
  }
  // Inside Windows all GPUs have one name.
  const is_named = names.includes(uuid) || (is_wsl && names.includes('all'));
  return is_named ? [] : one('gpu_cdi_unlisted', { path, uuid });
}

/** Compares the numbers before any "-rc". */
export function isOlderRelease(version: string, than: string): boolean {
  const numbers = (text: string) =>
    (text.split('-')[0] ?? '').split('.').map((n) => Number(n) || 0);
  const [have, want] = [numbers(version), numbers(than)];
  for (let part = 0; part < 3; part += 1) {
    const [a = 0, b = 0] = [have[part], want[part]];
    if (a !== b) return a < b;
  }
  return version.includes('-') && !than.includes('-');
}
