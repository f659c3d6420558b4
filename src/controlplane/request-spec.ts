/**
 * From what was asked to a complete request: every default filled in, bad input refused early.
 *
 * Invariants: pure but for the size of a local model file, which is asked for by argument; a spec
 * that comes out can be placed as it is.
 */
import { EinsoraError } from '../contract/errors.ts';
import type { Launch } from '../contract/workloads.ts';
import { builtin_catalog, type Catalog, findModel, modelMemoryBytes } from '../core/catalog.ts';
import { no_extras, type WorkloadSpec } from '../core/workload.ts';
import { parseModelName } from '../models/source-name.ts';
import type { RemoteModel } from './model-sources.ts';
import { extrasOf } from './request-extras.ts';
import { sizeOf } from './request-size.ts';

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
  catalog: Catalog = builtin_catalog,
  /** Where nobody said. */
  region = 'local',
): SpecResult {
  const model = modelOf(asked, fileBytes, remote);
  const extras = extrasOf(asked, catalog);
  const { size, classes_not_chosen } = sizeOf(asked, model?.memory_bytes ?? null, catalog);
  const fields: (keyof Launch)[] = ['name', 'region', 'accelerator', 'gpu_class'];
  if (extras.image_id !== null) fields.push('image_id');
  const defaults = fields.filter((field) => asked[field] === undefined);
  const spec: WorkloadSpec = {
    ...no_extras,
    kind: asked.kind,
    name: asked.name ?? model?.base_name ?? asked.kind,
    region: asked.region ?? region,
    ...size,
    model: model?.model ?? null,
    model_params: asked.model_params ?? {},
    ...extras,
  };
  return {
    spec,
    name_is_free: asked.name === undefined,
    defaults,
    classes_not_chosen,
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
