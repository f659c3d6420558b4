/**
 * Display controllers on the PCI bus, straight from the kernel: the ground truth that stays when a
 * driver or its tool is broken.
 */
import type { MachineReader } from './machine-reader.ts';

export type PciDisplay = {
  address: string;
  vendor: 'nvidia' | 'amd' | 'intel' | 'other';
  /** The kernel driver bound to it, or null. */
  driver: string | null;
};

const vendors: Record<string, PciDisplay['vendor']> = {
  '0x10de': 'nvidia',
  '0x1002': 'amd',
  '0x8086': 'intel',
};
const bus = '/sys/bus/pci/devices';

/**
 * How many devices the bus has (null where there is no bus to read) and which ones drive displays.
 */
export function listDisplays(reader: Pick<MachineReader, 'read' | 'list' | 'link'>) {
  const addresses = reader.list(bus);
  const displays = addresses.flatMap((address): PciDisplay[] => {
    const folder = `${bus}/${address}`;
    // Class 0x03 is a display controller: VGA, 3D or other. A card's sound function is 0x04.
    if (!reader.read(`${folder}/class`)?.startsWith('0x03')) return [];
    const vendor = vendors[reader.read(`${folder}/vendor`)?.trim() ?? ''] ?? 'other';
    return [
      { address, vendor, driver: reader.link(`${folder}/driver`)?.split('/').at(-1) ?? null },
    ];
  });
  return { devices: addresses.length === 0 ? null : addresses.length, displays };
}
