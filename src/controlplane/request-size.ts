/**
 * Which class a launch is of, and how much of everything that is: GPUs, CPU, memory.
 *
 * Invariants: pure; who names no GPU in any way is given none; a model's weights have to fit into
 * the memory of its GPUs where it runs on some, into its own memory elsewhere; what contradicts
 * itself is refused, never mended.
 */
import { EinsoraError } from '../contract/errors.ts';
import type { Launch } from '../contract/workloads.ts';
import {
  builtin_catalog,
  type Catalog,
  type ClassEntry,
  defaultAmounts,
  findClass,
} from '../core/catalog.ts';
import { formatMemory } from '../core/format.ts';
import { told_share } from '../core/gpus.ts';
import { runtimesOf } from '../core/images.ts';
import type { WorkloadSpec } from '../core/workload.ts';

export type Size = Pick<
  WorkloadSpec,
  | 'accelerator'
  | 'gpu_class'
  | 'gpu_count'
  | 'gpu_memory_bytes'
  | 'gpu_model'
  | 'share_device'
  | 'cpu_millis'
  | 'memory_bytes'
>;
export type Sized = { size: Size; classes_not_chosen: { gpu_class: string; why: string }[] };

/** `model_bytes`: memory that its model needs; null for kinds without one. */
export function sizeOf(
  asked: Launch,
  model_bytes: number | null,
  catalog: Catalog = builtin_catalog,
): Sized {
  const named = asked.gpu_class === undefined ? null : findClass(asked.gpu_class, catalog);
  if (asked.gpu_class !== undefined && named === null) {
    throw new EinsoraError('unknown_class', { class: asked.gpu_class });
  }
  const accelerator = acceleratorOf(asked, named, catalog);
  const gpu_count = gpusOf(asked, accelerator);
  if (accelerator === 'nvidia') return onGpus({ asked, named, gpu_count, model_bytes, catalog });
  const needed = neededOf(asked, model_bytes);
  const chosen = classOf(asked, named, needed, catalog);
  const { cpu_millis, memory_bytes } = chosen;
  return {
    size: {
      ...{ accelerator, gpu_class: chosen.name, gpu_count, cpu_millis, memory_bytes },
      ...{ gpu_memory_bytes: 0, gpu_model: null, share_device: false },
    },
    classes_not_chosen: sameKind(chosen, catalog).map((entry) => ({
      gpu_class: entry.name,
      why: whyNot(asked, entry, needed),
    })),
  };
}

/** Null: whatever the image runs on without a GPU. */
function acceleratorOf(
  asked: Launch,
  named: ClassEntry | null,
  catalog: Catalog,
): 'cpu' | 'nvidia' | 'apple' | null {
  const of_class = named === null || named.accelerator === 'cpu' ? null : named.accelerator;
  const { accelerator, gpu_count = 0, kind, image_id } = asked;
  if (named !== null && accelerator !== undefined && (of_class ?? 'cpu') !== accelerator) {
    const problem = `accelerator: class ${named.name} is for ${named.accelerator}`;
    throw new EinsoraError('bad_request', { problem });
  }
  if (accelerator !== undefined) return accelerator;
  if (of_class !== null) return of_class;
  if (named !== null) return null;
  if (gpu_count > 0 || asked.share_device) return 'nvidia';
  const runtimes = image_id === undefined ? [] : runtimesOf(kind, image_id, catalog.images);
  const is_for_gpus = runtimes.length > 0 && runtimes.every((one) => one.accelerator === 'nvidia');
  return is_for_gpus ? 'nvidia' : null;
}

function gpusOf({ gpu_count, share_device }: Launch, accelerator: string | null) {
  const refuse = (problem: string) => new EinsoraError('bad_request', { problem });
  const on_gpus = accelerator === 'nvidia';
  const count = gpu_count ?? (on_gpus ? 1 : 0);
  if (on_gpus && count === 0) throw refuse('gpu_count: on nvidia it needs one at least');
  if (!on_gpus && count > 0) throw refuse(`gpu_count: ${accelerator ?? 'cpu'} has none to count`);
  if (share_device && count !== 1) throw refuse('share_device: it is one GPU that can be shared');
  return count;
}

type OnGpus = {
  asked: Launch;
  named: ClassEntry | null;
  gpu_count: number;
  model_bytes: number | null;
  catalog: Catalog;
};

function onGpus({ asked, named, gpu_count, model_bytes, catalog }: OnGpus): Sized {
  const of_each = Math.ceil((model_bytes ?? 0) / gpu_count);
  const chosen = named ?? gpuClassFor(of_each, catalog);
  const { gpu_memory_bytes: sold, gpu_model } = chosen;
  if (sold > 0 && of_each > sold) {
    const offered = formatMemory(sold * gpu_count);
    const details = { class: chosen.name, offered, needed: formatMemory(model_bytes ?? 0) };
    throw new EinsoraError('class_too_small', details);
  }
  return {
    size: {
      ...{ accelerator: 'nvidia', gpu_class: chosen.name, gpu_count, gpu_model },
      gpu_memory_bytes: Math.max(Math.floor(sold * told_share), of_each),
      share_device: asked.share_device ?? false,
      // What stands beside the GPUs is for the asking: no class is another machine.
      cpu_millis: asked.cpu_millis ?? chosen.cpu_millis,
      memory_bytes: asked.memory_bytes ?? chosen.memory_bytes,
    },
    classes_not_chosen: sameKind(chosen, catalog).map((entry) => ({
      gpu_class: entry.name,
      why: whyNotGpu(asked, entry, of_each),
    })),
  };
}

/** Any GPU will do that holds it; where an operator has no such class, the smallest that does. */
function gpuClassFor(of_each: number, { classes }: Catalog): ClassEntry {
  const all = classes.filter(({ accelerator }) => accelerator === 'nvidia');
  const holds = all.filter((one) => one.gpu_memory_bytes === 0 || one.gpu_memory_bytes >= of_each);
  const [best] = holds.sort((a, b) => a.gpu_memory_bytes - b.gpu_memory_bytes);
  if (best !== undefined) return best;
  const most = Math.max(0, ...all.map((one) => one.gpu_memory_bytes));
  const offered = most === 0 ? 'none' : formatMemory(most);
  const details = { class: 'The largest class with a GPU', offered, needed: formatMemory(of_each) };
  throw new EinsoraError('class_too_small', details);
}

function sameKind({ name, accelerator }: ClassEntry, { classes }: Catalog): ClassEntry[] {
  return classes.filter((entry) => entry.name !== name && entry.accelerator === accelerator);
}

function whyNotGpu(asked: Launch, entry: ClassEntry, of_each: number): string {
  if (asked.gpu_class !== undefined) return `${asked.gpu_class} was asked for`;
  const is_small = entry.gpu_memory_bytes > 0 && entry.gpu_memory_bytes < of_each;
  return is_small
    ? `too small: the model needs about ${formatMemory(of_each)}`
    : 'more particular than needed';
}

/** What a class must have: what was said, and what the model needs. */
type Needed = { cpu_millis: number; memory_bytes: number; for_model: boolean };

function neededOf(asked: Launch, model_bytes: number | null): Needed {
  const least = model_bytes ?? asked.memory_bytes ?? defaultAmounts(asked.kind).memory_bytes;
  const memory_bytes = Math.max(least, asked.memory_bytes ?? 0);
  return {
    cpu_millis: asked.cpu_millis ?? 0,
    memory_bytes,
    for_model: model_bytes !== null && memory_bytes === model_bytes,
  };
}

function classOf(
  asked: Launch,
  named: ClassEntry | null,
  needed: Needed,
  catalog: Catalog,
): ClassEntry {
  if (named !== null) {
    if (isEnough(named, needed)) return named;
    throw tooSmall(named.name, named, needed);
  }
  const { region } = asked;
  const may = (entry: ClassEntry) =>
    entry.accelerator === 'cpu' &&
    (region === undefined || !entry.regions || entry.regions.includes(region));
  const classes = catalog.classes.filter(may);
  const smallest = classes
    .filter((entry) => isEnough(entry, needed))
    .sort((a, b) => a.memory_bytes - b.memory_bytes || a.cpu_millis - b.cpu_millis)[0];
  if (smallest !== undefined) return smallest;
  const cpu_millis = Math.max(0, ...classes.map((entry) => entry.cpu_millis));
  const memory_bytes = Math.max(0, ...classes.map((entry) => entry.memory_bytes));
  throw tooSmall('The largest class', { cpu_millis, memory_bytes }, needed);
}

type Amount = Pick<ClassEntry, 'cpu_millis' | 'memory_bytes'>;

function isEnough(size: Amount, needed: Needed): boolean {
  return size.memory_bytes >= needed.memory_bytes && size.cpu_millis >= needed.cpu_millis;
}

function tooSmall(name: string, size: Amount, needed: Needed): EinsoraError {
  const sized = ({ cpu_millis, memory_bytes }: Amount) =>
    needed.cpu_millis === 0
      ? formatMemory(memory_bytes)
      : `${cpu_millis / 1000} CPU and ${formatMemory(memory_bytes)}`;
  const details = { class: name, offered: sized(size), needed: sized(needed) };
  return new EinsoraError(needed.for_model ? 'class_too_small' : 'class_too_small_for', details);
}

function whyNot(asked: Launch, entry: ClassEntry, needed: Needed): string {
  if (asked.gpu_class !== undefined) return `${asked.gpu_class} was asked for`;
  if (entry.memory_bytes < needed.memory_bytes && needed.for_model) {
    return `too small: the model needs about ${formatMemory(needed.memory_bytes)}`;
  }
  if (!isEnough(entry, needed)) return 'too small for what was asked for';
  return 'larger than needed';
}
