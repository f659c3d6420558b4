/**
 * Single requests of the gateway, newest first, as far back as rows are kept.
 *
 * Invariants: of one tenant, and of one user where one is given; a page looks at a bounded number
 * of rows, by an index in their order, so one with a filter may be short or empty and not the last.
 */
import type { ShownRequest } from './request-usage.ts';
import type { Query, Row } from './sql.ts';

export type RequestPlace = { at: number; request_id: string };

export type RequestListArgs = {
  tenant_id: string;
  /** By keys of this user alone; null for all of the tenant. */
  user_id: string | null;
  /** By this key alone. */
  key_id: string | null;
  model: string | null;
  /** Only what was refused or cut. */
  failed: boolean;
  /** Only older ones than this. */
  before: RequestPlace | null;
  limit: number;
};

export type RequestList = { rows: ShownRequest[]; next: RequestPlace | null };

/** Rows that a page with a filter looks at. */
const scanned_rows = 1000;
const failed_outcomes = ['refused', 'cut'];

export const listGatewayRequests: Query<RequestListArgs, RequestList> = async (sql, args) => {
  const { tenant_id, user_id, model, failed, before, limit } = args;
  const is_filtered = model !== null || failed;
  const look_at = is_filtered ? scanned_rows : limit;
  // Of the others nothing but the values is looked at, so that no other index is taken.
  const [column, of] = narrowest(args);
  const seen = await sql.all<ShownRequest>(
    `select r.*, m.name as machine_name, k.last_four from requests r
       left join machines m on m.id = r.machine_id and m.tenant_id = r.tenant_id
       left join endpoint_keys k on k.id = r.key_id
     where r.${column} = $1 and r.tenant_id || '' = $2 and ($3 = '' or r.user_id || '' = $3)
       and (r.at, r.request_id) < ($4, $5)
     order by r.at desc, r.request_id desc limit $6`,
    [
      ...[of, tenant_id, user_id ?? ''],
      ...[before?.at ?? Number.MAX_SAFE_INTEGER, before?.request_id ?? '~', look_at],
    ],
  );
  const rows: ShownRequest[] = [];
  let last: ShownRequest | undefined;
  for (const row of seen) {
    if (rows.length === limit) break;
    last = row;
    if (model !== null && row.model !== model) continue;
    if (failed && !failed_outcomes.includes(row.outcome)) continue;
    rows.push(row);
  }
  const is_end = seen.length < look_at && last === seen.at(-1);
  if (is_end || last === undefined) return { rows, next: null };
  return { rows, next: { at: last.at, request_id: last.request_id } };
};

/** Each of them is in an index, before the time: the one that leaves the fewest rows. */
function narrowest({ key_id, user_id, tenant_id }: RequestListArgs): [column: string, of: string] {
  if (key_id !== null) return ['key_id', key_id];
  return user_id === null ? ['tenant_id', tenant_id] : ['user_id', user_id];
}

/**
 * The keys of a tenant that are called so: by id, or by their last four characters; that of a run
 * by the id or name of its workload. Two where it is not clear which is meant.
 */
export const keysCalled: Query<
  { tenant_id: string; user_id: string | null; called: string },
  (Row & { id: string })[]
> = (sql, { tenant_id, user_id, called }) =>
  sql.all<Row & { id: string }>(
    `select id from endpoint_keys
     where tenant_id = $1 and ($2 = '' or user_id = $2) and (id = $3 or last_four = $3)
     union all
     select id from workloads
     where tenant_id = $1 and ($2 = '' or creator_id = $2) and kind <> 'endpoint'
       and (id = $3 or (name = $3 and state <> 'deleted'))
     limit 2`,
    [tenant_id, user_id ?? '', called],
  );
