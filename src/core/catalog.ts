/**
 * The catalog: classes (sizes of request), images and models. What comes with Einsora is code; an
 * operator adds to it, replaces and retires entries (ADR-0054).
 *
 * Invariants: a catalog is a value, given to whoever decides by it; names are stable, they stand in
 * people's scripts; a class has the accelerator kind that it runs on; bytes and hashes of a model
 * are those of the pinned package, so a disk check can come before a download.
 */
import { builtin_images, type ImageEntry, type ImageSet, imageSet } from './images.ts';
import type { Amounts, Kind } from './workload.ts';

export type ClassEntry = {
  name: string;
  accelerator: 'cpu' | 'nvidia' | 'apple';
  delivery: 'native' | 'container' | 'passthrough';
  cpu_millis: number;
  memory_bytes: number;
  /** Of each GPU, as it is sold: a driver tells up to a tenth less. 0: of any size, or none. */
  gpu_memory_bytes: number;
  /** As `gpuModelName` names it; null: any. */
  gpu_model: string | null;
  /** What a second of it, with one GPU, weighs in fair share. */
  weight: number;
  /** Where it may be asked for; null for everywhere. */
  regions?: readonly string[] | null;
};

const gib = 2 ** 30;

export const classes: readonly ClassEntry[] = [
  cpuClass(1, 2),
  cpuClass(2, 4),
  cpuClass(4, 8),
  cpuClass(4, 16),
  cpuClass(8, 32),
  // What stands beside a GPU is what its runs need to load a model, not a share of its machine.
  nvidiaClass('nvidia-any', { cores: 2, memory_gib: 6, gpu_gib: 0, weight: 10 }),
  nvidiaClass('rtx-3090-24gb', { cores: 4, memory_gib: 12, gpu_gib: 24, weight: 15 }),
  nvidiaClass('rtx-4090-24gb', { cores: 4, memory_gib: 12, gpu_gib: 24, weight: 25 }),
  nvidiaClass('l40s-48gb', { cores: 6, memory_gib: 24, gpu_gib: 48, weight: 40 }),
  nvidiaClass('a100-80gb', { cores: 8, memory_gib: 48, gpu_gib: 80, weight: 60 }),
  nvidiaClass('h100-80gb', { cores: 8, memory_gib: 48, gpu_gib: 80, weight: 100 }),
  nvidiaClass('h200-141gb', { cores: 12, memory_gib: 96, gpu_gib: 141, weight: 120 }),
  // Memory is the machine's own there: this much of it may be the GPU's. Two classes, because a
  // virtual machine's GPU is another one than the Mac's (its features, and its speed).
  appleClass('apple-silicon-32gb', { cores: 4, memory_gib: 20, weight: 8, delivery: 'native' }),
  appleClass('apple-paravirt', { cores: 4, memory_gib: 8, weight: 4, delivery: 'passthrough' }),
];

export type ModelEntry = {
  name: string;
  title: string;
  licence: string;
  format: 'gguf';
  /** Size of the model file. */
  file_bytes: number;
  parameters: string;
  quantization: string;
  context_length: number;
};

export const models: readonly ModelEntry[] = [
  {
    name: 'smollm2-135m',
    title: 'SmolLM2 135M Instruct',
    licence: 'Apache-2.0',
    format: 'gguf',
    file_bytes: 98_362_432,
    parameters: '135M',
    quantization: 'Q4_1',
    context_length: 2048,
  },
];

/** The classes and images of a deployment at one moment. */
export type Catalog = {
  /** Another number after each change by an operator; 0: all as it comes with Einsora. */
  revision: number;
  classes: readonly ClassEntry[];
  images: ImageSet;
};

export const builtin_catalog: Catalog = { revision: 0, classes, images: builtin_images };

/** What an operator said of a name: another entry, or null that there is none of it. */
export type CatalogChange =
  | { sort: 'class'; name: string; entry: ClassEntry | null }
  | { sort: 'image'; name: string; entry: ImageEntry | null };

/** What comes with Einsora, changed: by that name replaced, retired, or added behind the others. */
export function catalogWith(revision: number, changes: readonly CatalogChange[]): Catalog {
  const own = changes.flatMap((one) => (one.sort === 'image' && one.entry ? [one.name] : []));
  const classChanges = changes.filter((one) => one.sort === 'class');
  const imageChanges = changes.filter((one) => one.sort === 'image');
  return {
    revision,
    classes: changed(classes, classChanges),
    images: imageSet(changed(builtin_images.entries, imageChanges), new Set(own)),
  };
}

type Named = { name: string };

function changed<Entry extends Named>(
  builtin: readonly Entry[],
  changes: readonly { name: string; entry: Entry | null }[],
): Entry[] {
  const byName = new Map(changes.map((one) => [one.name, one.entry]));
  const kept = builtin.flatMap((entry) => {
    const given = byName.get(entry.name);
    return given === null ? [] : [given ?? entry];
  });
  const names = new Set(builtin.map(({ name }) => name));
  const added = changes.flatMap(({ name, entry }) =>
    entry === null || names.has(name) ? [] : [entry],
  );
  return [...kept, ...added];
}

/** The catalog with only the classes that may be asked for in a region. */
export function catalogIn(region: string, catalog: Catalog): Catalog {
  const is_here = ({ regions = null }: ClassEntry) => regions === null || regions.includes(region);
  const classes = catalog.classes.filter(is_here);
  return { ...catalog, classes };
}

export function findClass(name: string, { classes } = builtin_catalog): ClassEntry | null {
  return classes.find((entry) => entry.name === name) ?? null;
}

export function findModel(name: string): ModelEntry | null {
  return models.find((entry) => entry.name === name) ?? null;
}

/**
 * Memory that an endpoint needs for a model file, in bytes: the weights, a key-value cache and
 * buffers (an eighth of the weights, 256 MiB at least), and the engine itself.
 */
export function modelMemoryBytes(file_bytes: number): number {
  return file_bytes + Math.max(file_bytes / 8, 256 * 2 ** 20) + 192 * 2 ** 20;
}

/** The smallest CPU class whose memory fits, or null where none does. */
export function smallestClass(
  memory_bytes: number,
  { classes } = builtin_catalog,
): ClassEntry | null {
  return (
    classes.find((entry) => entry.accelerator === 'cpu' && entry.memory_bytes >= memory_bytes) ??
    null
  );
}

/** What a kind asks for where nothing was said, without a model. */
export function defaultAmounts(kind: Kind): Amounts {
  return {
    cpu_millis: 1000,
    memory_bytes: 2 * gib,
    disk_bytes: kind === 'endpoint' ? 0 : 10 * gib,
  };
}

function cpuClass(cores: number, memory_gib: number): ClassEntry {
  return {
    name: `cpu-${cores}c-${memory_gib}g`,
    accelerator: 'cpu',
    delivery: 'native',
    cpu_millis: cores * 1000,
    memory_bytes: memory_gib * gib,
    ...{ gpu_memory_bytes: 0, gpu_model: null },
    weight: cores,
  };
}

type GpuSize = { cores: number; memory_gib: number; weight: number };

/** Named by model and memory, as `gpuClassName` names a GPU. */
function nvidiaClass(name: string, size: GpuSize & { gpu_gib: number }): ClassEntry {
  return {
    ...{ name, accelerator: 'nvidia', delivery: 'container' },
    ...{ cpu_millis: size.cores * 1000, memory_bytes: size.memory_gib * gib },
    gpu_memory_bytes: size.gpu_gib * gib,
    gpu_model: size.gpu_gib === 0 ? null : name.replace(/-\d+gb$/, ''),
    weight: size.weight,
  };
}

function appleClass(
  name: string,
  size: GpuSize & { delivery: ClassEntry['delivery'] },
): ClassEntry {
  return {
    ...{ name, accelerator: 'apple', delivery: size.delivery },
    ...{ cpu_millis: size.cores * 1000, memory_bytes: size.memory_gib * gib },
    ...{ gpu_memory_bytes: 0, gpu_model: null },
    weight: size.weight,
  };
}
