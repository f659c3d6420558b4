/**
 * What an operator made of the catalog: entries added, replaced and retired.
 *
 * Invariants: each change has a new revision, in its own transaction, so that every control plane
 * of the store sees that there is one; a class goes only while nothing waits for it; saying what is
 * said already changes nothing and is no action.
 */
import type { Details } from '../core/reasons.ts';
import { type Action, recordAction } from './activity.ts';
import type { Query, Row, Sql } from './sql.ts';

export type EntrySort = 'class' | 'image';

export type EntryRow = Row & {
  sort: EntrySort;
  name: string;
  /** As JSON; null where it is retired. */
  entry: string | null;
  changed_at: number;
  changed_by: string;
};

export type EntryArgs = {
  sort: EntrySort;
  name: string;
  actor: string;
  now: number;
  action?: Action;
};

export type EntryResult = { ok: true } | { ok: false; code: 'class_in_use'; details: Details };

/** More entries than this are not kept. */
export const entries_limit = 500;

/** Adds or replaces an entry; `entry` null retires one that comes with Einsora. */
export async function setCatalogEntry(
  sql: Sql,
  args: EntryArgs & { entry: string | null },
): Promise<EntryResult | { ok: false; code: 'limit_reached'; details: Details }> {
  const { sort, name, entry, now, actor } = args;
  const before = await findEntry(sql, args);
  if (before?.entry === entry) return { ok: true };
  const used = entry === null ? await waitingFor(sql, args) : 0;
  if (used > 0) return inUse(name, used);
  const count = await sql.get<Row & { count: number }>(
    'select count(*) as count from catalog_entries',
  );
  if (before === undefined && (count?.count ?? 0) >= entries_limit) {
    return { ok: false, code: 'limit_reached', details: { what: 'entries', limit: entries_limit } };
  }
  await sql.run(
    `insert into catalog_entries (sort, name, entry, changed_at, changed_by)
     values ($1, $2, $3, $4, $5)
     on conflict (sort, name) do update set entry = excluded.entry,
       changed_at = excluded.changed_at, changed_by = excluded.changed_by`,
    [sort, name, entry, now, actor.replace(/^user:/, '')],
  );
  await changed(sql, args, entry === null ? { retired: true } : {});
  return { ok: true };
}

/**
 * Takes back what was said of a name. `gone`: where nothing of that name is left by it, nothing may
 * wait for it.
 */
export async function dropCatalogEntry(
  sql: Sql,
  args: EntryArgs & { gone: boolean },
): Promise<EntryResult> {
  if ((await findEntry(sql, args)) === undefined) return { ok: true };
  const used = args.gone ? await waitingFor(sql, args) : 0;
  if (used > 0) return inUse(args.name, used);
  await sql.run('delete from catalog_entries where sort = $1 and name = $2', [
    args.sort,
    args.name,
  ]);
  await changed(sql, args, args.gone ? { removed: true } : { reset: true });
  return { ok: true };
}

function inUse(name: string, count: number): EntryResult {
  return { ok: false, code: 'class_in_use', details: { class: name, count } };
}

function findEntry(sql: Sql, { sort, name }: EntryArgs): Promise<EntryRow | undefined> {
  return sql.get<EntryRow>(
    `select * from catalog_entries where sort = $1 and name = $2 ${sql.forUpdate}`,
    [sort, name],
  );
}

/** Images are kept with each run; who waits for a class is told by its name what it waits for. */
async function waitingFor(sql: Sql, { sort, name }: EntryArgs): Promise<number> {
  if (sort === 'image') return 0;
  const found = await sql.get<Row & { count: number }>(
    `select count(*) as count from workloads
     where gpu_class = $1 and state in ('pending', 'queued')`,
    [name],
  );
  return found?.count ?? 0;
}

async function changed(sql: Sql, args: EntryArgs, details: Details): Promise<void> {
  await sql.run(
    `insert into meta (key, value) values ('catalog_revision', '1')
     on conflict (key) do update
       set value = cast(cast(meta.value as bigint) + 1 as text)`,
  );
  await recordAction(sql, args.action, { target: `${args.sort}:${args.name}`, details });
}

export const catalogRevision: Query<Record<string, never>, number> = async (sql) => {
  const row = await sql.get<Row & { value: string }>(
    "select value from meta where key = 'catalog_revision'",
  );
  return Number(row?.value ?? 0);
};

export const listCatalogEntries: Query<Record<string, never>, EntryRow[]> = (sql) =>
  sql.all<EntryRow>('select * from catalog_entries order by sort, changed_at, name limit $1', [
    entries_limit,
  ]);
