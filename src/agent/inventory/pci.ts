/**
 * GPUs on the PCI bus and what surrounds them, straight from the kernel: the ground truth that
 * stays when a driver or its tool is broken.
 *
 * Invariants: reads files and runs nothing, so it cannot hang; what cannot be read is null or
 * false.
 */
import type { MachineReader } from './machine-reader.ts';

export type PciMember = {
  address: string;
  /** What it is, for people: "an NVMe disk". */
  what: string;
  driver: string | null;
  is_bridge: boolean;
  is_gpu: boolean;
};

export type PciDisplay = {
  address: string;
  vendor: 'nvidia' | 'amd' | 'intel' | 'other';
  /** The vendor's number of the model, such as "0x2684". */
  device_id: string;
  /** The kernel driver bound to it, or null. */
  driver: string | null;
  /** The firmware drives the machine's first screen with it. */
  is_boot_display: boolean;
  /** The kernel knows a way to reset it between two users. */
  can_reset: boolean;
  /** Connectors with a screen behind them, such as "HDMI-A-1". */
  screens: string[];
  /** The smallest set that can be given away; null where no IOMMU is on. */
  group: { number: string; members: PciMember[] } | null;
};

export type Bus = {
  /** Devices on the bus; null where there is no bus to read. */
  devices: number | null;
  displays: PciDisplay[];
};

type Reader = Pick<MachineReader, 'read' | 'list' | 'link'>;

const vendors: Record<string, PciDisplay['vendor']> = {
  '0x10de': 'nvidia',
  '0x1002': 'amd',
  '0x8086': 'intel',
};
const bus = '/sys/bus/pci/devices';
const groups = '/sys/kernel/iommu_groups';
const drm = '/sys/class/drm';

export function listDisplays(reader: Reader): Bus {
  const addresses = reader.list(bus);
  const screens = listScreens(reader);
  const displays = addresses.flatMap((address): PciDisplay[] => {
    const folder = `${bus}/${address}`;
    if (!isGpu(reader.read(`${folder}/class`))) return [];
    return [
      {
        address,
        vendor: vendors[reader.read(`${folder}/vendor`)?.trim() ?? ''] ?? 'other',
        device_id: (reader.read(`${folder}/device`) ?? '').trim().slice(0, 16),
        driver: driverOf(reader, address),
        is_boot_display: reader.read(`${folder}/boot_vga`)?.trim() === '1',
        can_reset: canReset(reader, folder),
        screens: screens.get(address) ?? [],
        group: groupOf(reader, folder),
      },
    ];
  });
  return { devices: addresses.length === 0 ? null : addresses.length, displays };
}

/** Class 0x03 is a display controller (VGA, 3D or other), 0x12 an accelerator without one. */
function isGpu(text: string | null): boolean {
  return text?.startsWith('0x03') === true || text?.startsWith('0x12') === true;
}

function driverOf(reader: Reader, address: string): string | null {
  return reader.link(`${bus}/${address}/driver`)?.split('/').at(-1) ?? null;
}

/** Kernels since 5.15 list the methods, older ones only have the switch. */
function canReset(reader: Reader, folder: string): boolean {
  const methods = reader.read(`${folder}/reset_method`);
  return methods === null ? reader.list(folder).includes('reset') : methods.trim() !== '';
}

function groupOf(reader: Reader, folder: string): PciDisplay['group'] {
  const number = reader.link(`${folder}/iommu_group`)?.split('/').at(-1);
  if (number === undefined) return null;
  const members = reader.list(`${groups}/${number}/devices`).map((address): PciMember => {
    const text = (reader.read(`${bus}/${address}/class`) ?? '').trim();
    return {
      address,
      what: whatIs(text),
      driver: driverOf(reader, address),
      is_bridge: text.startsWith('0x06'),
      is_gpu: isGpu(text),
    };
  });
  return { number, members };
}

/** By the address of the GPU that drives them. */
function listScreens(reader: Reader): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const name of reader.list(drm)) {
    const [, card, connector] = /^(card\d+)-(.+)$/.exec(name) ?? [];
    if (card === undefined || connector === undefined) continue;
    if (reader.read(`${drm}/${name}/status`)?.trim() !== 'connected') continue;
    const address = reader.link(`${drm}/${card}/device`)?.split('/').at(-1);
    if (address !== undefined) found.set(address, [...(found.get(address) ?? []), connector]);
  }
  return found;
}

const classes: [string, string][] = [
  ['0x03', 'a GPU'],
  ['0x12', 'an accelerator'],
  ['0x0108', 'an NVMe disk'],
  ['0x0106', 'a SATA controller'],
  ['0x01', 'a disk controller'],
  ['0x02', 'a network card'],
  ['0x0403', 'a sound device'],
  ['0x04', 'a media device'],
  ['0x06', 'a bridge'],
  ['0x0c03', 'a USB controller'],
];

function whatIs(text: string): string {
  return classes.find(([start]) => text.startsWith(start))?.[1] ?? 'a device';
}
