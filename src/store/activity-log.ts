/**
 * Reading the activity log: what a tenant's people did, and all that one request did.
 *
 * Invariants: a page looks at a bounded number of rows, whatever it filters for; another tenant's
 * rows are found only where all tenants are asked for.
 */

import type { ActivityRow } from './activity-seal.ts';
import type { EventRow } from './events.ts';
import type { Query, Row } from './sql.ts';

export type ActivityPageArgs = {
  tenant_id: string;
  user_id: string | null;
  route: string | null;
  target: string | null;
  /** From this moment on. */
  since: number;
  /** Before this moment. */
  until: number;
  /** Rows older than this one; null for the newest. */
  before: { at: number; id: string } | null;
  limit: number;
};

export type ActivityPage = {
  rows: ActivityRow[];
  /** Where to go on; null at the end. A page may be empty and not the last. */
  next: { at: number; id: string } | null;
};

/** Rows that a page with a filter looks at. */
const scanned_rows = 2000;

/** Newest first. */
export const listActivity: Query<ActivityPageArgs, ActivityPage> = async (sql, args) => {
  const { tenant_id, user_id, route, target, since, until, before, limit } = args;
  const is_filtered = user_id !== null || route !== null || target !== null;
  const look_at = is_filtered ? scanned_rows : limit;
  const seen = await sql.all<ActivityRow>(
    `select * from activity where tenant_id = $1 and at >= $2 and at < $3
       and ($4 = 0 or (at, id) < ($5, $6))
     order by at desc, id desc limit $7`,
    [tenant_id, since, until, before ? 1 : 0, before?.at ?? 0, before?.id ?? '', look_at],
  );
  const rows: ActivityRow[] = [];
  let last: ActivityRow | undefined;
  for (const row of seen) {
    if (rows.length === limit) break;
    last = row;
    if (user_id !== null && row.user_id !== user_id) continue;
    if (route !== null && row.route !== route) continue;
    if (target !== null && row.target !== target) continue;
    rows.push(row);
  }
  const is_end = seen.length < look_at && last === seen.at(-1);
  return { rows, next: is_end || last === undefined ? null : { at: last.at, id: last.id } };
};

export type RequestRows = {
  actions: ActivityRow[];
  events: (EventRow & { workload_name: string })[];
};

const request_rows = 200;

/** All that a request did; in one tenant, or in any where that is null. */
export const readRequest: Query<
  { request_id: string; tenant_id: string | null },
  RequestRows
> = async (sql, args) => {
  const one = args.tenant_id === null ? 0 : 1;
  const params = [args.request_id, one, args.tenant_id ?? '', request_rows];
  const actions = await sql.all<ActivityRow>(
    `select * from activity where request_id = $1 and ($2 = 0 or tenant_id = $3)
       order by at, id limit $4`,
    params,
  );
  const events = await sql.all<EventRow & { workload_name: string }>(
    `select e.*, w.name as workload_name from workload_events e
         join workloads w on w.id = e.workload_id
       where e.request_id = $1 and ($2 = 0 or w.tenant_id = $3)
       order by e.at, e.workload_id, e.number limit $4`,
    params,
  );
  return { actions, events };
};

/** A user of the tenant by name or id. */
export const findUserId: Query<{ tenant_id: string; user: string }, string | null> = async (
  sql,
  args,
) => {
  const row = await sql.get<Row & { id: string }>(
    'select id from users where tenant_id = $1 and (id = $2 or name = $2)',
    [args.tenant_id, args.user],
  );
  return row?.id ?? null;
};
