/**
 * AMD GPUs: the kernel tells their memory and whether they can compute, amd-smi their names.
 *
 * Invariants: listed, and never called usable: nothing here runs on them yet; processors with small
 * graphics inside are told from GPUs by the memory of their own.
 */
import { plainText } from '../../lib/text.ts';
import type { MachineReader } from './machine-reader.ts';
import { pciAddress } from './nvidia-smi.ts';
import type { PciDisplay } from './pci.ts';

export type AmdGpu = { address: string; model: string; memory_bytes: number };
export type AmdLook = { has_kfd: boolean; gpus: AmdGpu[] };

const timeout_ms = 10_000;
const integrated_bytes = 2 ** 31;

export async function lookAtAmd(reader: MachineReader, cards: PciDisplay[]): Promise<AmdLook> {
  if (cards.length === 0) return { has_kfd: false, gpus: [] };
  const told = await reader.run('amd-smi', ['static', '--asic', '--bus', '--json'], timeout_ms);
  const names = told.outcome === 'exited' ? readNames(told.stdout) : new Map<string, string>();
  const gpus = cards.map(({ address, device_id }) => {
    const memory = reader.read(`/sys/bus/pci/devices/${address}/mem_info_vram_total`);
    return {
      address,
      model: names.get(address) ?? `AMD GPU ${device_id}`.trim(),
      memory_bytes: Math.max(0, Number(memory?.trim()) || 0),
    };
  });
  return { has_kfd: reader.open('/dev/kfd') !== 'missing', gpus };
}

/** Graphics of a processor: some memory of the machine's, and nothing to run models on. */
export function isIntegrated({ memory_bytes }: AmdGpu): boolean {
  return memory_bytes > 0 && memory_bytes <= integrated_bytes;
}

/** Market names by address. */
export function readNames(text: string): Map<string, string> {
  const names = new Map<string, string>();
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    return names;
  }
  // Newer versions wrap the list.
  const entries = Array.isArray(list) ? list : (list as { gpu_data?: unknown } | null)?.gpu_data;
  if (!Array.isArray(entries)) return names;
  for (const entry of entries.slice(0, 64)) {
    const { asic, bus } = (entry ?? {}) as { asic?: unknown; bus?: unknown };
    const name = (asic as { market_name?: unknown } | null)?.market_name;
    const address = pciAddress(String((bus as { bdf?: unknown } | null)?.bdf ?? ''));
    if (typeof name === 'string' && address !== null) {
      names.set(address, plainText(name).slice(0, 100));
    }
  }
  return names;
}
