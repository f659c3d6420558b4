/**
 * Is there a Docker Engine that can hold workloads, and what does it lack?
 *
 * Invariants: the judgement is pure; each finding says what to do where something can be done;
 * nothing is started and nothing changed by looking.
 */
import type { ReasonCode } from '../../core/reasons.ts';
import { sentenceOf } from '../../core/reasons.ts';
import { describeError } from '../../lib/log.ts';
import type { DriverProbe, Finding } from '../driver.ts';
import { type Engine, type EngineVersion, isOlder } from './engine.ts';
import { type DownKind, EngineDown } from './engine-error.ts';
import type { Fence } from './network.ts';

/** The part of the engine's description of itself that is looked at. */
export type EngineInfo = {
  OSType?: string;
  OperatingSystem?: string;
  Driver?: string;
  DriverStatus?: [string, string][] | null;
  CgroupVersion?: string;
  CgroupDriver?: string;
  MemoryLimit?: boolean;
  SwapLimit?: boolean;
  CpuCfsQuota?: boolean;
  PidsLimit?: boolean;
  SecurityOptions?: string[] | null;
  DefaultRuntime?: string;
  Runtimes?: Record<string, unknown> | null;
  DockerRootDir?: string;
  LiveRestoreEnabled?: boolean;
  CDISpecDirs?: string[] | null;
  DiscoveredDevices?: { ID?: string }[] | null;
};

export async function probeDocker(
  engine: Engine,
  troubles: string[],
  fence: Fence | null = null,
): Promise<DriverProbe> {
  try {
    const version = await engine.version();
    const info = (await engine.json({ method: 'GET', path: '/info' })) as EngineInfo | null;
    const judged = judgeEngine(engine.socket_path, version, info ?? {}, troubles);
    const fenced = await fenceFinding(fence, info ?? {});
    return { ...judged, findings: [...judged.findings, ...fenced] };
  } catch (error) {
    return noEngine(error);
  }
}

const reason_of: Record<DownKind, ReasonCode> = {
  absent: 'docker_missing',
  refused: 'docker_missing',
  denied: 'docker_denied',
  silent: 'docker_unusable',
  broken: 'docker_unusable',
  garbled: 'docker_unusable',
  api: 'docker_unusable',
};
const fix_of: Partial<Record<DownKind, string>> = {
  absent: 'install Docker, as bin/einsora doctor shows',
  refused: 'start Docker, as bin/einsora doctor shows',
  denied: 'sudo usermod -aG docker "$USER", then sign in again (it is as good as root)',
  silent: 'restart Docker',
  broken: 'restart Docker',
  api: 'install Docker 20.10 or later, or a newer Einsora where Docker is the newer one',
};

function noEngine(error: unknown): DriverProbe {
  const kind = error instanceof EngineDown ? error.kind : 'broken';
  const reason = reason_of[kind];
  const message = sentenceOf(reason, { why: describeError(error) });
  const fix = fix_of[kind] ?? null;
  return {
    driver: 'docker',
    ready: false,
    reason,
    findings: [{ check: 'docker engine', status: 'missing', message, fix }],
  };
}

export function judgeEngine(
  socket_path: string,
  version: EngineVersion,
  info: EngineInfo,
  troubles: string[],
): DriverProbe {
  const caps = capsFinding(info);
  const is_linux = (info.OSType ?? version.os) === 'linux';
  const system: Finding[] = is_linux
    ? []
    : [finding('docker engine', 'missing', `it runs ${info.OSType} containers`, null)];
  const reason = !is_linux ? 'docker_unusable' : caps.status === 'missing' ? 'cap_missing' : null;
  return {
    driver: 'docker',
    ready: reason === null,
    reason,
    findings: [
      engineFinding(socket_path, version, info),
      ...system,
      caps,
      storageFinding(info),
      gpuFinding(version, info),
      ...kindFindings(version, info),
      ...troubles.map((why) => finding('container in doubt', 'warning', why, null)),
    ],
  };
}

/** Endpoints need no fence: they have no network. So its lack is a warning. */
async function fenceFinding(fence: Fence | null, info: EngineInfo): Promise<Finding[]> {
  if (fence === null) return [];
  if (!has(info, 'rootless')) return [await fence.look()];
  const message =
    'no container with a network starts: the networks of a rootless engine are its own';
  return [finding('docker fence', 'warning', message, 'run Docker as a service of the system')];
}

function finding(
  check: string,
  status: Finding['status'],
  message: string,
  fix: string | null,
): Finding {
  return { check, status, message, fix };
}

function engineFinding(
  socket_path: string,
  { engine, product, api }: EngineVersion,
  { LiveRestoreEnabled }: EngineInfo,
): Finding {
  const lives = LiveRestoreEnabled
    ? 'containers go on when it is restarted'
    : 'its restart ends containers (live-restore is off)';
  const message = `${product} ${engine} on ${socket_path}, spoken to in API ${api}; ${lives}`;
  return finding('docker engine', 'ok', message, null);
}

function capsFinding(info: EngineInfo): Finding {
  const { MemoryLimit, SwapLimit, CpuCfsQuota, PidsLimit, CgroupVersion = '1' } = info;
  const groups = `control groups version ${CgroupVersion} (${info.CgroupDriver ?? 'unknown'})`;
  const lacks = [
    ...(SwapLimit === false ? ['swap'] : []),
    ...(CpuCfsQuota === false ? ['CPU'] : []),
    ...(PidsLimit === false ? ['processes'] : []),
  ];
  const is_rootless = has(info, 'rootless');
  const fix = is_rootless
    ? 'delegate the control groups to your user: a systemd session with Delegate=yes'
    : 'boot with cgroup_enable=memory swapaccount=1';
  if (MemoryLimit === false) {
    return finding('docker caps', 'missing', `${groups}: memory cannot be capped`, fix);
  }
  if (lacks.length > 0) {
    const message = `${groups}: memory is capped, not ${lacks.join(', ')}`;
    return finding('docker caps', 'warning', message, fix);
  }
  return finding('docker caps', 'ok', `${groups}: memory, swap, CPU and processes`, null);
}

/** A quota for each container exists on XFS with project quotas alone; most disks have none. */
function storageFinding(info: EngineInfo): Finding {
  const { Driver = 'unknown', DriverStatus, DockerRootDir = '' } = info;
  const backing = (DriverStatus ?? []).find(([name]) => name === 'Backing Filesystem')?.[1];
  const on = backing === undefined ? Driver : `${Driver} on ${backing}`;
  if (Driver === 'vfs') {
    const message = `${on}: each container is a full copy of its image`;
    return finding('docker disk', 'warning', message, 'use overlay2: see the page of Docker on it');
  }
  const message = `${on} in ${DockerRootDir}; disk is watched, not capped: it has no quota for one`;
  return finding('docker disk', 'ok', message, null);
}

function gpuFinding(version: EngineVersion, info: EngineInfo): Finding {
  const devices = (info.DiscoveredDevices ?? []).map(({ ID }) => String(ID));
  const gpus = devices.filter((id) => id.startsWith('nvidia.com/gpu='));
  if (isOlder(version.api, '1.44')) {
    const why = `API ${version.api}; GPUs need 1.44, which is Docker 25`;
    return finding('docker gpu', 'warning', `no GPU in containers: ${why}`, null);
  }
  if (gpus.length > 0) {
    return finding('docker gpu', 'ok', `CDI knows ${gpus.length} names of GPUs`, null);
  }
  const folders = info.CDISpecDirs ?? [];
  if (folders.length === 0) {
    const fix = 'set "features": {"cdi": true} in /etc/docker/daemon.json, then restart Docker';
    return finding('docker gpu', 'warning', 'no GPU in containers: CDI is off', fix);
  }
  const message = `CDI is on (${folders.join(', ')}); no GPU of it is known`;
  const fix = 'where there is one: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml';
  return finding('docker gpu', 'ok', message, fix);
}

function kindFindings(version: EngineVersion, info: EngineInfo): Finding[] {
  const found: Finding[] = [];
  const warn = (message: string, fix: string | null) =>
    found.push(finding('docker kind', 'warning', message, fix));
  if (has(info, 'rootless')) {
    warn('it is rootless: users of containers are not those of the machine', null);
  }
  if (has(info, 'userns')) warn('it maps users: folders that it is shown may be refused', null);
  if ((info.DockerRootDir ?? '').startsWith('/var/snap/')) {
    warn('it is the snap: GPUs and folders outside of home do not work', 'install docker.io');
  }
  if (/podman/i.test(version.product)) warn('it is Podman, with which nothing was tried', null);
  if (info.DefaultRuntime === 'nvidia') {
    warn('its default runtime is NVIDIA: containers without a GPU are told so', null);
  }
  return found;
}

function has({ SecurityOptions }: EngineInfo, name: string): boolean {
  return (SecurityOptions ?? []).some((option) => option.includes(`name=${name}`));
}
