/**
 * All that is recorded of one workload, for its export: one section for each table that has rows of
 * workloads, and the actions of the activity log on it.
 *
 * Invariants: one snapshot; rows in the order of their keys, so the same record gives the same
 * bytes; a table with a `workload_id` that is not named here fails a test.
 */
import type { WorkloadRow } from './events.ts';
import type { Query, Row } from './sql.ts';

export type Section = {
  rows: Row[] /** Rows that are more than an export holds. */;
  left_out: number;
};
export type WorkloadRecord = { workload: WorkloadRow; sections: Record<string, Section> };

/** By section: its table, and its order. */
export const exportTables = {
  aliases: { table: 'endpoint_aliases', order: 'name' },
  events: { table: 'workload_events', order: 'number' },
  guests: { table: 'endpoint_guests', order: 'created_at, tenant_id' },
  holds: { table: 'holds', order: 'replica, run_epoch, device' },
  keys: { table: 'endpoint_keys', order: 'created_at, id' },
  key_models: { table: 'endpoint_key_models', order: 'key_id' },
  ledger: { table: 'ledger', order: 'started_steady, id' },
  replicas: { table: 'replicas', order: 'replica' },
  requests: { table: 'request_days', order: 'day, key_id, model, outcome' },
  runs: { table: 'runs', order: 'replica, run_epoch' },
  samples: { table: 'run_samples', order: 'at, run_epoch, replica' },
  use: { table: 'workload_uses', order: 'workload_id' },
} as const;

/**
 * Proofs of who may look in or call right now, and single requests, of which the sums by day are in
 * it (ADR-0070): no part of the record, forgotten by themselves.
 */
export const not_exported = ['access_sessions', 'access_tickets', 'requests', 'run_keys'] as const;

/** What guests to whom it is open have and do is no part of its owner's record. */
const own_rows: Record<string, string> = {
  endpoint_keys: ' and tenant_id = $2',
  request_days: ' and tenant_id = $2',
  endpoint_key_models: ' and key_id in (select id from endpoint_keys where tenant_id = $2)',
};

/** Rows of one section. */
export const export_rows = 10_000;

export const readWorkloadRecord: Query<
  /** `routes`: those that change something; looks at a workload are no part of it. */
  { workload_id: string; limit: number; routes: readonly string[] },
  WorkloadRecord | undefined
> = async (sql, args) => {
  const workload = await sql.get<WorkloadRow>('select * from workloads where id = $1', [
    args.workload_id,
  ]);
  if (workload === undefined) return undefined;
  const section = async (what: string, from: string, order: string, params: string[]) => {
    const rows = await sql.all<Row>(
      `select ${what} from ${from} order by ${order} limit $${params.length + 1}`,
      [...params, args.limit],
    );
    if (rows.length < args.limit) return { rows, left_out: 0 };
    const all = await sql.get<{ count: number }>(`select count(*) as count from ${from}`, params);
    return { rows, left_out: (all?.count ?? rows.length) - rows.length };
  };
  const sections: Record<string, Section> = {};
  for (const [name, { table, order }] of Object.entries(exportTables)) {
    const more = own_rows[table] ?? '';
    const params = more === '' ? [workload.id] : [workload.id, workload.tenant_id];
    sections[name] = await section('*', `${table} where workload_id = $1${more}`, order, params);
  }
  // What the log needs to prove itself changes after the fact and is no part of the record.
  sections.activity = await section(
    'id, at, user_id, actor, via, request_id, client_request_id, route, target, outcome, details',
    `activity where tenant_id = $1 and outcome = 'done' and (target = $2 or target in
       (select 'key:' || id from endpoint_keys where workload_id = $3
        union select 'key:' || key_id from endpoint_key_models where workload_id = $3))
       and route ${sql.in(args.routes, 4)}`,
    'at, id',
    [workload.tenant_id, `workload:${workload.id}`, workload.id, ...args.routes],
  );
  return { workload, sections };
};
