/**
 * Tenants: made, renamed, disabled.
 *
 * Invariants: a slug is never changed and used once; disabling ends every proof of its users at
 * their next request and stops what is its; the last operator's tenant cannot be disabled.
 */
import { type Action, recordAction } from './activity.ts';
import { type IdempotencyKey, type Idempotent, once } from './idempotency.ts';
import type { Query, Row, Sql } from './sql.ts';
import { parkAllOf } from './trust-park.ts';

export type TenantRow = Row & {
  id: string;
  slug: string;
  name: string;
  users: number;
  created_at: number;
  disabled_at: number | null;
};

const columns = `t.id, t.slug, t.name, t.created_at, t.disabled_at,
  (select cast(count(*) as bigint) from users u where u.tenant_id = t.id) as users`;

/** By id or slug. */
export const findTenant: Query<{ tenant: string }, TenantRow | undefined> = (sql, args) =>
  sql.get<TenantRow>(`select ${columns} from tenants t where t.id = $1 or t.slug = $1`, [
    args.tenant,
  ]);

export const listTenants: Query<{ before: string | null; limit: number }, TenantRow[]> = (
  sql,
  args,
) =>
  sql.all<TenantRow>(
    `select ${columns} from tenants t where cast($1 as text) is null or t.id < $1
     order by t.id desc limit $2`,
    [args.before, args.limit],
  );

export type CreateTenantArgs = {
  id: string;
  slug: string;
  name: string;
  now: number;
  idempotency: IdempotencyKey;
  action?: Action;
};

export function createTenant(
  sql: Sql,
  args: CreateTenantArgs,
): Promise<Idempotent<{ ok: true; row: TenantRow } | { ok: false; code: 'tenant_slug_taken' }>> {
  return once(sql, args.idempotency, args.now, async () => {
    const made = await sql.run(
      `insert into tenants (id, slug, name, created_at) values ($1, $2, $3, $4)
       on conflict (slug) do nothing`,
      [args.id, args.slug, args.name, args.now],
    );
    if (made === 0) return { ok: false as const, code: 'tenant_slug_taken' as const };
    await recordAction(sql, args.action, { target: `tenant:${args.id}` });
    const row = await findTenant(sql, { tenant: args.id });
    if (row === undefined) throw new Error('the inserted tenant did not come back');
    return { ok: true as const, row };
  });
}

export type TenantChange = {
  tenant: string;
  now: number;
  /** The same instant, for the ledger of what is stopped with it. */
  mono?: number;
  action?: Action;
};
export type TenantChangeResult =
  | { ok: true; row: TenantRow; changed: number }
  | { ok: false; code: 'not_found' }
  | { ok: false; code: 'last_operator'; name: string };

export async function renameTenant(
  sql: Sql,
  args: TenantChange & { name: string },
): Promise<TenantChangeResult> {
  const row = await lockTenant(sql, args.tenant);
  if (row === undefined) return { ok: false, code: 'not_found' };
  if (row.name === args.name) return { ok: true, row, changed: 0 };
  await sql.run('update tenants set name = $2 where id = $1', [row.id, args.name]);
  await recordAction(sql, args.action, { target: `tenant:${row.id}` });
  return { ok: true, row: { ...row, name: args.name }, changed: 1 };
}

/** `disabled`: 1 stops what is its and ends its users' proofs until 0 enables it again. */
export async function setTenantDisabled(
  sql: Sql,
  args: TenantChange & { disabled: number },
): Promise<TenantChangeResult> {
  const row = await lockTenant(sql, args.tenant);
  if (row === undefined) return { ok: false, code: 'not_found' };
  const was = row.disabled_at === null ? 0 : 1;
  if (was === args.disabled) return { ok: true, row, changed: 0 };
  const last = args.disabled === 1 ? await lastOperatorIn(sql, row.id) : null;
  if (last !== null) return { ok: false, code: 'last_operator', name: last };
  const disabled_at = args.disabled === 1 ? args.now : null;
  await sql.run('update tenants set disabled_at = $2 where id = $1', [row.id, disabled_at]);
  const parked = disabled_at === null ? 0 : await parkAllOf(sql, { tenant_id: row.id }, args);
  await recordAction(sql, args.action, { target: `tenant:${row.id}`, details: { parked } });
  return { ok: true, row: { ...row, disabled_at }, changed: 1 };
}

async function lockTenant(sql: Sql, tenant: string): Promise<TenantRow | undefined> {
  await sql.get(`select id from tenants where id = $1 or slug = $1 ${sql.forUpdate}`, [tenant]);
  return findTenant(sql, { tenant });
}

/** An operator of this tenant, where no other tenant has one who can sign in. */
async function lastOperatorIn(sql: Sql, tenant_id: string): Promise<string | null> {
  const active = await sql.all<Row & { name: string; tenant_id: string }>(
    `select name, tenant_id from users where role = 'operator' and disabled_at is null
       and tenant_id in (select id from tenants where disabled_at is null)
     order by id ${sql.forUpdate}`,
  );
  const own = active.find((user) => user.tenant_id === tenant_id);
  return own !== undefined && active.every((user) => user.tenant_id === tenant_id)
    ? own.name
    : null;
}
