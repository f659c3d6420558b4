/**
 * Keys by the name of a model: of a tenant's own endpoints, and of those that others opened to it
 * (ADR-0058).
 *
 * Invariants: a key belongs to the tenant of who made it and opens the endpoints it was made for,
 * all or none; an endpoint's owner sees to whom it is open, not the guests' keys; a model that is
 * not open to the asker gives the very answer of one that does not exist.
 */
import { type Action, recordAction } from './activity.ts';
import { findOpenModel } from './endpoint-guests.ts';
import { type Idempotent, once } from './idempotency.ts';
import { type CreateKeyArgs, insertKey, type KeyRow } from './keys.ts';
import type { Query, Row, Sql } from './sql.ts';
import { findWorkload } from './workloads.ts';

export type CreateModelKeyArgs = Omit<CreateKeyArgs, 'workload'> & {
  /** At least one: a tenant's own endpoint by name or id, or `<slug>/<name>` of another's. */
  models: string[];
};

export type CreateModelKeyResult =
  | { ok: true; row: KeyRow; models: string[] }
  | { ok: false; code: 'not_found'; model: string };

/** A key of the asker's tenant that opens endpoints: its own, or ones that are open to it. */
export function createModelKey(
  sql: Sql,
  args: CreateModelKeyArgs,
): Promise<Idempotent<CreateModelKeyResult>> {
  return once(sql, args.idempotency, args.now, async (): Promise<CreateModelKeyResult> => {
    const opened = new Map<string, string>();
    for (const model of args.models) {
      const named = await endpointNamed(sql, { tenant_id: args.tenant_id, model });
      if (named === null) return { ok: false, code: 'not_found', model };
      opened.set(named.workload_id, named.model);
    }
    const [first = '', ...more] = opened.keys();
    const row = await insertKey(sql, args, first);
    for (const workload_id of more) {
      await sql.run('insert into endpoint_key_models (key_id, workload_id) values ($1, $2)', [
        ...[row.id, workload_id],
      ]);
    }
    const models = [...opened.values()];
    const details = { model: models.join(' '), last_four: args.last_four };
    await recordAction(sql, args.action, { target: `key:${row.id}`, details });
    return { ok: true, row, models };
  });
}

async function endpointNamed(
  sql: Sql,
  { tenant_id, model }: { tenant_id: string; model: string },
): Promise<{ workload_id: string; model: string } | null> {
  if (model.includes('/')) return (await findOpenModel(sql, { tenant_id, model })) ?? null;
  const own = await findWorkload(sql, { tenant_id, workload: model });
  if (own === undefined || own.state === 'deleted' || own.kind !== 'endpoint') return null;
  return { workload_id: own.id, model: own.name };
}

/** A key with the names of what it opens, as its tenant calls them, its first one first. */
export type ModelKey = { row: UsedKey; models: string[] };
/** With when it was last used, as far as rows of requests are kept. */
type UsedKey = KeyRow & { last_used_at?: number | null };
const used_keys = `select k.*,
  (select max(r.at) from requests r where r.key_id = k.id) as last_used_at from endpoint_keys k`;
type Opened = Row & { key_id: string; name: string; owner_id: string; slug: string };

/** Keys of a tenant, with what they open: its own endpoints, and others'. */
export const listModelKeys: Query<{ tenant_id: string; limit: number }, ModelKey[]> = async (
  sql,
  args,
) => {
  const rows = await sql.all<UsedKey>(
    `${used_keys} where k.tenant_id = $1 order by k.created_at desc, k.id desc limit $2`,
    [args.tenant_id, args.limit],
  );
  return withModels(sql, args.tenant_id, rows);
};

/** One of them. */
export const findModelKey: Query<
  { tenant_id: string; key_id: string },
  ModelKey | undefined
> = async (sql, { tenant_id, key_id }) => {
  const rows = await sql.all<UsedKey>(`${used_keys} where k.tenant_id = $1 and k.id = $2`, [
    ...[tenant_id, key_id],
  ]);
  return (await withModels(sql, tenant_id, rows))[0];
};

async function withModels(sql: Sql, tenant_id: string, rows: UsedKey[]): Promise<ModelKey[]> {
  if (rows.length === 0) return [];
  const ids = rows.map(({ id }) => id);
  const opened = await sql.all<Opened>(
    `select o.key_id, w.name, w.tenant_id as owner_id, t.slug from
       (select id as key_id, workload_id, 0 as place from endpoint_keys where id ${sql.in(ids, 1)}
        union all
        select key_id, workload_id, 1 as place from endpoint_key_models
        where key_id ${sql.in(ids, ids.length + 1)}) o
       join workloads w on w.id = o.workload_id join tenants t on t.id = w.tenant_id
     order by o.key_id, o.place, w.name`,
    [...ids, ...ids],
  );
  const of_key = Map.groupBy(opened, ({ key_id }) => key_id);
  const called = ({ name, slug, owner_id }: Opened) =>
    owner_id === tenant_id ? name : `${slug}/${name}`;
  return rows.map((row) => ({ row, models: (of_key.get(row.id) ?? []).map(called) }));
}

/** Revokes a key of a tenant; `found` is 1 where it is one, revoked before or not. */
export async function revokeModelKey(
  sql: Sql,
  args: { tenant_id: string; key_id: string; now: number; action?: Action },
): Promise<{ found: number }> {
  const known = await sql.get<KeyRow>(
    'select * from endpoint_keys where id = $1 and tenant_id = $2',
    [args.key_id, args.tenant_id],
  );
  if (known === undefined) return { found: 0 };
  if (known.revoked_at !== null) return { found: 1 };
  await sql.run('update endpoint_keys set revoked_at = $2 where id = $1', [known.id, args.now]);
  const details = { last_four: known.last_four };
  await recordAction(sql, args.action, { target: `key:${known.id}`, details });
  return { found: 1 };
}
