/**
 * The models of this machine: each a folder of links to checked contents, with a manifest that says
 * where it came from.
 *
 * Invariants: a folder is there whole or not at all; the same content is on the disk once, however
 * many models have it; a model that is removed takes with it what nobody else has, and what had
 * come of it; who asked is part of a model's id, so that nobody gets another tenant's without
 * asking its source.
 */
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { link, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { isErrno, readIfThere, syncFolder, writeDurably } from '../lib/files.ts';
import { digest } from '../lib/secret.ts';
import { findBuiltin } from './builtin.ts';
import type { Downloads } from './download.ts';
import { contentKey, type DownloadsOptions, isHeld } from './download-files.ts';
import { isPlainPath } from './shards.ts';
import type { SourcePlan } from './source-plan.ts';

const manifestSchema = z.object({
  id: z.string(),
  /** Who asked for it. */
  tenant_id: z.string(),
  /** As it was asked for. */
  source: z.string(),
  revision: z.string().nullable(),
  format: z.enum(['gguf', 'safetensors']),
  main: z.string(),
  files: z.array(z.object({ name: z.string(), bytes: z.number(), sha256: z.string() })),
  fetched_at: z.number(),
});
export type Manifest = z.infer<typeof manifestSchema>;

/** A model that is not whole yet: what is to come, to be found again by its keys. */
const pendingSchema = z.object({
  id: z.string(),
  tenant_id: z.string(),
  source: z.string(),
  bytes: z.number(),
  keys: z.array(z.string()),
});

export type ModelStore = {
  /** A whole model, or null. */
  find(id: string): Manifest | null;
  list(): Manifest[];
  pathOf(manifest: Manifest, name: string): string;
  /** Brings what is missing of a model. `onProgress` counts over all its files. */
  bring(
    wanted: Wanted,
    plan: SourcePlan,
    signal: AbortSignal,
    onProgress: (done_bytes: number, total_bytes: number) => void,
  ): Promise<Manifest>;
  remove(id: string): Promise<void>;
  /** Removes what was begun and left, and contents that belong to nothing, once they are old. */
  sweep(): Promise<void>;
};

export type Wanted = Pick<Manifest, 'id' | 'tenant_id' | 'source'>;

const leftover_ms = 7 * 24 * 3600_000;

/**
 * The id of a model of a tenant on a machine: 26 characters, the same on both ends. Models of the
 * catalog are nobody's: they have one id for every tenant.
 */
export function modelFileId(machine_id: string, tenant_id: string, source: string): string {
  const whose = findBuiltin(source) === null ? tenant_id : '';
  return digest(JSON.stringify([machine_id, whose, source])).slice(0, 26);
}

export function createModelStore(options: DownloadsOptions, downloads: Downloads): ModelStore {
  const context: Context = { ...options, downloads };
  return {
    find: (id) => readManifest(context, id),
    list: () => listManifests(context),
    pathOf: (manifest, name) => join(options.folder, 'sets', manifest.id, name),
    bring: (wanted, plan, signal, onProgress) => bring(context, wanted, plan, signal, onProgress),
    remove: (id) => remove(context, id),
    sweep: () => sweep(context),
  };
}

type Context = DownloadsOptions & { downloads: Downloads };

/** An id comes from elsewhere: as a path it is used only in the form that ids have. */
function setFolder({ folder }: Context, id: string): string {
  if (!/^\w+$/.test(id)) throw new Error('an id of a model that is none');
  return join(folder, 'sets', id);
}

function readManifest(context: Context, id: string): Manifest | null {
  try {
    const folder = setFolder(context, id);
    const manifest = manifestSchema.parse(
      JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')),
    );
    const whole = manifest.files.every(
      ({ name, bytes }) => isPlainPath(name) && statSync(join(folder, name)).size === bytes,
    );
    const has_main = manifest.files.some(({ name }) => name === manifest.main);
    return whole && has_main && manifest.id === id ? manifest : null;
  } catch {
    return null; // Not there, or damaged: then it is brought again.
  }
}

function listManifests(context: Context): Manifest[] {
  return names(join(context.folder, 'sets'))
    .map((id) => readManifest(context, id))
    .filter((one) => one !== null);
}

async function bring(
  context: Context,
  wanted: Wanted,
  plan: SourcePlan,
  signal: AbortSignal,
  onProgress: (done_bytes: number, total_bytes: number) => void,
): Promise<Manifest> {
  const { folder, downloads } = context;
  setFolder(context, wanted.id);
  await mkdir(join(folder, 'pending'), { recursive: true, mode: 0o700 });
  await downloads.ensureRoom(plan.main, plan.files);
  const keys = plan.files.map(contentKey);
  const pending = join(folder, 'pending', `${wanted.id}.json`);
  writeDurably(pending, JSON.stringify({ ...wanted, bytes: plan.bytes, keys }));
  let before = 0;
  const files: Manifest['files'] = [];
  const contents: string[] = [];
  for (const file of plan.files) {
    const progress = (done: number) => onProgress(before + done, plan.bytes);
    const content = await downloads.fetch(plan, file, signal, progress);
    before += file.bytes;
    onProgress(before, plan.bytes);
    files.push({ name: file.name, bytes: file.bytes, sha256: content.sha256 });
    contents.push(content.path);
  }
  const { revision, format, main } = plan;
  const fetched_at = context.net.clock.now();
  const manifest = { ...wanted, revision, format, main, files, fetched_at };
  await putInPlace(context, manifest, contents);
  rmSync(pending, { force: true });
  return manifest;
}

/** One rename makes a model of links; what stood there before goes. */
async function putInPlace(context: Context, manifest: Manifest, contents: string[]): Promise<void> {
  const target = setFolder(context, manifest.id);
  const unique = Buffer.from(context.random.bytes(6)).toString('hex');
  const draft = join(context.folder, 'sets', `.${manifest.id}.${unique}`);
  const aside = `${draft}.old`;
  try {
    await mkdir(draft, { recursive: true, mode: 0o700 });
    for (const [index, { name }] of manifest.files.entries()) {
      const path = join(draft, name);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await link(contents[index] ?? '', path);
    }
    await writeFile(join(draft, 'manifest.json'), JSON.stringify(manifest), { mode: 0o600 });
    await rename(target, aside).catch((error: unknown) => {
      if (!isErrno(error, 'ENOENT')) throw error;
    });
    await rename(draft, target);
    syncFolder(dirname(target));
  } finally {
    await rm(draft, { recursive: true, force: true });
    await rm(aside, { recursive: true, force: true });
  }
}

async function remove(context: Context, id: string): Promise<void> {
  const { folder, downloads } = context;
  const target = setFolder(context, id);
  const manifest = readManifest(context, id);
  const pending = readPending(context, id);
  await rm(target, { recursive: true, force: true });
  await rm(join(folder, 'pending', `${id}.json`), { force: true });
  for (const { sha256 } of manifest?.files ?? []) await dropContent(context, sha256);
  const still_wanted = new Set(listPending(context).flatMap(({ keys }) => keys));
  for (const key of pending?.keys ?? []) {
    if (!still_wanted.has(key)) await downloads.discard(key);
  }
}

/** Removes a content that no model has any more. */
async function dropContent({ folder }: Context, sha256: string): Promise<void> {
  const path = join(folder, 'blobs', sha256);
  const links = await stat(path).then(
    (stats) => stats.nlink,
    () => 0,
  );
  if (links === 1) await rm(path, { force: true });
}

function readPending(context: Context, id: string) {
  const text = readIfThere(join(context.folder, 'pending', `${id}.json`));
  if (text === null) return null;
  try {
    return pendingSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

function listPending(context: Context) {
  return names(join(context.folder, 'pending'))
    .map((name) => readPending(context, name.replace(/\.json$/, '')))
    .filter((one) => one !== null);
}

async function sweep(context: Context): Promise<void> {
  const { folder, net } = context;
  const old = (mtime_ms: number) => net.clock.now() - mtime_ms > leftover_ms;
  for (const name of ['partial', 'blobs', 'pending', 'keys']) {
    for (const file of await readdir(join(folder, name)).catch(() => [])) {
      const path = join(folder, name, file);
      const stats = await stat(path).catch(() => null);
      if (stats === null || !old(stats.mtimeMs)) continue;
      const used =
        name === 'blobs' ? stats.nlink > 1 : isHeld(path.replace(/part$/, 'lock'), net.clock.now());
      if (!used) await rm(path, { force: true });
    }
  }
  for (const name of await readdir(join(folder, 'sets')).catch(() => [])) {
    const path = join(folder, 'sets', name);
    const stats = name.startsWith('.') ? await stat(path).catch(() => null) : null;
    if (stats !== null && old(stats.mtimeMs)) await rm(path, { recursive: true, force: true });
  }
}

/** The names in a folder that are no drafts; none where it is not there. */
function names(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => !name.startsWith('.'));
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return [];
    throw error;
  }
}
