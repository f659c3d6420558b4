/**
 * Quotas: how much a tenant, or a user of it, may claim at once, as a whole and for each class.
 *
 * Invariants: what is claimed is summed from the workloads themselves, under a lock on the quota's
 * row, so that of launches at once only those that fit are accepted; a claim counts from the insert
 * until the workload is confirmed stopped, failed or deleted; without a row nothing is summed; a
 * limit that is lowered stops nothing that goes on.
 */
import { type Claims, exceeded, exceededDetails, type QuotaLimits } from '../core/quota.ts';
import type { Details } from '../core/reasons.ts';
import { readSpec, type WorkloadSpec } from '../core/workload.ts';
import type { WorkloadRow } from './events.ts';
import type { Row, Sql } from './sql.ts';

/** `''` as user or class means all of them. */
export type QuotaScope = { tenant_id: string; user_id: string; gpu_class: string };
export type QuotaRow = Row & QuotaScope & QuotaLimits & { changed_at: number };

export type ClaimArgs = {
  tenant_id: string;
  creator_id: string;
  gpu_class: string;
  gpu_count: number;
  cpu_millis: number;
  memory_bytes: number;
  disk_bytes: number;
  /** How often all of that: the replicas of an endpoint; once where it is left out. */
  claims?: number;
};

/** Why a claim is refused, or null. `except`: the workload that claims, where it is one already. */
export async function refuseClaim(
  sql: Sql,
  asked: ClaimArgs,
  except: string,
): Promise<Details | null> {
  // Always in this order, so that two launches never wait for each other.
  const rows = await sql.all<QuotaRow>(
    `select * from quotas where tenant_id = $1 and user_id in ('', $2) and gpu_class in ('', $3)
     order by user_id, gpu_class limit 4 ${sql.forUpdate}`,
    [asked.tenant_id, asked.creator_id, asked.gpu_class],
  );
  return firstExceeded(sql, rows, asked, except);
}

/** The same for a plan, which locks nothing and promises nothing. */
export async function foreseeRefusal(sql: Sql, asked: ClaimArgs): Promise<Details | null> {
  const rows = await sql.all<QuotaRow>(
    `select * from quotas where tenant_id = $1 and user_id in ('', $2) and gpu_class in ('', $3)
     order by user_id, gpu_class limit 4`,
    [asked.tenant_id, asked.creator_id, asked.gpu_class],
  );
  return firstExceeded(sql, rows, asked, '');
}

async function firstExceeded(
  sql: Sql,
  rows: QuotaRow[],
  asked: ClaimArgs,
  except: string,
): Promise<Details | null> {
  const { claims = 1 } = asked;
  const claim: Claims = {
    ...{ workloads: 1, gpus: asked.gpu_count * claims, cpu_millis: asked.cpu_millis * claims },
    memory_bytes: asked.memory_bytes * claims,
    disk_bytes: asked.disk_bytes * claims,
  };
  for (const row of rows) {
    const over = exceeded(row, await sumClaims(sql, row, except), claim);
    if (over !== null) return exceededDetails(over, await nameScope(sql, row));
  }
  return null;
}

/** A workload with the amounts that it claims: one of an earlier version gets them from its spec. */
export async function withClaims(sql: Sql, row: WorkloadRow): Promise<WorkloadRow> {
  return row.cpu_millis > 0 ? row : setClaims(sql, row, readSpec(row.spec), 0);
}

/** With the amounts of what it asks: what stood in for that counts no longer when it starts. */
export async function withAskedClaims(sql: Sql, row: WorkloadRow): Promise<WorkloadRow> {
  const is_asked = row.cpu_millis > 0 && row.fallback_step === 0;
  return is_asked ? row : setClaims(sql, row, readSpec(row.spec), 0);
}

/** Has it claim what a spec says: of a step of its fallbacks, or 0 for what it asks. */
export async function setClaims(
  sql: Sql,
  row: WorkloadRow,
  spec: WorkloadSpec,
  fallback_step: number,
): Promise<WorkloadRow> {
  const filled = await sql.get<WorkloadRow>(
    `update workloads set gpu_class = $2, gpu_count = $3, cpu_millis = $4, memory_bytes = $5,
       disk_bytes = $6, fallback_step = $7 where id = $1 returning *`,
    [
      row.id,
      spec.gpu_class ?? '',
      spec.gpu_count,
      spec.cpu_millis,
      spec.memory_bytes,
      spec.disk_bytes,
      fallback_step,
    ],
  );
  return filled ?? row;
}

const claimSums = `cast(count(*) as bigint) as workloads,
  cast(coalesce(sum(gpu_count * claims), 0) as bigint) as gpus,
  cast(coalesce(sum(cpu_millis * claims), 0) as bigint) as cpu_millis,
  cast(coalesce(sum(memory_bytes * claims), 0) as bigint) as memory_bytes,
  cast(coalesce(sum(disk_bytes * claims), 0) as bigint) as disk_bytes`;
/** The index `workloads_claims` holds just these. */
const isClaim = `state not in ('stopped', 'failed', 'deleted')`;

/** What is claimed within a scope, without the workload `except`. */
async function sumClaims(sql: Sql, scope: QuotaScope, except: string): Promise<Claims> {
  const sums = await sql.get<Row & Claims>(
    `select ${claimSums} from workloads where tenant_id = $1 and ${isClaim} and id <> $2
       and ($3 = '' or creator_id = $3) and ($4 = '' or gpu_class = $4)`,
    [scope.tenant_id, except, scope.user_id, scope.gpu_class],
  );
  if (sums === undefined) throw new Error('a sum gave no row');
  return sums;
}

/** What is claimed of a tenant, by who claims it and in which class. */
export function sumAllClaims(
  sql: Sql,
  tenant_id: string,
): Promise<(Row & Claims & { creator_id: string; gpu_class: string })[]> {
  return sql.all(
    `select creator_id, gpu_class, ${claimSums} from workloads
     where tenant_id = $1 and ${isClaim} group by creator_id, gpu_class`,
    [tenant_id],
  );
}

/** "tenant local", "user ada", "user ada in class cpu-1c-2g". */
async function nameScope(sql: Sql, scope: QuotaScope): Promise<string> {
  const who =
    scope.user_id === ''
      ? await sql.get<{ name: string }>('select slug as name from tenants where id = $1', [
          scope.tenant_id,
        ])
      : await sql.get<{ name: string }>('select name from users where id = $1', [scope.user_id]);
  const noun = scope.user_id === '' ? 'tenant' : 'user';
  const of_class = scope.gpu_class === '' ? '' : ` in class ${scope.gpu_class}`;
  return `${noun} ${who?.name ?? ''}${of_class}`;
}
