/**
 * Reading what is recorded of requests: sums by day for reports, and single rows.
 *
 * Invariants: a tenant reads of its own keys; of others' requests to its endpoints it reads sums by
 * guest and nothing else. For who is no admin: of own keys, of keys of own runs, and of guests of
 * own endpoints.
 */
import type { RequestGroup } from '../contract/request-usage.ts';
import { first_columns, type RequestRow } from './requests.ts';
import type { Query, Row } from './sql.ts';

export type RequestSums = Row & {
  key: string;
  requests: number;
  answered: number;
  refused: number;
  cut: number;
  client_left: number;
  attempts: number;
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  estimated: number;
};

export type RequestUsageArgs = {
  tenant_id: string;
  /** Of this user alone; null for all of the tenant. */
  user_id: string | null;
  /** Whole days: when they begin, and when the first one after them does. */
  from: number;
  to: number;
  group_by: RequestGroup;
};

const keys: Record<RequestGroup, string> = {
  key: 'd.key_id',
  model: 'd.model',
  user: 'd.user_id',
  guest: 't.slug',
  day: 'cast(d.day as text)',
};
const own = `from request_days d where d.tenant_id = $1
  and ($2 = '' or d.user_id = $2
    or d.user_id in (select o.id from workloads o where o.creator_id = $2))`;
const of_guests = `from request_days d join workloads w on w.id = d.workload_id
    join tenants t on t.id = d.tenant_id
  where w.tenant_id = $1 and d.tenant_id <> $1 and ($2 = '' or w.creator_id = $2)`;
const sum = (what: string, name: string) => `cast(coalesce(${what}, 0) as bigint) as ${name}`;
const sums = [
  ...['requests', 'attempts', 'prompt_tokens', 'completion_tokens', 'cached_tokens', 'estimated'],
  ...first_columns,
].map((name) => sum(`sum(d.${name})`, name));
const outcomes = ['answered', 'refused', 'cut', 'client_left'].map((name) =>
  sum(`sum(d.requests) filter (where d.outcome = '${name}')`, name),
);
const figures = [...sums, ...outcomes].join(', ');

function rowsOf({ group_by }: RequestUsageArgs): string {
  return `${group_by === 'guest' ? of_guests : own} and d.day >= $3 and d.day < $4`;
}

function paramsOf({ tenant_id, user_id, from, to }: RequestUsageArgs) {
  return [tenant_id, user_id ?? '', from, to];
}

/** One for each of what is asked for, in the order of their keys, after that one. */
export const requestUsage: Query<
  RequestUsageArgs & { after: string | null; limit: number },
  RequestSums[]
> = (sql, args) => {
  const key = keys[args.group_by];
  return sql.all<RequestSums>(
    `select ${key} as key, ${figures} ${rowsOf(args)} and ($5 = 0 or ${key} > $6)
     group by ${key} order by ${key} limit $7`,
    [...paramsOf(args), args.after === null ? 0 : 1, args.after ?? '', args.limit],
  );
};

/** All of them together. */
export const requestTotal: Query<RequestUsageArgs, RequestSums | undefined> = (sql, args) =>
  sql.get<RequestSums>(`select '' as key, ${figures} ${rowsOf(args)}`, paramsOf(args));

export type NamedKey = Row & {
  id: string;
  /** Of an endpoint key; null: the key of a run. */
  last_four: string | null;
  /** The first endpoint that it opens, or the workload of the run whose it is. */
  workload_name: string;
};

/** Of these keys, those of a tenant; of one user, where one is given. */
export const namedKeys: Query<
  { tenant_id: string; user_id: string | null; ids: readonly string[] },
  NamedKey[]
> = async (sql, { tenant_id, user_id, ids }) => {
  if (ids.length === 0) return [];
  const params = [tenant_id, user_id ?? '', ...ids];
  const made = await sql.all<NamedKey>(
    `select k.id, k.last_four, w.name as workload_name
     from endpoint_keys k join workloads w on w.id = k.workload_id
     where k.tenant_id = $1 and ($2 = '' or k.user_id = $2) and k.id ${sql.in(ids, 3)}`,
    params,
  );
  const of_runs = await sql.all<NamedKey>(
    `select id, null as last_four, name as workload_name from workloads
     where tenant_id = $1 and ($2 = '' or creator_id = $2) and id ${sql.in(ids, 3)}`,
    params,
  );
  return [...made, ...of_runs];
};

export type ShownRequest = RequestRow & {
  /** Null where it came to none, or the machine is another tenant's. */
  machine_name: string | null;
  last_four: string | null;
};

/** One request of the gateway, with its machine's name for those whose machine it is. */
export const readGatewayRequest: Query<{ request_id: string }, ShownRequest | undefined> = (
  sql,
  { request_id },
) =>
  sql.get<ShownRequest>(
    `select r.*, m.name as machine_name, k.last_four from requests r
       left join machines m on m.id = r.machine_id and m.tenant_id = r.tenant_id
       left join endpoint_keys k on k.id = r.key_id
     where r.request_id = $1`,
    [request_id],
  );
