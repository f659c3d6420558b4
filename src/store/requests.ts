/**
 * Requests of the inference gateway: a row each for a while, and their sums by day for good
 * (ADR-0070).
 *
 * Invariants: written together, so the sums are of just the rows that were written; a request that
 * is there already (a repeat after an unknown outcome) changes nothing; what is forgotten stays in
 * the sums; nothing points at other tables, so nothing of theirs keeps a row from being written.
 */
import { first_token_buckets, firstTokenBucket } from '../core/first-token.ts';
import type { Row, Sql, SqlValue } from './sql.ts';
import { valueRows } from './value-rows.ts';

export type RequestRow = Row & {
  request_id: string;
  at: number;
  key_id: string;
  tenant_id: string;
  user_id: string | null;
  workload_id: string | null;
  replica: number | null;
  run_epoch: number | null;
  machine_id: string | null;
  placed_class: string | null;
  model: string;
  api: string;
  is_stream: number;
  outcome: string;
  status: number | null;
  code: string | null;
  attempts: number;
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  is_estimated: number;
  waited_ms: number;
  first_token_ms: number | null;
  duration_ms: number;
};

const columns = [
  ...(['request_id', 'at', 'key_id', 'tenant_id', 'user_id', 'workload_id', 'replica'] as const),
  ...(['run_epoch', 'machine_id', 'placed_class', 'model', 'api', 'is_stream'] as const),
  ...(['outcome', 'status', 'code', 'attempts', 'prompt_tokens', 'completion_tokens'] as const),
  ...(['cached_tokens', 'is_estimated', 'waited_ms', 'first_token_ms', 'duration_ms'] as const),
];
/** Enough that a statement costs little beside its rows; those that are left over go one by one. */
const rows_of_statement = 8;
const as_they_are = columns.map(() => 'as it is' as const);
const day_ms = 24 * 3600_000;

export type RecordRequestsArgs = {
  rows: RequestRow[];
  /** How many the journal has lost so far, ever. */
  lost: number;
  now: number;
};

export async function recordRequests(
  sql: Sql,
  { rows, lost, now }: RecordRequestsArgs,
): Promise<{ added: number }> {
  const added = new Set<string>();
  const whole = rows.length - (rows.length % rows_of_statement);
  // Few texts, whatever the number of rows: each is compiled once.
  for (let from = 0; from < rows.length; from += from < whole ? rows_of_statement : 1) {
    const some = rows.slice(from, from < whole ? from + rows_of_statement : from + 1);
    for (const { request_id } of await insertRows(sql, some)) added.add(request_id);
  }
  const { size } = added;
  // Each once, also where the same one was given twice.
  for (const day of sumsOf(rows.filter(({ request_id }) => added.delete(request_id)))) {
    await sql.run(
      add_day,
      day_columns.map((name) => day[name] ?? 0),
    );
  }
  await sql.run(
    `update request_journal set written_at = $1,
       lost = case when lost < $2 then cast($2 as bigint) else lost end where id = 1`,
    [now, lost],
  );
  return { added: size };
}

function insertRows(sql: Sql, rows: readonly RequestRow[]): Promise<{ request_id: string }[]> {
  return sql.all<Row & { request_id: string }>(
    `insert into requests (${columns.join(', ')}) values ${valueRows(rows.length, as_they_are)}
     on conflict (request_id) do nothing returning request_id`,
    rows.flatMap((row) => columns.map((name) => row[name])),
  );
}

const key_columns = ['tenant_id', 'day', 'key_id', 'workload_id', 'model', 'outcome'] as const;
export const first_columns = Array.from(
  { length: first_token_buckets },
  (_, bucket) => `first_${bucket}`,
);
const sum_columns = [
  ...(['requests', 'attempts', 'prompt_tokens', 'completion_tokens', 'cached_tokens'] as const),
  ...(['estimated', 'duration_ms'] as const),
];
const day_columns = [...key_columns, 'user_id', ...sum_columns, ...first_columns];
const add_day = `
  insert into request_days (${day_columns.join(', ')})
  values (${day_columns.map((_, index) => `$${index + 1}`).join(', ')})
  on conflict (${key_columns.join(', ')}) do update set ${[...sum_columns, ...first_columns]
    .map((name) => `${name} = request_days.${name} + excluded.${name}`)
    .join(', ')}`;

type Sums = Record<string, SqlValue>;

/** The rows' sums, one for each day, key, endpoint, name of it and outcome. */
function sumsOf(rows: readonly RequestRow[]): Sums[] {
  const sums = new Map<string, Sums>();
  for (const row of rows) {
    const { tenant_id, key_id, workload_id, outcome, first_token_ms } = row;
    const day = Math.floor(row.at / day_ms) * day_ms;
    // What was asked for in vain may be any text: only names that led somewhere are kept apart.
    const model = workload_id === null ? '' : row.model;
    const key = [tenant_id, day, key_id, workload_id ?? '', model, outcome];
    const name = JSON.stringify(key);
    const sum: Sums = sums.get(name) ?? { user_id: row.user_id ?? '' };
    for (const [index, column] of key_columns.entries()) sum[column] = key[index] ?? '';
    sums.set(name, sum);
    const add = (column: string, amount: number) => {
      sum[column] = Number(sum[column] ?? 0) + amount;
    };
    add('requests', 1);
    add('estimated', row.is_estimated);
    for (const column of ['attempts', 'prompt_tokens', 'completion_tokens'] as const) {
      add(column, row[column]);
    }
    for (const column of ['cached_tokens', 'duration_ms'] as const) add(column, row[column]);
    if (first_token_ms !== null) add(`first_${firstTokenBucket(first_token_ms)}`, 1);
  }
  return [...sums.values()];
}

/**
 * Forgets rows of before that moment, at most `limit` of the oldest. Their ids begin with their
 * time, so the oldest come first.
 */
export async function forgetRequests(
  sql: Sql,
  { before, limit }: { before: number; limit: number },
): Promise<{ forgotten: number }> {
  const forgotten = await sql.run(
    `delete from requests where at < $1
       and request_id in (select request_id from requests order by request_id limit $2)`,
    [before, limit],
  );
  return { forgotten };
}

export type OpenedJournal = {
  /** Records lost so far, as far as they could be counted. */
  lost: number;
  /** How often a journal was not closed, so that its last records may be missing. */
  unclean: number;
  /** Of the journal before this one, where it was not closed: when it was written last. */
  unclosed_at: number | null;
};

/** Begins the journal of this process. Not closed by `closeRequestJournal`, it is counted. */
export async function openRequestJournal(
  sql: Sql,
  { now }: { now: number },
): Promise<OpenedJournal> {
  const before = await sql.get<Row & { is_open: number; written_at: number }>(
    'select is_open, written_at from request_journal where id = 1',
  );
  const row = await sql.get<Row & { lost: number; unclean: number }>(
    `insert into request_journal (id, is_open, written_at, lost, unclean) values (1, 1, $1, 0, 0)
     on conflict (id) do update set is_open = 1, written_at = excluded.written_at,
       unclean = request_journal.unclean + request_journal.is_open
     returning lost, unclean`,
    [now],
  );
  return {
    ...{ lost: row?.lost ?? 0, unclean: row?.unclean ?? 0 },
    unclosed_at: before?.is_open === 1 ? before.written_at : null,
  };
}

export async function closeRequestJournal(
  sql: Sql,
  { now, lost }: { now: number; lost: number },
): Promise<{ closed: number }> {
  const closed = await sql.run(
    'update request_journal set is_open = 0, written_at = $1, lost = $2 where id = 1',
    [now, lost],
  );
  return { closed };
}
