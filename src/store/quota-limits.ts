/**
 * The limits of quotas: set by the operator, read by those whom they bind.
 *
 * Invariants: what is not named stays as it is; a quota that limits nothing is no row; setting what
 * is set already changes nothing and is no action; a user of another tenant is not found.
 */
import { type Claims, noClaims, noLimits, type QuotaLimits, quotaAmounts } from '../core/quota.ts';
import { type Action, recordAction } from './activity.ts';
import { type QuotaRow, type QuotaScope, sumAllClaims } from './quotas.ts';
import type { Query, Row, Sql } from './sql.ts';

/** More quotas than this of one tenant are not listed, nor made. */
export const quotas_of_tenant = 500;

export type SetQuotaArgs = {
  tenant_id: string;
  /** Name of a user of the tenant; null for the tenant as a whole. */
  user: string | null;
  gpu_class: string | null;
  limits: Partial<QuotaLimits>;
  now: number;
  action?: Action;
};

export type SetQuotaResult = { ok: true } | { ok: false; code: 'not_found' | 'limit_reached' };

export async function setQuota(sql: Sql, args: SetQuotaArgs): Promise<SetQuotaResult> {
  const user_id = await findUserId(sql, args);
  if (user_id === null) return { ok: false, code: 'not_found' };
  const scope = { tenant_id: args.tenant_id, user_id, gpu_class: args.gpu_class ?? '' };
  const before = await sql.get<QuotaRow>(
    `select * from quotas where tenant_id = $1 and user_id = $2 and gpu_class = $3
     ${sql.forUpdate}`,
    [scope.tenant_id, scope.user_id, scope.gpu_class],
  );
  const was = before ?? noLimits;
  const limits = { ...pick(was), ...args.limits };
  if (quotaAmounts.every((name) => limits[name] === was[name])) return { ok: true };
  if (before === undefined && (await countQuotas(sql, args.tenant_id)) >= quotas_of_tenant) {
    return { ok: false, code: 'limit_reached' };
  }
  await writeQuota(sql, scope, limits, args.now);
  const details = { user: args.user, gpu_class: args.gpu_class, ...limits };
  await recordAction(sql, args.action, { target: `tenant:${args.tenant_id}`, details });
  return { ok: true };
}

/** `''` for the tenant as a whole, null where it has no such user. */
async function findUserId(sql: Sql, args: SetQuotaArgs): Promise<string | null> {
  if (args.user === null) return '';
  const found = await sql.get<Row & { id: string }>(
    'select id from users where tenant_id = $1 and name = $2',
    [args.tenant_id, args.user],
  );
  return found?.id ?? null;
}

async function countQuotas(sql: Sql, tenant_id: string): Promise<number> {
  const found = await sql.get<Row & { count: number }>(
    'select count(*) as count from quotas where tenant_id = $1',
    [tenant_id],
  );
  return found?.count ?? 0;
}

async function writeQuota(
  sql: Sql,
  scope: QuotaScope,
  limits: QuotaLimits,
  now: number,
): Promise<void> {
  const keys = [scope.tenant_id, scope.user_id, scope.gpu_class];
  if (quotaAmounts.every((name) => limits[name] === null)) {
    await sql.run(
      'delete from quotas where tenant_id = $1 and user_id = $2 and gpu_class = $3',
      keys,
    );
    return;
  }
  await sql.run(
    `insert into quotas (tenant_id, user_id, gpu_class, workloads, gpus, cpu_millis, memory_bytes,
       disk_bytes, changed_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
     on conflict (tenant_id, user_id, gpu_class) do update set workloads = excluded.workloads,
       gpus = excluded.gpus, cpu_millis = excluded.cpu_millis,
       memory_bytes = excluded.memory_bytes, disk_bytes = excluded.disk_bytes,
       changed_at = excluded.changed_at`,
    [...keys, ...quotaAmounts.map((name) => limits[name]), now],
  );
}

function pick(limits: QuotaLimits): QuotaLimits {
  const { workloads, gpus, cpu_millis, memory_bytes, disk_bytes } = limits;
  return { workloads, gpus, cpu_millis, memory_bytes, disk_bytes };
}

export type QuotaUse = {
  user: string | null;
  gpu_class: string | null;
  limits: QuotaLimits;
  used: Claims;
};

/** Every quota of a tenant with what is claimed of it; that of the tenant as a whole is first. */
export const listQuotas: Query<{ tenant_id: string }, QuotaUse[]> = async (sql, { tenant_id }) => {
  const rows = await sql.all<QuotaRow & { user_name: string | null }>(
    `select q.*, u.name as user_name from quotas q left join users u on u.id = q.user_id
     where q.tenant_id = $1 order by q.user_id, q.gpu_class limit $2`,
    [tenant_id, quotas_of_tenant],
  );
  const claims = await sumAllClaims(sql, tenant_id);
  const first = rows[0];
  const has_whole = first !== undefined && first.user_id === '' && first.gpu_class === '';
  const whole = { user_id: '', gpu_class: '', user_name: null, ...noLimits };
  return (has_whole ? rows : [whole, ...rows]).map((row) => ({
    user: row.user_id === '' ? null : row.user_name,
    gpu_class: row.gpu_class === '' ? null : row.gpu_class,
    limits: pick(row),
    used: claims
      .filter((claim) => row.user_id === '' || row.user_id === claim.creator_id)
      .filter((claim) => row.gpu_class === '' || row.gpu_class === claim.gpu_class)
      .reduce(addClaims, noClaims),
  }));
};

function addClaims(all: Claims, more: Claims): Claims {
  const sums = quotaAmounts.map((name) => [name, all[name] + more[name]] as const);
  return Object.fromEntries(sums) as Claims;
}
