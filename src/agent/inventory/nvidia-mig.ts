/**
 * The instances into which MIG cuts GPUs: each a device of its own.
 *
 * Invariants: names come from `nvidia-smi -L`, memory from `nvidia-smi -q -x` by the instance's
 * number; where either cannot be read the instance stays, with what is known of it.
 */
import { plainText } from '../../lib/text.ts';
import type { MachineReader } from './machine-reader.ts';
import { nvidia_timeout_ms, pciAddress } from './nvidia-smi.ts';

export type MigInstance = {
  uuid: string;
  /** Of the GPU that it is a part of. */
  gpu_uuid: string;
  /** Such as "3g.20gb". */
  profile: string;
  /** Its number on that GPU. */
  index: number;
  memory_bytes: number;
};

const most_instances = 64;

/** Null where the tool did not say. */
export async function askInstances(
  reader: MachineReader,
  gpus: readonly { uuid: string; pci: string | null }[],
): Promise<MigInstance[] | null> {
  const [list, details] = await Promise.all([
    reader.run('nvidia-smi', ['-L'], nvidia_timeout_ms),
    reader.run('nvidia-smi', ['-q', '-x'], nvidia_timeout_ms),
  ]);
  if (list.outcome !== 'exited' || list.code !== 0) return null;
  const memory = parseMemory(details.outcome === 'exited' ? details.stdout : '');
  return parseInstances(list.stdout).map((one) => {
    const pci = gpus.find((gpu) => gpu.uuid === one.gpu_uuid)?.pci ?? '';
    return { ...one, memory_bytes: memory.get(`${pci} ${one.index}`) ?? 0 };
  });
}

export function parseInstances(text: string): Omit<MigInstance, 'memory_bytes'>[] {
  const found: Omit<MigInstance, 'memory_bytes'>[] = [];
  let gpu_uuid: string | null = null;
  for (const line of plainText(text).split('\n')) {
    const gpu = /^GPU \d+:.*\(UUID: (GPU-[\w-]{1,80})\)/.exec(line)?.[1];
    if (gpu !== undefined) {
      gpu_uuid = gpu;
      continue;
    }
    const [, profile, index, uuid] =
      /^\s+MIG (\S{1,32})\s+Device\s+(\d{1,3}):\s*\(UUID: (MIG-[\w/-]{1,90})\)/.exec(line) ?? [];
    if (gpu_uuid === null || profile === undefined || uuid === undefined) continue;
    found.push({ uuid, gpu_uuid, profile, index: Number(index) });
  }
  return found.slice(0, most_instances);
}

/** By "<address> <number>". */
export function parseMemory(xml: string): Map<string, number> {
  const memory = new Map<string, number>();
  for (const gpu of xml.split('<gpu id="').slice(1)) {
    const pci = pciAddress(gpu.slice(0, gpu.indexOf('"')));
    for (const device of gpu.split('<mig_device>').slice(1)) {
      const index = /<index>(\d{1,3})<\/index>/.exec(device)?.[1];
      const total = /<fb_memory_usage>[\s\S]{0,200}?<total>(\d{1,9}) MiB<\/total>/.exec(
        device,
      )?.[1];
      if (pci === null || index === undefined || total === undefined) continue;
      memory.set(`${pci} ${Number(index)}`, Number(total) * 2 ** 20);
    }
  }
  return memory;
}
