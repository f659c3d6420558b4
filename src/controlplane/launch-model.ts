/**
 * The model of a launch, as far as it is known before anything is recorded.
 *
 * Invariants: a model that its engine does not read is refused before a byte of it is
 * fetched; a file of a machine is for those whose machine it is, and others learn not even whether
 * it is there.
 */
import { EinsoraError } from '../contract/errors.ts';
import type { Launch, Plan } from '../contract/workloads.ts';
import { runtimesOf } from '../core/images.ts';
import { parseModelName } from '../models/source-name.ts';
import { modelFileId } from '../models/store.ts';
import { findModelFile } from '../store/model-files.ts';
import type { ApiDeps } from './api-deps.ts';
import { isOutOfReach, keptModel } from './kept-model.ts';
import type { RemoteModel } from './model-sources.ts';

/** What a hub or a server says of the model; null for what is of neither. */
export async function lookModel(
  deps: ApiDeps,
  tenant_id: string,
  asked: Launch,
): Promise<RemoteModel | null> {
  if (asked.kind !== 'endpoint' || asked.model === undefined) return null;
  const { kind } = parseModelName(asked.model);
  if (kind === 'file' && !(await ownsMachine(deps, tenant_id))) {
    throw new EinsoraError('file_source_refused');
  }
  const remote = await look(deps, tenant_id, asked.model);
  if (remote !== null && remote.format !== formatFor(asked)) {
    const { repo, format } = remote;
    const page = repo === null ? 'at its publisher' : `${deps.hub_url}/models?search=${repo}`;
    throw new EinsoraError('no_engine_for_format', { model: asked.model, format, page });
  }
  return remote;
}

/** What the engine reads that it asks for: vLLM safetensors, all others GGUF. */
function formatFor({ kind, image_id }: Launch): RemoteModel['format'] {
  const runtimes = image_id === undefined ? [] : runtimesOf(kind, image_id);
  return runtimes.some(({ engine }) => engine === 'vllm') ? 'safetensors' : 'gguf';
}

/** Without a hub, what a machine has of the model already will do. */
async function look(deps: ApiDeps, tenant_id: string, model: string): Promise<RemoteModel | null> {
  try {
    return await deps.models.look(tenant_id, model);
  } catch (error) {
    if (!(error instanceof EinsoraError) || !isOutOfReach(error)) throw error;
    const kept = await keptModel(deps.store, tenant_id, model);
    if (kept === null) throw error;
    return kept;
  }
}

async function ownsMachine(deps: ApiDeps, tenant_id: string): Promise<boolean> {
  const machines = await deps.machines.forPlan(tenant_id);
  return machines.some((machine) => machine.owner_tenant_id === tenant_id);
}

/** What a launch would fetch, and the room that there is for it where it would run. */
export async function downloadOf(
  deps: ApiDeps,
  tenant_id: string,
  machine_id: string | null,
  remote: RemoteModel | null,
): Promise<Plan['download']> {
  if (remote === null) return null;
  const { source, revision, bytes, file_count } = remote;
  const free_bytes = machine_id === null ? null : deps.modelSync.freeBytes(machine_id);
  const id = modelFileId(machine_id ?? '', tenant_id, source);
  const kept = await deps.store.read(findModelFile, { tenant_id, id });
  return { source, revision, bytes, file_count, free_bytes, is_here: kept?.state === 'ready' };
}
