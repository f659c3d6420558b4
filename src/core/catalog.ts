/**
 * The catalog: classes (sizes of request) and models that come with Einsora.
 *
 * Invariants: names are stable, they stand in people's scripts; a class has the accelerator kind
 * that it runs on; bytes and hashes of a model are those of the pinned package, so a disk check can
 * come before a download.
 */
import type { Amounts, Kind } from './workload.ts';

export type ClassEntry = {
  name: string;
  accelerator: 'cpu' | 'nvidia' | 'apple';
  delivery: 'native' | 'container' | 'passthrough';
  cpu_millis: number;
  memory_bytes: number;
  /** What a second of it weighs in fair share. */
  weight: number;
};

const gib = 2 ** 30;

export const classes: readonly ClassEntry[] = [
  cpuClass(1, 2),
  cpuClass(2, 4),
  cpuClass(4, 8),
  cpuClass(4, 16),
  cpuClass(8, 32),
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

export function findClass(name: string): ClassEntry | null {
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
export function smallestClass(memory_bytes: number): ClassEntry | null {
  return classes.find((entry) => entry.memory_bytes >= memory_bytes) ?? null;
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
    weight: cores,
  };
}
