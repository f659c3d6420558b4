/**
 * From what was asked to a complete request: every default filled in, bad input refused early.
 *
 * Invariants: pure but for the size of a local model file, which is asked for by argument; a spec
 * that comes out can be placed as it is.
 */
import { EinsoraError } from '../contract/errors.ts';
import type { Launch } from '../contract/workloads.ts';
import {
  type ClassEntry,
  classes,
  defaultAmounts,
  findClass,
  findModel,
  modelMemoryBytes,
} from '../core/catalog.ts';
import { formatMemory } from '../core/format.ts';
import { no_extras, type WorkloadSpec } from '../core/workload.ts';
import { parseModelName } from '../models/source-name.ts';
import type { RemoteModel } from './model-sources.ts';
import { extrasOf } from './request-extras.ts';

export type SpecResult = {
  spec: WorkloadSpec;
  name_is_free: boolean;
  /** Fields of the spec that nobody asked for. */
  defaults: string[];
  classes_not_chosen: { gpu_class: string; why: string }[];
};

/**
 * `fileBytes` gives the size of a local file, or null where there is none; `remote` is what a hub
 * or a server said of the model.
 */
export function completeSpec(
  asked: Launch,
  fileBytes: (path: string) => number | null,
  remote: RemoteModel | null = null,
): SpecResult {
  const model = modelOf(asked, fileBytes, remote);
  const extras = extrasOf(asked);
  const needed = neededOf(asked, model);
  const chosen = classOf(asked, needed);
  const fields: (keyof Launch)[] = ['name', 'region', 'accelerator', 'gpu_class'];
  if (extras.image_id !== null) fields.push('image_id');
  const defaults = fields.filter((field) => asked[field] === undefined);
  const spec: WorkloadSpec = {
    ...no_extras,
    kind: asked.kind,
    name: asked.name ?? model?.base_name ?? asked.kind,
    region: asked.region ?? 'local',
    accelerator: asked.accelerator ?? null,
    gpu_class: chosen.name,
    gpu_count: asked.gpu_count ?? 0,
    cpu_millis: chosen.cpu_millis,
    memory_bytes: chosen.memory_bytes,
    model: model?.model ?? null,
    model_params: asked.model_params ?? {},
    ...extras,
  };
  return {
    spec,
    name_is_free: asked.name === undefined,
    defaults,
    classes_not_chosen: notChosen(asked, chosen, needed),
  };
}

/** What a class must have: what was said, and what the model needs. */
type Needed = { cpu_millis: number; memory_bytes: number; for_model: boolean };

function neededOf(asked: Launch, model: ModelFacts | null): Needed {
  const least =
    model?.memory_bytes ?? asked.memory_bytes ?? defaultAmounts(asked.kind).memory_bytes;
  const memory_bytes = Math.max(least, asked.memory_bytes ?? 0);
  return {
    cpu_millis: asked.cpu_millis ?? 0,
    memory_bytes,
    for_model: model !== null && memory_bytes === model.memory_bytes,
  };
}

type ModelFacts = { model: string; base_name: string; memory_bytes: number };

function modelOf(
  asked: Launch,
  fileBytes: (path: string) => number | null,
  remote: RemoteModel | null,
): ModelFacts | null {
  if (asked.kind !== 'endpoint') return null;
  if (asked.model === undefined) {
    throw new EinsoraError('bad_request', { problem: 'an endpoint needs a model' });
  }
  if (remote !== null) {
    const { source, main, bytes } = remote;
    const base_name = nameFromPath(main.replace(/-\d{5}-of-\d{5}(?=\.gguf$)/i, ''));
    return { model: source, base_name, memory_bytes: modelMemoryBytes(bytes) };
  }
  const parsed = parseModelName(asked.model);
  if (parsed.kind === 'unsupported') {
    throw new EinsoraError('model_source_unsupported', { scheme: parsed.scheme });
  }
  if (parsed.kind === 'hub' || parsed.kind === 'https') {
    throw new Error('what a hub or a server says of a model comes first');
  }
  if (parsed.kind === 'file') {
    const bytes = fileBytes(parsed.path);
    if (bytes === null) throw new EinsoraError('unknown_model', { model: asked.model });
    const base_name = nameFromPath(parsed.path);
    return { model: asked.model, base_name, memory_bytes: modelMemoryBytes(bytes) };
  }
  if (parsed.kind === 'invalid') {
    throw new EinsoraError('bad_request', { problem: `model: ${parsed.problem}` });
  }
  const entry = parsed.kind === 'catalog' ? findModel(parsed.name) : null;
  if (entry === null) throw new EinsoraError('unknown_model', { model: asked.model });
  const memory_bytes = modelMemoryBytes(entry.file_bytes);
  return { model: entry.name, base_name: entry.name, memory_bytes };
}

function classOf(asked: Launch, needed: Needed): ClassEntry {
  if (asked.gpu_class === undefined) {
    const smallest = classes.find((entry) => isEnough(entry, needed));
    if (smallest !== undefined) return smallest;
    const cpu_millis = Math.max(...classes.map((entry) => entry.cpu_millis));
    const memory_bytes = Math.max(...classes.map((entry) => entry.memory_bytes));
    throw tooSmall('The largest class', { cpu_millis, memory_bytes }, needed);
  }
  const named = findClass(asked.gpu_class);
  if (named === null) throw new EinsoraError('unknown_class', { class: asked.gpu_class });
  if (isEnough(named, needed)) return named;
  throw tooSmall(named.name, named, needed);
}

type Size = Pick<ClassEntry, 'cpu_millis' | 'memory_bytes'>;

function isEnough(size: Size, needed: Needed): boolean {
  return size.memory_bytes >= needed.memory_bytes && size.cpu_millis >= needed.cpu_millis;
}

function tooSmall(name: string, size: Size, needed: Needed): EinsoraError {
  const sized = ({ cpu_millis, memory_bytes }: Size) =>
    needed.cpu_millis === 0
      ? formatMemory(memory_bytes)
      : `${cpu_millis / 1000} CPU and ${formatMemory(memory_bytes)}`;
  const details = { class: name, offered: sized(size), needed: sized(needed) };
  return new EinsoraError(needed.for_model ? 'class_too_small' : 'class_too_small_for', details);
}

function notChosen(asked: Launch, chosen: ClassEntry, needed: Needed) {
  return classes
    .filter((entry) => entry.name !== chosen.name)
    .map((entry) => ({ gpu_class: entry.name, why: whyNot(asked, entry, needed) }));
}

function whyNot(asked: Launch, entry: ClassEntry, needed: Needed): string {
  if (asked.gpu_class !== undefined) return `${asked.gpu_class} was asked for`;
  if (entry.memory_bytes < needed.memory_bytes && needed.for_model) {
    return `too small: the model needs about ${formatMemory(needed.memory_bytes)}`;
  }
  if (!isEnough(entry, needed)) return 'too small for what was asked for';
  return 'larger than needed';
}

/** `/models/Qwen 3 (Q4).gguf` gives `qwen-3-q4`. */
function nameFromPath(path: string): string {
  const base = path.split('/').at(-1) ?? '';
  const name = base
    .replace(/\.gguf$/i, '')
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/^[.-]+|[.-]+$/g, '')
    .slice(0, 56)
    .replace(/[.-]+$/, '');
  return name || 'model';
}
