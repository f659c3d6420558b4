/**
 * The catalog as data: listing, showing, setting, retiring and resetting its classes and images.
 */
import type { Context } from 'hono';
import { hasRole } from '../../contract/auth.ts';
import {
  type CatalogImage,
  type ClassWrite,
  entry_name,
  type GpuClass,
  type ImageWrite,
} from '../../contract/catalog-entries.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import { builtin_catalog, type ClassEntry, findClass } from '../../core/catalog.ts';
import { classProblem, imageEntry, imageProblem } from '../../core/catalog-rules.ts';
import { findImage, type ImageEntry } from '../../core/images.ts';
import { type EntrySort, listCatalogEntries } from '../../store/catalog.ts';
import { listRegions } from '../../store/regions.ts';
import { actionOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';

export function catalogRoutes(app: Api, deps: ApiDeps): void {
  classRoutes(app, deps);
  imageRoutes(app, deps);
}

function classRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listClasses, async (c) => c.json({ items: await listClasses(deps, c) }, 200));
  app.openapi(routes.showClass, async (c) => {
    const { gpu_class } = c.req.valid('param');
    return c.json(oneOf(await listClasses(deps, c), 'class', gpu_class), 200);
  });
  app.openapi(routes.setClass, async (c) => {
    const { gpu_class: name } = c.req.valid('param');
    const entry = classOf(name, c.req.valid('json'));
    await checkRegions(deps, entry);
    await write(deps, c, 'class', name, JSON.stringify(entry));
    return c.json(oneOf(await listClasses(deps, c), 'class', name), 200);
  });
  app.openapi(routes.removeClass, async (c) => {
    const { gpu_class: name } = c.req.valid('param');
    const before = oneOf(await listClasses(deps, c), 'class', name);
    await remove(deps, c, 'class', name);
    return c.json({ ...before, origin: 'retired' as const }, 200);
  });
  app.openapi(routes.resetClass, async (c) => {
    const { gpu_class: name } = c.req.valid('param');
    await reset(deps, c, 'class', name);
    return c.json(oneOf(await listClasses(deps, c), 'class', name), 200);
  });
}

function imageRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listImages, async (c) => c.json({ items: await listImages(deps, c) }, 200));
  app.openapi(routes.showImage, async (c) => {
    const { image } = c.req.valid('param');
    return c.json(oneOf(await listImages(deps, c), 'image', image), 200);
  });
  app.openapi(routes.setImage, async (c) => {
    const { image: name } = c.req.valid('param');
    const entry = imageOf(name, c.req.valid('json'));
    await write(deps, c, 'image', name, JSON.stringify(entry));
    return c.json(oneOf(await listImages(deps, c), 'image', name), 200);
  });
  app.openapi(routes.removeImage, async (c) => {
    const { image: name } = c.req.valid('param');
    const before = oneOf(await listImages(deps, c), 'image', name);
    await remove(deps, c, 'image', name);
    return c.json({ ...before, origin: 'retired' as const }, 200);
  });
  app.openapi(routes.resetImage, async (c) => {
    const { image: name } = c.req.valid('param');
    await reset(deps, c, 'image', name);
    return c.json(oneOf(await listImages(deps, c), 'image', name), 200);
  });
}

/** Adds or replaces an entry, or retires it (null). */
async function write(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  sort: EntrySort,
  name: string,
  entry: string | null,
): Promise<void> {
  const action = actionOf(deps, c);
  const { actor, now } = action;
  const args = { sort, name, entry, actor, now, action };
  const done = await deps.store.transact('setCatalogEntry', args);
  if (!done.ok) throw new EinsoraError(done.code, done.details);
  changed(deps);
}

/** One that comes with Einsora is retired; an operator's own is no more. */
async function remove(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  sort: EntrySort,
  name: string,
): Promise<void> {
  if (isBuiltin(sort, name)) await write(deps, c, sort, name, null);
  else await drop(deps, c, sort, name, true);
}

async function reset(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  sort: EntrySort,
  name: string,
): Promise<void> {
  if (!isBuiltin(sort, name)) throw new EinsoraError('unknown_entry', { sort, entry: name });
  await drop(deps, c, sort, name, false);
}

async function drop(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  sort: EntrySort,
  name: string,
  gone: boolean,
): Promise<void> {
  const action = actionOf(deps, c);
  const { actor, now } = action;
  const args = { sort, name, gone, actor, now, action };
  const done = await deps.store.transact('dropCatalogEntry', args);
  if (!done.ok) throw new EinsoraError(done.code, done.details);
  changed(deps);
}

function changed(deps: ApiDeps): void {
  deps.catalogs.changed();
  deps.wakeController();
}

function isBuiltin(sort: EntrySort, name: string): boolean {
  return (sort === 'class' ? findClass(name) : findImage(name)) !== null;
}

function oneOf<Entry extends { name: string }>(
  entries: readonly Entry[],
  sort: EntrySort,
  name: string,
): Entry {
  const found = entries.find((entry) => entry.name === name);
  if (found === undefined) throw new EinsoraError('unknown_entry', { sort, entry: name });
  return found;
}

function classOf(name: string, written: ClassWrite): ClassEntry {
  checkName('class', name);
  const { gpu_memory_bytes = 0, gpu_model = null, regions = null } = written;
  const entry = { ...written, name, gpu_memory_bytes, gpu_model, regions };
  const problem = classProblem(entry);
  if (problem !== null) {
    throw new EinsoraError('entry_invalid', { sort: 'class', entry: name, problem });
  }
  return entry;
}

function imageOf(name: string, { title, kinds, runtimes }: ImageWrite): ImageEntry {
  checkName('image', name);
  const problem = imageProblem(name, kinds, runtimes);
  if (problem !== null) {
    throw new EinsoraError('entry_invalid', { sort: 'image', entry: name, problem });
  }
  return imageEntry(name, title, kinds, runtimes);
}

function checkName(sort: EntrySort, name: string): void {
  if (entry_name.test(name)) return;
  const problem = 'a name has lower-case letters, digits, dots and dashes';
  throw new EinsoraError('entry_invalid', { sort, entry: name, problem });
}

/** A slip in a region's name would be a class that nobody can ask for. */
async function checkRegions(deps: ApiDeps, { regions = null }: ClassEntry): Promise<void> {
  const known = await deps.store.read(listRegions, { tenant_id: null });
  const unknown = (regions ?? []).find((region) => !known.includes(region));
  if (unknown === undefined) return;
  throw new EinsoraError('unknown_region', { region: unknown, known: known.join(', ') || 'none' });
}

async function listClasses(deps: ApiDeps, c: Context<ApiEnv>): Promise<GpuClass[]> {
  const rows = await rowsOf(deps, c, 'class');
  const all = merge(builtin_catalog.classes, rows);
  return all.map(({ entry, change }) => ({ ...entry, ...regionsOf(entry), ...change }));
}

function regionsOf({ regions = null }: ClassEntry): { regions: string[] | null } {
  return { regions: regions === null ? null : [...regions] };
}

async function listImages(deps: ApiDeps, c: Context<ApiEnv>): Promise<CatalogImage[]> {
  const rows = await rowsOf(deps, c, 'image');
  return merge(builtin_catalog.images.entries, rows).map(({ entry, change }) => ({
    ...{ name: entry.name, ...change, title: entry.title, kinds: [...entry.kinds] },
    runtimes: entry.runtimes.map(({ accelerator, form, reference, command, uid, gid }) => ({
      ...{ accelerator, form, reference, command: [...command], uid, gid },
    })),
  }));
}

/** Who changed an entry is of the operators' tenant, and told to operators alone. */
async function rowsOf(deps: ApiDeps, c: Context<ApiEnv>, sort: EntrySort): Promise<ShownRow[]> {
  const is_operator = hasRole(c.get('principal').role, 'operator');
  const rows = await deps.store.read(listCatalogEntries, {});
  return rows
    .filter((row) => row.sort === sort)
    .map(({ name, entry, changed_at, changed_by }) => ({
      ...{ name, entry, changed_at },
      changed_by: is_operator ? changed_by : null,
    }));
}

type ShownRow = { name: string; entry: string | null; changed_at: number } & Pick<
  GpuClass,
  'changed_by'
>;
type Change = Pick<GpuClass, 'origin' | 'changed_at' | 'changed_by'>;

/** What comes with Einsora, as it is now, then what operators added. */
function merge<Entry extends { name: string }>(
  builtin: readonly Entry[],
  rows: readonly ShownRow[],
): { entry: Entry; change: Change }[] {
  const byName = new Map(rows.map((row) => [row.name, row]));
  const kept = builtin.map((entry) => {
    const row = byName.get(entry.name);
    if (row === undefined) {
      return { entry, change: { origin: 'built-in' as const, changed_at: null, changed_by: null } };
    }
    const { changed_at, changed_by } = row;
    const origin = row.entry === null ? ('retired' as const) : ('changed' as const);
    return { entry: entryOf(row) ?? entry, change: { origin, changed_at, changed_by } };
  });
  const added = rows.flatMap((row) => {
    const entry: Entry | null = entryOf(row);
    if (entry === null || builtin.some(({ name }) => name === row.name)) return [];
    const { changed_at, changed_by } = row;
    return [{ entry, change: { origin: 'added' as const, changed_at, changed_by } }];
  });
  return [...kept, ...added];

  function entryOf({ entry }: ShownRow): Entry | null {
    return entry === null ? null : (JSON.parse(entry) as Entry);
  }
}
