/**
 * GPUs made of fixtures, for the tests of probes: cards on the bus, and the tools' documented forms
 * of output around them.
 */
import type { Engine } from '../../drivers/docker/engine.ts';
import type { ExecResult } from '../../lib/exec.ts';
import { debian, type FixtureMachine, fixtureReader } from './fixture-machine.ts';
import { createGpuWatch, type GpuReport } from './gpu-watch.ts';

export const uuid = 'GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77';
export const other_uuid = 'GPU-9f3c1a2b-0000-4e4e-8888-1f2e3d4c5b6a';
export const version = '580.82.07';
export const at = '0000:01:00.0';

type CardOptions = {
  driver?: string | null;
  address?: string;
  device?: string;
  class?: string;
  group?: string | null;
  boot?: boolean;
  reset?: string | null;
  files?: Record<string, string>;
};

/** A card on the bus, alone with its sound function in an IOMMU group unless told. */
export function card(vendor: string, options: CardOptions = {}): FixtureMachine {
  const {
    driver = null,
    address = at,
    device = '0x27b8',
    group = '12',
    reset = 'flr bus',
  } = options;
  const sound = address.replace(/0$/, '1');
  const folder = `/sys/bus/pci/devices/${address}`;
  const files: Record<string, string> = {
    [`${folder}/vendor`]: `${vendor}\n`,
    [`${folder}/class`]: `${options.class ?? '0x030000'}\n`,
    [`${folder}/device`]: `${device}\n`,
    [`${folder}/boot_vga`]: options.boot ? '1\n' : '0\n',
    [`/sys/bus/pci/devices/${sound}/vendor`]: `${vendor}\n`,
    [`/sys/bus/pci/devices/${sound}/class`]: '0x040300\n',
    ...(reset === null ? {} : { [`${folder}/reset_method`]: `${reset}\n` }),
    ...options.files,
  };
  const links: Record<string, string> = {};
  if (driver !== null) links[`${folder}/driver`] = `../../../../bus/pci/drivers/${driver}`;
  if (group !== null) {
    links[`${folder}/iommu_group`] = `../../../../kernel/iommu_groups/${group}`;
    files[`/sys/kernel/iommu_groups/${group}/devices/${address}`] = '';
    files[`/sys/kernel/iommu_groups/${group}/devices/${sound}`] = '';
  }
  return { files, links };
}

export function nvidia(options: CardOptions = {}): FixtureMachine {
  return card('0x10de', { driver: 'nvidia', ...options });
}

export const loaded: FixtureMachine = {
  files: {
    '/proc/driver/nvidia/version': `NVRM version: NVIDIA UNIX x86_64 Kernel Module  ${version}  Wed Aug 27 17:23:46 UTC 2025\n`,
  },
};

export function merge(...machines: FixtureMachine[]): FixtureMachine {
  return {
    files: Object.assign({}, ...machines.map((one) => one.files ?? {})),
    links: Object.assign({}, ...machines.map((one) => one.links ?? {})),
    devices: Object.assign({}, ...machines.map((one) => one.devices ?? {})),
    commands: Object.assign({}, ...machines.map((one) => one.commands ?? {})),
  };
}

export type Cells = Record<string, string>;
const sound_cells: Cells = {
  ...{ uuid, 'pci.bus_id': '00000000:01:00.0', name: 'NVIDIA L4', driver_version: version },
  ...{ 'memory.total': '23034', display_active: 'Disabled', display_attached: 'No' },
  ...{ 'mig.mode.current': '[N/A]', persistence_mode: 'Enabled' },
  ...{ 'retired_pages.pending': '[N/A]', 'remapped_rows.pending': '0' },
  ...{ 'remapped_rows.failure': '0', gpu_recovery_action: 'None' },
};
export const cells = (changed: Cells = {}): Cells => ({ ...sound_cells, ...changed });

type Smi = {
  rows?: Cells[];
  /** What the whole query says instead. */
  whole?: Partial<ExecResult>;
  /** What a GPU says that is asked alone, by address. */
  alone?: Record<string, Partial<ExecResult>>;
  help?: Partial<ExecResult>;
  programs?: string;
  list?: string;
  xml?: string;
};

/** nvidia-smi, as its manual documents it. */
export function smi(said: Smi = {}): FixtureMachine {
  const rows = said.rows ?? [cells()];
  const answer = (args: string[]): Partial<ExecResult> => {
    const [first = ''] = args;
    if (first === '--help-query-gpu')
      return said.help ?? { stdout: helpText(Object.keys(sound_cells)) };
    if (first.startsWith('--query-compute-apps')) return { stdout: said.programs ?? '' };
    if (first === '-L') return { stdout: said.list ?? '' };
    if (first === '-q') return { stdout: said.xml ?? '' };
    const fields = (args.find((one) => one.startsWith('--query-gpu=')) ?? '').slice(12).split(',');
    const csv = (row: Cells) => fields.map((field) => row[field] ?? '[N/A]').join(', ');
    if (first === '-i') {
      const alone = said.alone?.[args[1] ?? ''];
      if (alone !== undefined) return alone;
      const row = rows.find((one) => one['pci.bus_id']?.endsWith(args[1] ?? '-'));
      return row === undefined
        ? { code: 6, stdout: 'No devices were found\n' }
        : { stdout: csv(row) };
    }
    return said.whole ?? { stdout: `${rows.map(csv).join('\n')}\n` };
  };
  return { commands: { 'nvidia-smi': answer } };
}

export function helpText(fields: string[]): string {
  const entries = fields.map((field) => `"${field}"\nWhat ${field} is.\n`);
  return `List of valid properties to query for the switch "--query-gpu=":\n\n${entries.join('\n')}`;
}

export const kernel = (...lines: string[]): FixtureMachine => ({
  commands: {
    journalctl: {
      stdout: ['Linux version 6.12.0', ...lines]
        .map((line, n) => `[${100 + n}.000001] desk kernel: ${line}\n`)
        .join(''),
    },
  },
});

/** A specification as `nvidia-ctk cdi generate` writes it. */
export function cdiSpec(names: string[], driver = version): string {
  const devices = names.map(
    (name) => `- name: "${name}"\n  containerEdits:\n    deviceNodes: []\n`,
  );
  return `---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
${devices.join('')}containerEdits:
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.${driver}
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.${driver}
`;
}

export function toolkit(names: string[], options: { driver?: string; version?: string } = {}) {
  const { driver = version, version: own = '1.18.0' } = options;
  return {
    files: { '/etc/cdi/nvidia.yaml': cdiSpec(names, driver) },
    commands: {
      'nvidia-ctk': { stdout: `NVIDIA Container Toolkit CLI version ${own}\ncommit: 1\n` },
    },
  } satisfies FixtureMachine;
}

type Info = { api?: string; info?: Record<string, unknown>; containers?: unknown };

/** An engine that only tells of itself. */
export function engine({
  api = '1.51',
  info = {},
  containers = [],
}: Info = {}): Pick<Engine, 'version' | 'json'> {
  return {
    version: async () => ({ api, engine: '28', product: 'Engine', os: 'linux', kernel: '6' }),
    json: async ({ path }) =>
      path === '/info'
        ? { DockerRootDir: '/var/lib/docker', CDISpecDirs: ['/etc/cdi'], ...info }
        : containers,
  };
}

/** A whole and healthy machine with one L4, its toolkit and its engine. */
export const healthy = (said: Smi = {}): FixtureMachine =>
  merge(nvidia(), loaded, smi(said), toolkit(['0', uuid, 'all']), kernel());

export const memory_bytes = 128 * 2 ** 30;

/** What one look says. */
export function look(
  machine: FixtureMachine,
  docker: Pick<Engine, 'version' | 'json'> | null = engine(),
): Promise<GpuReport> {
  const ask = { anew: true, memory_bytes };
  return createGpuWatch({ engine: docker }).look(fixtureReader(machine), debian, ask);
}
