/**
 * Why there is a GPU, or exactly why not.
 *
 * Invariants: the PCI bus is believed before any tool; one finding for each cause, each with what
 * to do about it on this system; a tool that hangs or fails never reads as "no GPU".
 */
import { formatMemory } from '../../core/format.ts';
import type { Finding } from '../../drivers/driver.ts';
import type { Distribution, PackageNames } from './distribution.ts';
import { installCommand } from './distribution.ts';
import type { MachineReader } from './machine-reader.ts';
import {
  type NvidiaAnswer,
  type NvidiaGpu,
  nvidia_query,
  nvidia_timeout_ms,
  readNvidiaAnswer,
} from './nvidia-smi.ts';
import { listDisplays, type PciDisplay } from './pci.ts';
import { virtualMachine } from './virtual-machine.ts';

export type GpuSnapshot = {
  here: Distribution;
  /** A noun phrase where this is a virtual machine. */
  inside: string | null;
  /** Devices on the PCI bus; null where the bus cannot be read. */
  pci_devices: number | null;
  displays: PciDisplay[];
  /** The kernel has NVIDIA's driver loaded. */
  driver_loaded: boolean;
  /** Secure Boot is on: it refuses a driver module that nobody signed. */
  secure_boot: boolean;
  nvidia: NvidiaAnswer;
};

export type GpuReport = { gpus: NvidiaGpu[]; findings: Finding[] };

const cpu_works = 'the CPU classes work without a GPU';

export async function lookForGpus(reader: MachineReader, here: Distribution): Promise<GpuReport> {
  const { devices, displays } = listDisplays(reader);
  const [smi, mokutil] = await Promise.all([
    reader.run('nvidia-smi', nvidia_query, nvidia_timeout_ms),
    reader.run('mokutil', ['--sb-state'], nvidia_timeout_ms),
  ]);
  return judgeGpus({
    here,
    inside: virtualMachine(reader.read),
    pci_devices: devices,
    displays,
    driver_loaded: reader.read('/proc/driver/nvidia/version') !== null,
    secure_boot: mokutil.stdout.includes('SecureBoot enabled'),
    nvidia: readNvidiaAnswer(smi),
  });
}

export function judgeGpus(seen: GpuSnapshot): GpuReport {
  // Inside Windows or a container without /sys the bus shows nothing, and the tool still may.
  if (seen.nvidia.kind === 'gpus') {
    return { gpus: seen.nvidia.gpus, findings: seen.nvidia.gpus.map(working) };
  }
  const trouble = seen.nvidia;
  const nvidia = seen.displays.filter((one) => one.vendor === 'nvidia');
  const amd = seen.displays.filter((one) => one.vendor === 'amd');
  const findings: Finding[] = [];
  if (nvidia.length > 0) findings.push(broken(seen, trouble, nvidia));
  if (amd.length > 0) {
    findings.push(missing(`${addresses(amd)}: an AMD GPU, which is not supported yet`, cpu_works));
  }
  if (findings.length === 0) findings.push(noDevice(seen));
  return { gpus: [], findings };
}

function working(gpu: NvidiaGpu): Finding {
  const what = `${gpu.name} with ${formatMemory(gpu.memory_bytes)}`;
  const message = `${what} works, but workloads cannot use it yet`;
  return { check: 'gpu', status: 'warning', message, fix: cpu_works };
}

function noDevice(seen: GpuSnapshot): Finding {
  if (seen.inside?.includes('WSL')) {
    return missing(
      `no NVIDIA GPU reaches ${seen.inside}`,
      "install NVIDIA's driver in Windows, then: wsl --shutdown",
    );
  }
  if (seen.pci_devices === null) {
    return missing('no GPU: there is no PCI bus to be seen from here', cpu_works);
  }
  const intel = seen.displays.some((one) => one.vendor === 'intel');
  const only = intel ? ' (its Intel graphics cannot run models)' : '';
  const count = `none of the ${seen.pci_devices} devices on the PCI bus is an NVIDIA GPU${only}`;
  if (seen.inside === null) return missing(`no GPU: ${count}`, `add an NVIDIA GPU; ${cpu_works}`);
  return missing(
    `no GPU: ${count}; this is ${seen.inside}, which sees only what its host passes through`,
    `pass a GPU through to it on its host; ${cpu_works}`,
  );
}

/** The card is there and does not work: from the kernel's side up to the tool's. */
function broken(seen: GpuSnapshot, nvidia: Trouble, cards: PciDisplay[]): Finding {
  const where = `an NVIDIA GPU is at ${addresses(cards)}`;
  const { here } = seen;
  if (cards.every((card) => card.driver === 'vfio-pci')) {
    return missing(
      `${where}, set aside for virtual machines (vfio-pci)`,
      `to give it back to this system: ${here.sudo}driverctl unset-override ${cards[0]?.address}`,
    );
  }
  if (cards.some((card) => card.driver === 'nouveau')) {
    return missing(
      `${where}, run by nouveau, which cannot compute`,
      `${installDriver(here)}, then reboot`,
    );
  }
  if (nvidia.kind === 'mismatch') {
    return missing(
      `${where}, but its driver was updated while the old one runs (version mismatch)`,
      `${here.sudo}reboot`,
    );
  }
  if (!seen.driver_loaded) {
    const installed = nvidia.kind !== 'not_installed';
    const signed = seen.secure_boot
      ? ' (Secure Boot is on and refuses unsigned modules: sign it or switch that off)'
      : '';
    return missing(
      installed
        ? `${where}, but its driver is installed and not loaded${signed}`
        : `${where}, but no NVIDIA driver is installed`,
      installed
        ? `${here.sudo}modprobe nvidia   (details: dmesg | grep -i nvidia)`
        : installDriver(here),
    );
  }
  return missing(
    `${where} with its driver loaded, but ${complaint(nvidia)}`,
    toolFix(nvidia, here),
  );
}

type Trouble = Exclude<NvidiaAnswer, { kind: 'gpus' }>;

function complaint(nvidia: Trouble): string {
  switch (nvidia.kind) {
    case 'not_installed':
      return 'nvidia-smi or its library is not installed';
    case 'timeout':
      return `nvidia-smi did not answer within ${nvidia_timeout_ms / 1000} s`;
    case 'no_driver':
      return 'nvidia-smi cannot reach the driver';
    case 'mismatch':
      return 'driver and library versions differ';
    case 'no_permission':
      return 'this user may not open /dev/nvidia*';
    case 'lost':
      return 'it has fallen off the bus';
    case 'no_devices':
      return 'nvidia-smi finds no usable device';
    case 'failed':
      return `nvidia-smi failed: ${nvidia.text}`;
  }
}

function toolFix(nvidia: Trouble, here: Distribution): string {
  if (nvidia.kind === 'not_installed') return installDriver(here);
  if (nvidia.kind === 'no_permission') return 'ls -l /dev/nvidia*, or run einsora as root';
  if (nvidia.kind === 'timeout' || nvidia.kind === 'lost') return `${here.sudo}reboot`;
  return `dmesg | grep -iE 'nvrm|nvidia', then ${here.sudo}reboot`;
}

const driver_packages: PackageNames = {
  apt: 'nvidia-driver',
  dnf: 'akmod-nvidia xorg-x11-drv-nvidia-cuda',
  zypper: 'nvidia-open-driver-G06-signed-kmp-default nvidia-compute-utils-G06',
  pacman: 'nvidia-open nvidia-utils',
  apk: null,
  brew: null,
};

function installDriver(here: Distribution): string {
  if (here.os === 'Ubuntu') return `${here.sudo}ubuntu-drivers install`;
  const command = installCommand(here, driver_packages, "NVIDIA's driver");
  if (here.packages === 'apt') return `${command}   (from Debian's non-free component)`;
  return here.packages === 'dnf' ? `${command}   (from RPM Fusion)` : command;
}

function addresses(cards: PciDisplay[]): string {
  return cards.map((card) => card.address).join(', ');
}

function missing(message: string, fix: string): Finding {
  return { check: 'gpu', status: 'missing', message, fix };
}
