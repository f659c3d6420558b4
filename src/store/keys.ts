/**
 * Endpoint keys: what the inference gateway takes (`ept_…`).
 *
 * Invariants: only the hash and the last four characters are stored; a key opens the endpoints that
 * it was made for, and is revoked with the last of them that is deleted, in the same transaction; a
 * disabled user's open nothing; its limits are what it says, beside those of its user and model.
 */
import {
  no_request_limits,
  type RequestLimits,
  requestLimitNames,
  requestLimitsOf,
} from '../core/request-limits.ts';
import type { DriverName } from '../core/trust.ts';
import { type Action, recordAction } from './activity.ts';
import { type IdempotencyKey, type Idempotent, once } from './idempotency.ts';
import { opens } from './key-endpoints.ts';
import type { Query, Row, Sql } from './sql.ts';
import { findWorkload } from './workloads.ts';

export type KeyRow = Row & {
  id: string;
  tenant_id: string;
  /** The first that it opens; the others are rows of endpoint_key_models. */
  workload_id: string;
  user_id: string;
  hash: string;
  last_four: string;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
} & RequestLimits;

export type CreateKeyArgs = {
  id: string;
  tenant_id: string;
  user_id: string;
  workload: string;
  limits?: Partial<RequestLimits>;
  hash: string;
  last_four: string;
  now: number;
  expires_at: number | null;
  idempotency: IdempotencyKey;
  action?: Action;
};

export function createKey(
  sql: Sql,
  args: CreateKeyArgs,
): Promise<Idempotent<{ ok: true; row: KeyRow } | { ok: false; code: 'not_found' }>> {
  return once(sql, args.idempotency, args.now, async () => {
    const workload = await findWorkload(sql, args);
    if (workload === undefined || workload.state === 'deleted' || workload.kind !== 'endpoint') {
      return { ok: false as const, code: 'not_found' as const };
    }
    const row = await insertKey(sql, args, workload.id);
    const details = { workload_id: workload.id, last_four: args.last_four };
    await recordAction(sql, args.action, { target: `key:${row.id}`, details });
    return { ok: true as const, row };
  });
}

export async function insertKey(
  sql: Sql,
  args: Omit<CreateKeyArgs, 'workload'>,
  workload_id: string,
): Promise<KeyRow> {
  const { rpm, tpm, concurrency } = { ...no_request_limits, ...args.limits };
  const { id, tenant_id, user_id, hash, last_four, now, expires_at } = args;
  const row = await sql.get<KeyRow>(
    `insert into endpoint_keys (id, tenant_id, workload_id, user_id, hash, last_four, created_at,
       expires_at, rpm, tpm, concurrency)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning *`,
    [
      ...[id, tenant_id, workload_id, user_id, hash, last_four, now, expires_at],
      ...[rpm, tpm, concurrency],
    ],
  );
  if (row === undefined) throw new Error('the inserted key did not come back');
  return row;
}

export type LimitKeyArgs = {
  tenant_id: string;
  key_id: string;
  /** What is not named stays as it is. */
  limits: Partial<RequestLimits>;
  action?: Action;
};

/** Sets limits of a key of a tenant, from its next request on; null: it has no such key. */
export async function limitKey(sql: Sql, args: LimitKeyArgs): Promise<KeyRow | null> {
  const known = await sql.get<KeyRow>(
    `select * from endpoint_keys where id = $1 and tenant_id = $2 ${sql.forUpdate}`,
    [args.key_id, args.tenant_id],
  );
  if (known === undefined) return null;
  const limits = { ...requestLimitsOf(known), ...args.limits };
  if (requestLimitNames.every((name) => limits[name] === known[name])) return known;
  const row = await sql.get<KeyRow>(
    'update endpoint_keys set rpm = $2, tpm = $3, concurrency = $4 where id = $1 returning *',
    [known.id, limits.rpm, limits.tpm, limits.concurrency],
  );
  await recordAction(sql, args.action, { target: `key:${known.id}`, details: limits });
  return row ?? known;
}

/** Keys of guests to whom an endpoint is open are their tenants' alone (model-keys.ts). */
const own = 'tenant_id = (select w.tenant_id from workloads w where w.id = $1)';

/** Revokes a key of a workload; `found` is 1 where it is one, revoked before or not. */
export async function revokeKey(
  sql: Sql,
  args: { workload_id: string; key_id: string; now: number; action?: Action },
): Promise<{ found: number }> {
  const changed = await sql.run(
    `update endpoint_keys set revoked_at = $3
     where ${opens} and id = $2 and revoked_at is null and ${own}`,
    [args.workload_id, args.key_id, args.now],
  );
  if (changed > 0) {
    const details = { workload_id: args.workload_id };
    await recordAction(sql, args.action, { target: `key:${args.key_id}`, details });
    return { found: changed };
  }
  const known = await sql.get(
    `select id from endpoint_keys where ${opens} and id = $2 and ${own}`,
    [args.workload_id, args.key_id],
  );
  return { found: known === undefined ? 0 : 1 };
}

export const listKeys: Query<{ workload_id: string; limit: number }, KeyRow[]> = (sql, args) =>
  sql.all<KeyRow>(
    `select * from endpoint_keys where ${opens} and ${own}
     order by created_at desc, id desc limit $2`,
    [args.workload_id, args.limit],
  );

export type UsableKeyRow = KeyRow & {
  /** What it opens beside its first, separated by spaces; null: nothing. */
  more: string | null;
  user_rpm: number | null;
  user_tpm: number | null;
  user_concurrency: number | null;
};

/** By its hash, with its user's limits; not where its maker or their tenant is disabled. */
export const findKey: Query<{ hash: string }, UsableKeyRow | undefined> = (sql, args) =>
  sql.get<UsableKeyRow>(
    `select k.*, l.rpm as user_rpm, l.tpm as user_tpm, l.concurrency as user_concurrency,
       (select string_agg(m.workload_id, ' ') from endpoint_key_models m where m.key_id = k.id)
         as more
     from endpoint_keys k join users u on u.id = k.user_id and u.disabled_at is null
       join tenants t on t.id = k.tenant_id and t.disabled_at is null
       left join request_limits l on l.kind = 'user' and l.subject_id = k.user_id
     where k.hash = $1`,
    [args.hash],
  );

export type TargetRow = Row & {
  workload_id: string;
  /** Whose endpoint it is. */
  owner_tenant_id: string;
  /** 1 where several tenants prompt its engine, or did since that began. */
  is_apart: number;
  name: string;
  state: string;
  intent: string;
  park_cause: string;
  region: string | null;
  replica: number | null;
  run_epoch: number | null;
  machine_id: string | null;
  machine_name: string | null;
  /** Whose machine it is. */
  machine_tenant_id: string | null;
  placed_class: string | null;
  driver: DriverName | null;
  /** How its image is run, where an operator wrote that. */
  runtime: string | null;
  /** What its run stands in for (core/fallback.ts); empty or null: it is as asked. */
  fallback: string | null;
  /** Of the workload, as JSON. */
  spec: string;
  created_at: number;
  /** Limits of the endpoint over all who ask. */
  model_rpm: number | null;
  model_tpm: number | null;
  model_concurrency: number | null;
};

const targets = `
     select w.id as workload_id, w.tenant_id as owner_tenant_id, w.name, w.state, w.intent,
       w.park_cause, w.created_at, r.replica, r.run_epoch,
       case when w.opened_at is not null or r.created_at <= w.shared_until
         or exists (select 1 from endpoint_guests g where g.workload_id = w.id)
         then 1 else 0 end as is_apart,
       r.machine_id, r.placed_class, r.driver, r.runtime, r.fallback, w.spec,
       m.name as machine_name, m.tenant_id as machine_tenant_id, m.region,
       l.rpm as model_rpm, l.tpm as model_tpm, l.concurrency as model_concurrency
     from workloads w
       left join request_limits l on l.kind = 'model' and l.subject_id = w.id
       left join runs r on r.workload_id = w.id and r.superseded_at is null
         and r.replica < w.replicas and r.wanted = 'run'
         and r.ended_at is null and r.ready_at is not null
       left join machines m on m.id = r.machine_id`;

/** A workload with its run that answers, of several the first; without one where none does. */
export const findTarget: Query<{ workload_id: string }, TargetRow | undefined> = (sql, args) =>
  sql.get<TargetRow>(
    `${targets} where w.id = $1 and w.state <> 'deleted' order by r.replica limit 1`,
    [args.workload_id],
  );

/** The endpoint a key opens, once for each of its replicas that answers, or once without any. */
export const findTargets: Query<{ workload_id: string }, TargetRow[]> = (sql, args) =>
  sql.all<TargetRow>(`${targets} where w.id = $1 and w.state <> 'deleted' order by r.replica`, [
    args.workload_id,
  ]);

type Named = { tenant_id: string; name: string };

/** The same of an endpoint of a tenant by its name. */
export const findTargetsNamed: Query<Named, TargetRow[]> = (sql, args) =>
  sql.all<TargetRow>(
    `${targets} where w.tenant_id = $1 and w.name = $2 and w.kind = 'endpoint'
       and w.state <> 'deleted' order by r.replica`,
    [args.tenant_id, args.name],
  );

type Many = { tenant_id: string; limit: number };

/** The endpoints of a tenant that answer now, by name. */
export const listAnswering: Query<Many, TargetRow[]> = (sql, args) =>
  sql.all<TargetRow>(
    `${targets} where w.tenant_id = $1 and w.kind = 'endpoint' and w.state = 'running'
       and r.machine_id is not null
       and not exists (select 1 from runs o where o.workload_id = w.id and o.replica < r.replica
         and o.superseded_at is null and o.wanted = 'run' and o.ended_at is null
         and o.ready_at is not null)
     order by w.name limit $2`,
    [args.tenant_id, args.limit],
  );
