/**
 * Keys by the name of a model: of a tenant's own endpoints, and of those that others opened to it
 * (ADR-0058).
 *
 * Invariants: a key belongs to the tenant of who made it and opens one endpoint; the endpoint's
 * owner sees to whom it is open, not the guests' keys; a model that is not open to the asker gives
 * the very answer of one that does not exist.
 */
import { type Action, recordAction } from './activity.ts';
import { findOpenModel } from './endpoint-guests.ts';
import { type Idempotent, once } from './idempotency.ts';
import type { CreateKeyArgs, KeyRow } from './keys.ts';
import type { Query, Sql } from './sql.ts';
import { findWorkload } from './workloads.ts';

export type CreateModelKeyArgs = Omit<CreateKeyArgs, 'workload'> & {
  /** A tenant's own endpoint by name or id, or `<slug>/<name>` of another's. */
  model: string;
};

/** A key of the asker's tenant that opens one endpoint: its own, or one that is open to it. */
export function createModelKey(
  sql: Sql,
  args: CreateModelKeyArgs,
): Promise<
  Idempotent<{ ok: true; row: KeyRow; model: string } | { ok: false; code: 'not_found' }>
> {
  return once(sql, args.idempotency, args.now, async () => {
    const named = await endpointNamed(sql, args);
    if (named === null) return { ok: false as const, code: 'not_found' as const };
    const { id, tenant_id, user_id, hash, last_four, now, expires_at } = args;
    const row = await sql.get<KeyRow>(
      `insert into endpoint_keys (id, tenant_id, workload_id, user_id, hash, last_four, created_at,
         expires_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8) returning *`,
      [id, tenant_id, named.workload_id, user_id, hash, last_four, now, expires_at],
    );
    if (row === undefined) throw new Error('the inserted key did not come back');
    const details = { model: named.model, last_four };
    await recordAction(sql, args.action, { target: `key:${row.id}`, details });
    return { ok: true as const, row, model: named.model };
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

export type ModelKeyRow = KeyRow & { name: string; owner_id: string; slug: string };

/** Keys of a tenant, with what they open: its own endpoints, and others'. */
export const listModelKeys: Query<{ tenant_id: string; limit: number }, ModelKeyRow[]> = (
  sql,
  args,
) =>
  sql.all<ModelKeyRow>(
    `select k.*, w.name, w.tenant_id as owner_id, t.slug from endpoint_keys k
       join workloads w on w.id = k.workload_id join tenants t on t.id = w.tenant_id
     where k.tenant_id = $1 order by k.created_at desc, k.id desc limit $2`,
    [args.tenant_id, args.limit],
  );

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
