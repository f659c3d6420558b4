/**
 * One look at a machine's GPUs: the bus and the kernel first, then the tools.
 *
 * Invariants: looks and changes nothing; tools run out of process, each with a deadline; the short
 * look asks only what changes from minute to minute and takes the rest from the last long one; on a
 * machine without NVIDIA's cards next to nothing is run.
 */
import type { Engine } from '../../drivers/docker/engine.ts';
import { plainText } from '../../lib/text.ts';
import { type AmdLook, lookAtAmd } from './amd.ts';
import type { Distribution } from './distribution.ts';
import { type Containers, lookAtContainers, ourContainers } from './gpu-containers.ts';
import type { GpuSnapshot, KnownGpu } from './gpu-snapshot.ts';
import type { KernelLog } from './kernel-log.ts';
import type { MachineReader } from './machine-reader.ts';
import { readModule } from './nvidia-kernel.ts';
import { askInstances, type MigInstance } from './nvidia-mig.ts';
import { askPrograms, foreignPrograms } from './nvidia-programs.ts';
import { askFields, askNvidia, type NvidiaAnswer, nvidia_timeout_ms } from './nvidia-smi.ts';
import { type Bus, listDisplays } from './pci.ts';
import { virtualMachine } from './virtual-machine.ts';

export type GpuFacts = {
  /** Docker's engine, where there may be one. */
  engine: Pick<Engine, 'version' | 'json'> | null;
};

/** What is kept from look to look. */
export type Kept = {
  known: KnownGpu[];
  memory_bytes: number;
  readKernelLog: (reader: MachineReader) => Promise<KernelLog>;
};

export type LongLook = {
  fields: string[] | null;
  secure_boot: boolean;
  instances: MigInstance[] | null;
  amd: AmdLook;
};

const quiet: KernelLog = { unread: null, gpus: {} };

/** `before`: the last long look, to make this a short one. */
export async function lookAtGpus(
  reader: MachineReader,
  here: Distribution,
  facts: GpuFacts,
  kept: Kept,
  before: LongLook | null,
): Promise<{ snapshot: GpuSnapshot; long: LongLook }> {
  const bus = listDisplays(reader);
  const module = readModule(reader);
  const cards = bus.displays.filter((one) => one.vendor === 'nvidia');
  // A tool that was silent is asked again.
  const fields = before?.fields ?? (await askFields(reader));
  const [nvidia, log] = await Promise.all([
    askNvidia(
      reader,
      fields,
      cards.map((card) => card.address),
    ),
    cards.length > 0 || module !== null ? kept.readKernelLog(reader) : quiet,
  ]);
  const has_any = nvidia.rows.length > 0;
  const [long, programs, containers] = await Promise.all([
    before ?? lookLong(reader, fields, nvidia, bus, module !== null),
    has_any ? askPrograms(reader) : null,
    has_any ? lookAtContainers(reader, facts.engine) : no_containers,
  ]);
  const ours = programs === null || programs.length === 0 ? [] : await ourContainers(facts.engine);
  const snapshot: GpuSnapshot = {
    ...{ here, bus, module, nvidia, log, known: kept.known, memory_bytes: kept.memory_bytes },
    inside: virtualMachine(reader.read),
    is_wsl: isWsl(reader),
    board: boardOf(reader),
    ...{ secure_boot: long.secure_boot, instances: long.instances, amd: long.amd },
    containers,
    foreign: foreignPrograms(reader, programs ?? [], ours),
  };
  return { snapshot, long };
}

async function lookLong(
  reader: MachineReader,
  fields: string[] | null,
  nvidia: NvidiaAnswer,
  bus: Bus,
  is_loaded: boolean,
): Promise<LongLook> {
  const cards = bus.displays.filter((one) => one.vendor === 'nvidia');
  const has_mig = nvidia.rows.some((row) => row.mig === 'enabled');
  const [mokutil, instances, amd] = await Promise.all([
    cards.length > 0 && !is_loaded
      ? reader.run('mokutil', ['--sb-state'], nvidia_timeout_ms)
      : null,
    has_mig ? askInstances(reader, nvidia.rows) : [],
    lookAtAmd(
      reader,
      bus.displays.filter((one) => one.vendor === 'amd'),
    ),
  ]);
  const secure_boot = mokutil?.stdout.includes('SecureBoot enabled') === true;
  return { fields, secure_boot, instances, amd };
}

const no_containers: Containers = { engine: null, toolkit: null, specs: [] };

function isWsl(reader: Pick<MachineReader, 'read'>): boolean {
  return /microsoft/i.test(reader.read('/proc/version') ?? '');
}

/** Of boards with an NVIDIA GPU beside the processor, which is on no bus. */
function boardOf(reader: Pick<MachineReader, 'read'>): string | null {
  const name = plainText(reader.read('/proc/device-tree/model') ?? '').trim();
  return /jetson|orin|xavier|nvidia/i.test(name) ? name.slice(0, 100) : null;
}
