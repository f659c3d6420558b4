/**
 * What this machine is, what it offers, and why it has not the rest. The agent sends it with its
 * hello, the doctor prints it.
 *
 * Invariants: looks and changes nothing; every probe is bounded in time, so a tool that hangs costs
 * seconds and no more; it never says owner, region, sharing or isolation: those are the control
 * plane's word (ADR-0014).
 */
import { statfsSync } from 'node:fs';
import { arch, homedir, platform } from 'node:os';
import type { GpuRecord } from '../../contract/gpus.ts';
import type { DriverReport, Inventory } from '../../contract/machines.ts';
import { formatBytes, formatMemory } from '../../core/format.ts';
import type { Amounts } from '../../core/workload.ts';
import type { DriverProbe, Finding } from '../../drivers/driver.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Capacity, readCapacity } from './capacity.ts';
import { type Distribution, macDistribution, readDistribution } from './distribution.ts';
import { lookForDocker } from './docker.ts';
import { driverReport } from './driver-reports.ts';
import type { GpuReport, GpuWatch } from './gpu-watch.ts';
import { judgeKvm, lookForKvm } from './kvm.ts';
import { mac_sysctls, readMacCapacity } from './mac-capacity.ts';
import { createMachineReader, type Exec, type MachineReader } from './machine-reader.ts';
import { type Offer, offeredAmounts } from './offer.ts';

export type InventoryParts = {
  probes: DriverProbe[];
  exec: Exec;
  clock: Clock;
  /** The data folder: its disk is the one that counts. */
  folder: string;
  offer: Offer;
  host_name: string;
  gpus: GpuWatch;
  /** What DOCKER_HOST says. */
  docker_host?: string | null | undefined;
  /** A person asks to look at everything anew. */
  anew?: boolean;
};

const sysctl_timeout_ms = 5_000;

export async function takeInventory(parts: InventoryParts): Promise<Inventory> {
  const reader = createMachineReader(parts.exec);
  const on_mac = platform() === 'darwin';
  const here = on_mac ? await askMac(reader) : lookAtLinux(reader);
  const uid = process.getuid?.() ?? 0;
  const [gpu, kvm, docker] = await Promise.all([
    on_mac
      ? macGpus()
      : parts.gpus.look(reader, here.distribution, {
          anew: parts.anew ?? false,
          memory_bytes: here.capacity.memory_bytes,
        }),
    on_mac ? macKvm(here.distribution) : lookForKvm(reader, here.distribution, placeOf(parts)),
    lookForDocker(reader, here.distribution, {
      ...{ clock: parts.clock, home: homedir(), uid, host: parts.docker_host },
    }),
  ]);
  const { capacity } = here;
  const disk = statfsSync(parts.folder);
  const disk_free_bytes = disk.bavail * disk.bsize;
  const offered = offeredAmounts(
    { ...capacity, disk_free_bytes, disk_total_bytes: disk.blocks * disk.bsize },
    parts.offer,
  );
  return {
    name: parts.host_name.slice(0, 253),
    os: here.distribution.os,
    os_version: here.distribution.version,
    arch: arch(),
    cpu_model: capacity.cpu_model,
    cpu_count: capacity.cpu_count,
    memory_bytes: capacity.memory_bytes,
    disk_free_bytes,
    offered,
    accelerators: acceleratorsOf(gpu.gpus),
    gpus: gpu.gpus,
    drivers: saidOnce(parts.probes.map(driverReport), docker),
    findings: [...amountFindings(capacity, offered, disk_free_bytes), ...gpu.findings, kvm, docker],
  };
}

/** What runs here may run on: a GPU counts where something can hand it to them. */
export function acceleratorsOf(gpus: readonly GpuRecord[]): Inventory['accelerators'] {
  const can = (gpu: GpuRecord) => gpu.vendor === 'nvidia' && gpu.usable_by.length > 0;
  return gpus.some(can) ? ['cpu', 'nvidia'] : ['cpu'];
}

/** The machine's own findings: how much there is, what was narrowed, what is offered. */
export function amountFindings(
  has: Capacity,
  offered: Amounts,
  disk_free_bytes: number,
): Finding[] {
  const narrowed = has.narrowed_by.length === 0 ? '' : ` (${has.narrowed_by.join('; ')})`;
  const cores = (millis: number) => `${millis / 1000} ${millis === 1000 ? 'core' : 'cores'}`;
  const finding = (check: string, enough: boolean, message: string, fix: string): Finding =>
    enough
      ? { check, status: 'ok', message, fix: null }
      : { check, status: 'missing', message, fix };
  return [
    finding(
      'cpu',
      offered.cpu_millis >= 1000,
      `${cores(has.cpu_millis)} (${has.cpu_model}), ` +
        `${cores(offered.cpu_millis)} offered${narrowed}`,
      'less than one core is offered, so no class fits: einsora up --offer-cpu 1',
    ),
    finding(
      'memory',
      offered.memory_bytes >= 2 ** 31,
      `${formatMemory(has.memory_bytes)} of memory, ${formatMemory(offered.memory_bytes)} offered`,
      'less than 2 GiB are offered, so no class fits: einsora up --offer-memory 2GiB',
    ),
    finding(
      'disk',
      offered.disk_bytes >= 1e9,
      `${formatBytes(disk_free_bytes)} of disk free, ${formatBytes(offered.disk_bytes)} offered`,
      'less than 1 GB is offered: free some space (df -h)',
    ),
  ];
}

/** That there is no engine, the machine's own finding says already, and what helps here. */
export function saidOnce(reports: DriverReport[], docker: Finding): DriverReport[] {
  if (docker.status !== 'missing') return reports;
  return reports.map((report) =>
    report.driver === 'docker' && !report.ready
      ? { ...report, why: docker.message, findings: [] }
      : report,
  );
}

type Here = { distribution: Distribution; capacity: Capacity };

function lookAtLinux(reader: MachineReader): Here {
  const release = reader.read('/etc/os-release') ?? reader.read('/usr/lib/os-release');
  const systemd = reader.list('/run/systemd/system').length > 0;
  return {
    distribution: readDistribution(release, { is_root: process.getuid?.() === 0, systemd }),
    capacity: readCapacity(reader.read),
  };
}

async function askMac(reader: MachineReader): Promise<Here> {
  const [sysctl, version] = await Promise.all([
    reader.run('sysctl', mac_sysctls, sysctl_timeout_ms),
    reader.run('sw_vers', ['-productVersion'], sysctl_timeout_ms),
  ]);
  const capacity = readMacCapacity(sysctl.stdout);
  if (capacity === null) throw new Error(`sysctl says neither memory nor cores: ${sysctl.stderr}`);
  return { distribution: macDistribution(version.stdout), capacity };
}

function macGpus(): GpuReport {
  const message = 'the GPU of this Mac is not used yet; workloads run on its CPU';
  return {
    gpus: [],
    findings: [{ check: 'gpu', status: 'warning', message, fix: 'bin/einsora catalog' }],
  };
}

function macKvm(here: Distribution): Finding {
  return judgeKvm({ here, inside: null, arch: arch(), device: 'missing', flag: null, trial: null });
}

function placeOf(parts: InventoryParts): { arch: string; folder: string } {
  return { arch: arch(), folder: parts.folder };
}
