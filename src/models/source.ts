/**
 * Brings the file of a model to this machine: from the catalog, from a hub or an https server, or
 * it is a file of this machine already.
 *
 * Invariants: a path is resolved through all links before it is judged, and only a regular file
 * that can be read counts (a device or a pipe would block or never end); what was fetched for a
 * tenant is found again by that tenant alone without asking its source. Nothing here looks inside
 * the file: the validator does.
 */
import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { formatBytes } from '../core/format.ts';
import { installFailure } from '../core/install-failure.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { Clock } from '../lib/clock.ts';
import { freeBytes, isErrno } from '../lib/files.ts';
import type { Random } from '../lib/random.ts';
import type { Secret } from '../lib/secret.ts';
import { buildFor, installedWheel, installWheel } from '../lib/wheel.ts';
import { type BuiltinModel, findBuiltin } from './builtin.ts';
import { SourceError } from './source-error.ts';
import { type HubName, parseModelName } from './source-name.ts';
import { planSource, type Sources } from './source-plan.ts';
import { type Manifest, type ModelStore, modelFileId } from './store.ts';
import type { ModelVerdict } from './validate.ts';

/** Of whom a model is asked for, and what opens hubs to them. */
export type Asker = { tenant_id: string; token: Secret | null };

/** What fetching from hubs and servers needs; null where this program does none. */
export type Fetching = {
  machine_id: string;
  store: ModelStore;
  sources: Sources;
  /** Known only once the control plane has said so, which can be after a restart. */
  asker(signal: AbortSignal): Promise<Asker>;
};

export type ModelSourceOptions = {
  /** Where fetched models are kept. */
  models_folder: string;
  /** `<platform>-<arch>`. */
  platform: string;
  /** The environment that package clients may draw from. */
  env: Record<string, string>;
  clock: Clock;
  random: Random;
  signal: AbortSignal;
  onProgress?: (done_bytes: number, total_bytes: number) => void;
  fetching?: Fetching;
};

export type ResolvedModel =
  /** `path` is free of links; a folder for a model that an engine reads as one. */
  | {
      ok: true;
      path: string;
      name: string;
      manifest?: Manifest;
      /** To be told what the validator said; what it refused is not kept. */
      onChecked?: (verdict: ModelVerdict) => Promise<void>;
    }
  | { ok: false; code: ReasonCode; details: Details };

/** The file of a model on this machine, fetched first where it is not here. */
export async function resolveModel(
  model: string,
  options: ModelSourceOptions,
): Promise<ResolvedModel> {
  const parsed = parseModelName(model);
  switch (parsed.kind) {
    case 'file':
      return resolveFile(parsed.path);
    case 'unsupported':
      return fail('model_source_unsupported', { scheme: parsed.scheme });
    case 'unknown':
      return fail('unknown_model', { model });
    case 'invalid':
      return fail('model_file_unreadable', { why: parsed.problem, path: model });
    case 'hub':
    case 'https':
      return resolveFetched(model, parsed, options);
    case 'catalog': {
      const builtin = findBuiltin(parsed.name);
      return builtin === null ? fail('unknown_model', { model }) : resolveBuiltin(builtin, options);
    }
  }
}

async function resolveFetched(
  model: string,
  name: HubName | { kind: 'https'; url: string },
  { fetching, models_folder, onProgress, signal }: ModelSourceOptions,
): Promise<ResolvedModel> {
  if (fetching === undefined)
    return fail('model_source_unsupported', { scheme: name.kind === 'hub' ? 'hf' : 'https' });
  const { store, sources, machine_id } = fetching;
  try {
    const { tenant_id, token } = await fetching.asker(signal);
    const id = modelFileId(machine_id, tenant_id, model);
    const here = store.find(id);
    if (here !== null) return fetched(store, here);
    const plan = await planSource(sources, name, token, signal);
    const manifest = await store.bring({ id, tenant_id, source: model }, plan, signal, (...bytes) =>
      onProgress?.(...bytes),
    );
    return fetched(store, manifest);
  } catch (error) {
    return failureOf(error, models_folder, signal);
  }
}

/** GGUF is read by its (first) file, safetensors by their folder. */
function fetched(store: ModelStore, manifest: Manifest): ResolvedModel {
  const { format, main } = manifest;
  const path = store.pathOf(manifest, format === 'gguf' ? main : '.');
  return { ok: true, path, name: main.replace(/\.gguf$/i, ''), manifest };
}

function failureOf(error: unknown, folder: string, signal: AbortSignal): ResolvedModel {
  if (signal.aborted) return fail('download_failed', { what: 'It', why: 'it was called off' });
  if (error instanceof SourceError) return fail(error.code, error.details);
  if (isErrno(error, 'ENOSPC') || isErrno(error, 'EDQUOT')) {
    const free = formatBytes(freeBytes(folder));
    return fail('disk_full', { folder, needed: 'more bytes', free });
  }
  throw error;
}

/** What is still to be fetched for a catalog model: 0 where it is here, null where it is none. */
export function missingBytes(
  model: string,
  options: Pick<ModelSourceOptions, 'models_folder' | 'platform'>,
): number | null {
  const builtin = findBuiltin(model);
  if (builtin === null) return null;
  const { pin } = builtin;
  const folder = join(options.models_folder, builtin.name);
  if (installedWheel({ pin, folder, platform: options.platform }) !== null) return 0;
  return buildFor(pin, options.platform)?.bytes ?? null;
}

/** Only the model's file stays of its wheel, so that no bytes are kept twice. */
async function resolveBuiltin(
  builtin: BuiltinModel,
  options: ModelSourceOptions,
): Promise<ResolvedModel> {
  const { models_folder, ...rest } = options;
  const as = 'model.gguf';
  const wheel = await installWheel({
    ...rest,
    pin: builtin.pin,
    folder: join(models_folder, builtin.name),
    keep: { file: builtin.file, as },
  });
  if (!wheel.ok) return installFailure(wheel, 'download_failed');
  return { ok: true, path: join(wheel.path, as), name: builtin.name };
}

async function resolveFile(given: string): Promise<ResolvedModel> {
  const unreadable = (why: string) => fail('model_file_unreadable', { why, path: given });
  try {
    const path = await realpath(given);
    // Without O_NONBLOCK a named pipe would hold us until somebody writes to it.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      if (!(await file.stat()).isFile()) return unreadable('it is no regular file');
    } finally {
      await file.close();
    }
    return { ok: true, path, name: basename(path).replace(/\.gguf$/i, '') };
  } catch (error) {
    return unreadable(whyUnreadable(error));
  }
}

function whyUnreadable(error: unknown): string {
  if (isErrno(error, 'ENOENT') || isErrno(error, 'ENOTDIR')) return 'there is no such file';
  if (isErrno(error, 'EACCES') || isErrno(error, 'EPERM')) return 'permission denied';
  if (isErrno(error, 'ELOOP')) return 'its links lead in a circle';
  // Sockets, and devices without a driver.
  if (isErrno(error, 'ENXIO') || isErrno(error, 'ENODEV')) return 'it is no regular file';
  return error instanceof Error ? error.message : String(error);
}

function fail(code: ReasonCode, details: Details): ResolvedModel {
  return { ok: false, code, details };
}
