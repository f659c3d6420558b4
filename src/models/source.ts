/**
 * Where the file of a model comes from: the catalog, or a file of this machine.
 *
 * Invariants: `parseModelName` is pure, so that a request is refused before anything is placed; a
 * path is resolved through all links before it is judged, and only a regular file that can be read
 * counts (a device or a pipe would block or never end). Nothing here looks inside the file: the
 * validator does.
 */
import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installFailure } from '../core/install-failure.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { Clock } from '../lib/clock.ts';
import { isErrno } from '../lib/files.ts';
import type { Random } from '../lib/random.ts';
import { buildFor, installedWheel, installWheel } from '../lib/wheel.ts';
import { type BuiltinModel, findBuiltin } from './builtin.ts';

export type ModelName =
  | { kind: 'catalog'; name: string }
  | { kind: 'file'; path: string }
  /** A source that Einsora does not fetch from. */
  | { kind: 'unsupported'; scheme: string }
  /** Neither in the catalog nor a path. */
  | { kind: 'unknown' }
  /** Meant as a path, but it can be none. */
  | { kind: 'invalid'; problem: string };

const known_schemes = ['hf', 'huggingface', 'http', 'https', 'ollama', 'oci', 'docker', 's3', 'gs'];

/** What a model given by name, path or URL means. */
export function parseModelName(text: string): ModelName {
  if (text.includes('\0')) return { kind: 'invalid', problem: 'the path holds a NUL' };
  if (text.startsWith('/')) return { kind: 'file', path: text };
  if (/^file:/i.test(text)) return parseFileUrl(text);
  if (findBuiltin(text) !== null) return { kind: 'catalog', name: text };
  const [, scheme = '', slashes] = /^([a-z][a-z0-9+.-]*):(\/\/)?/i.exec(text) ?? [];
  const is_scheme = slashes !== undefined || known_schemes.includes(scheme.toLowerCase());
  return is_scheme ? { kind: 'unsupported', scheme: scheme.toLowerCase() } : { kind: 'unknown' };
}

function parseFileUrl(text: string): ModelName {
  if (!/^file:\/\/(localhost)?\//i.test(text)) {
    return { kind: 'invalid', problem: 'a file URL is file:// and an absolute path' };
  }
  try {
    const url = new URL(text);
    if (url.search !== '' || url.hash !== '') {
      return { kind: 'invalid', problem: 'write ? and # of a file name as %3F and %23' };
    }
    const path = fileURLToPath(url);
    if (path.includes('\0')) return { kind: 'invalid', problem: 'the path holds a NUL' };
    return { kind: 'file', path };
  } catch {
    return { kind: 'invalid', problem: 'the file URL cannot be decoded' };
  }
}

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
};

export type ResolvedModel =
  /** `path` is free of links. */
  { ok: true; path: string; name: string } | { ok: false; code: ReasonCode; details: Details };

/** The file of a model on this machine, fetched first where it is of the catalog and not here. */
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
    case 'catalog': {
      const builtin = findBuiltin(parsed.name);
      return builtin === null ? fail('unknown_model', { model }) : resolveBuiltin(builtin, options);
    }
  }
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
