/**
 * Limits on requests of a user over all keys, and of an endpoint over all who ask it.
 *
 * Invariants: what is not named stays as it is; limits that limit nothing are no row; setting what
 * is set already changes nothing and is no action; who is not there for the asker is not found.
 */
import {
  type LimitedKind,
  no_request_limits,
  type RequestLimits,
  requestLimitNames,
  requestLimitsOf,
} from '../core/request-limits.ts';
import { type Action, recordAction } from './activity.ts';
import type { Query, Row, Sql } from './sql.ts';
import { findUser } from './users.ts';
import { findWorkload } from './workloads.ts';

/** More limits than this of one tenant are not listed, nor made. */
export const request_limits_of_tenant = 1000;

/** Whose limits: `tenant_id` null: of any tenant. */
export type LimitedName =
  | { kind: 'user'; user: string; tenant_id: string | null }
  | { kind: 'model'; workload: string; tenant_id: string };

export type Limited = {
  kind: LimitedKind;
  subject_id: string;
  tenant_id: string;
  /** A user's, or an endpoint's. */
  name: string;
  limits: RequestLimits;
};

type LimitsRow = Row & RequestLimits & { kind: LimitedKind; subject_id: string; tenant_id: string };

export type SetRequestLimitsArgs = {
  of: LimitedName;
  limits: Partial<RequestLimits>;
  now: number;
  action?: Action;
};
export type SetRequestLimitsResult =
  | { ok: true; limited: Limited }
  | { ok: false; code: 'not_found' | 'limit_reached' };

export async function setRequestLimits(
  sql: Sql,
  args: SetRequestLimitsArgs,
): Promise<SetRequestLimitsResult> {
  const subject = await findSubject(sql, args.of);
  if (subject === undefined) return { ok: false, code: 'not_found' };
  const before = await sql.get<LimitsRow>(
    `select * from request_limits where kind = $1 and subject_id = $2 ${sql.forUpdate}`,
    [subject.kind, subject.subject_id],
  );
  const was = before ?? no_request_limits;
  const limits = { ...requestLimitsOf(was), ...args.limits };
  const limited = { ...subject, limits };
  if (requestLimitNames.every((name) => limits[name] === was[name])) return { ok: true, limited };
  if (before === undefined && (await isFull(sql, subject.tenant_id))) {
    return { ok: false, code: 'limit_reached' };
  }
  await write(sql, limited, args.now);
  const target = `${subject.kind === 'user' ? 'user' : 'workload'}:${subject.subject_id}`;
  await recordAction(sql, args.action, { target, details: { name: subject.name, ...limits } });
  return { ok: true, limited };
}

async function write(sql: Sql, { kind, subject_id, tenant_id, limits }: Limited, now: number) {
  if (requestLimitNames.every((name) => limits[name] === null)) {
    await sql.run('delete from request_limits where kind = $1 and subject_id = $2', [
      ...[kind, subject_id],
    ]);
    return;
  }
  await sql.run(
    `insert into request_limits (kind, subject_id, tenant_id, rpm, tpm, concurrency, changed_at)
     values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (kind, subject_id) do update set rpm = excluded.rpm, tpm = excluded.tpm,
       concurrency = excluded.concurrency, changed_at = excluded.changed_at`,
    [kind, subject_id, tenant_id, limits.rpm, limits.tpm, limits.concurrency, now],
  );
}

async function isFull(sql: Sql, tenant_id: string): Promise<boolean> {
  const found = await sql.get<Row & { count: number }>(
    'select count(*) as count from request_limits where tenant_id = $1',
    [tenant_id],
  );
  return (found?.count ?? 0) >= request_limits_of_tenant;
}

type Subject = Omit<Limited, 'limits'>;

async function findSubject(sql: Sql, of: LimitedName): Promise<Subject | undefined> {
  if (of.kind === 'user') {
    const row = await findUser(sql, of);
    if (row === undefined) return undefined;
    return { kind: 'user', subject_id: row.id, tenant_id: row.tenant_id, name: row.name };
  }
  const row = await findWorkload(sql, of);
  if (row === undefined || row.state === 'deleted' || row.kind !== 'endpoint') return undefined;
  return { kind: 'model', subject_id: row.id, tenant_id: row.tenant_id, name: row.name };
}

/** All that are set of a tenant, or of one user of it and of its endpoints; by kind and name. */
export const listRequestLimits: Query<
  { tenant_id: string; only_user: string | null },
  Limited[]
> = async (sql, { tenant_id, only_user }) => {
  const rows = await sql.all<LimitsRow & { name: string }>(
    `select l.*, coalesce(u.name, w.name) as name from request_limits l
       left join users u on l.kind = 'user' and u.id = l.subject_id
       left join workloads w on l.kind = 'model' and w.id = l.subject_id
     where l.tenant_id = $1 and (l.kind = 'model' or cast($2 as text) is null or u.id = $2)
       and (l.kind = 'user' or w.state <> 'deleted')
     order by l.kind desc, name, l.subject_id limit $3`,
    [tenant_id, only_user, request_limits_of_tenant],
  );
  return rows.map((row) => ({
    ...{ kind: row.kind, subject_id: row.subject_id, tenant_id, name: row.name },
    limits: requestLimitsOf(row),
  }));
};
