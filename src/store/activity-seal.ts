/**
 * Sealing the activity log, and erasing who acted without breaking the seals (ADR-0031).
 *
 * Invariants: a row gets its number, salt and commitment once, in the transaction that writes the
 * seal over it; seals of a tenant are numbered without a gap, and one writer wins a number; nothing
 * else in the program changes a row, and nothing deletes one.
 */
import {
  commitmentOf,
  type Digest,
  no_hash,
  type PersonalPart,
  type Seal,
  type SealedRow,
  sealHash,
} from '../core/activity-chain.ts';
import { digest } from '../lib/secret.ts';
import { type Action, recordAction } from './activity.ts';
import type { Query, Row, Sql } from './sql.ts';
import { valueRows } from './value-rows.ts';

export type ActivityRow = Row &
  PersonalPart & {
    id: string;
    tenant_id: string;
    at: number;
    via: string;
    request_id: string;
    route: string;
    target: string | null;
    outcome: string;
    seq: number | null;
    salt: string | null;
    commitment: string | null;
  };
type SealRow = Row & Seal;

/** Rows under one seal: few, for who launches waits for the whole of what the writer is at. */
export const rows_per_seal = 50;

export type SealArgs = {
  tenant_id: string;
  now: number;
  /** Random, and forgotten: the salts of this seal come from it. */
  salt_key: string;
};

/** Seals the oldest rows of a tenant that are not sealed; how many they were. */
export async function sealActivity(sql: Sql, args: SealArgs): Promise<{ sealed: number }> {
  const { tenant_id } = args;
  const rows = await sql.all<ActivityRow>(
    `select * from activity where tenant_id = $1 and seq is null order by at, id limit $2`,
    [tenant_id, rows_per_seal],
  );
  if (rows.length === 0) return { sealed: 0 };
  const last = await lastSeal(sql, tenant_id);
  const head = await sql.get<Row & { seq: number | null }>(
    'select max(seq) as seq from activity where tenant_id = $1 and seq is not null',
    [tenant_id],
  );
  const first_seq = Math.max(last?.last_seq ?? 0, head?.seq ?? 0) + 1;
  const sealed = rows.map((row, index) => numbered(row, first_seq + index, args.salt_key, digest));
  const seal = {
    tenant_id,
    number: (last?.number ?? 0) + 1,
    at: Math.max(args.now, last?.at ?? 0),
    first_seq,
    last_seq: first_seq + rows.length - 1,
  };
  const changed = await sql.run(
    sealText(sealed.length),
    sealed.flatMap(({ id, seq, salt, commitment }) => [id, seq, salt, commitment]),
  );
  if (changed !== sealed.length) throw new Error('conflict: rows were sealed meanwhile');
  await sql.run(
    `insert into activity_seals (tenant_id, number, at, first_seq, last_seq, hash)
     values ($1, $2, $3, $4, $5, $6)`,
    [
      tenant_id,
      seal.number,
      seal.at,
      seal.first_seq,
      seal.last_seq,
      sealHash(last?.hash ?? no_hash, seal, sealed, digest),
    ],
  );
  return { sealed: rows.length };
}

const sealed_columns = ['as it is', 'number', 'as it is', 'as it is'] as const;

function sealText(count: number): string {
  return `with sealed (id, seq, salt, commitment) as (values ${valueRows(count, sealed_columns)})
    update activity set seq = sealed.seq, salt = sealed.salt, commitment = sealed.commitment
    from sealed where activity.id = sealed.id and activity.seq is null`;
}

function numbered(row: ActivityRow, seq: number, salt_key: string, digest: Digest): SealedRow {
  const salt = digest(`${salt_key}${row.id}`).slice(0, 32);
  return { ...row, seq, salt, commitment: commitmentOf(row, salt, digest) };
}

function lastSeal(sql: Sql, tenant_id: string): Promise<SealRow | undefined> {
  return sql.get<SealRow>(
    'select * from activity_seals where tenant_id = $1 order by number desc limit 1',
    [tenant_id],
  );
}

const rows_per_erasure = 500;

/**
 * Forgets who a user was in the rows of the log: name, id, proofs, details. What happened, and
 * when, stays. At most 500 rows at a time; `left` says whether to call again.
 */
export async function eraseActivity(
  sql: Sql,
  args: { tenant_id: string; user_id: string; action?: Action },
): Promise<{ erased: number; left: number }> {
  const erased = await sql.run(
    `update activity set user_id = null, actor = null, proof_id = null, client_request_id = null,
       details = '{}', salt = null
     where id in (select id from activity where tenant_id = $1 and user_id = $2
       and seq is not null order by at, id limit $3)`,
    [args.tenant_id, args.user_id, rows_per_erasure],
  );
  const left = await sql.get(
    'select id from activity where tenant_id = $1 and user_id = $2 and seq is not null limit 1',
    [args.tenant_id, args.user_id],
  );
  if (erased > 0) await recordAction(sql, args.action, { target: `user:${args.user_id}` });
  return { erased, left: left === undefined ? 0 : 1 };
}

/** Tenants with rows that are not sealed. */
export const listUnsealed: Query<{ limit: number }, { tenant_id: string }[]> = (sql, args) =>
  sql.all('select distinct tenant_id from activity where seq is null limit $1', [args.limit]);

/** The newest seal of each tenant that has one, in the order of tenants, after one of them. */
export const listHeads: Query<{ after: string; limit: number }, SealRow[]> = (sql, args) =>
  sql.all<SealRow>(
    `select s.* from tenants t join activity_seals s on s.tenant_id = t.id
       and s.number = (select max(x.number) from activity_seals x where x.tenant_id = t.id)
     where t.id > $1 order by t.id limit $2`,
    [args.after, args.limit],
  );

export type SealPage = {
  /** Each with its rows, oldest first. */
  seals: { seal: Seal; rows: SealedRow[] }[];
  /** Hash of the seal before the first of them. */
  previous_hash: string;
  /** Number of the last row that has one, whether a seal covers it or not. */
  head_seq: number;
  more: number;
};

/** Seals with their rows, after a number: at most `limit` of them, and few rows more than 500. */
export const readSeals: Query<
  { tenant_id: string; after: number; limit: number },
  SealPage
> = async (sql, { tenant_id, after, limit }) => {
  const seals = await sql.all<SealRow>(
    'select * from activity_seals where tenant_id = $1 and number > $2 order by number limit $3',
    [tenant_id, after, limit + 1],
  );
  const before = await sql.get<SealRow>(
    'select * from activity_seals where tenant_id = $1 and number = $2',
    [tenant_id, after],
  );
  const head = await sql.get<Row & { seq: number | null }>(
    'select max(seq) as seq from activity where tenant_id = $1 and seq is not null',
    [tenant_id],
  );
  const shown = fitting(seals.slice(0, limit));
  const rows = await sql.all<Row & SealedRow>(
    `select * from activity where tenant_id = $1 and seq between $2 and $3 order by seq limit $4`,
    [tenant_id, shown[0]?.first_seq ?? 0, shown.at(-1)?.last_seq ?? 0, 2 * rows_a_page],
  );
  const rowsOf = ({ first_seq, last_seq }: Seal) =>
    rows.filter(({ seq }) => seq >= first_seq && seq <= last_seq);
  return {
    seals: shown.map((seal) => ({ seal, rows: rowsOf(seal) })),
    previous_hash: before?.hash ?? no_hash,
    head_seq: head?.seq ?? 0,
    more: seals.length > shown.length ? 1 : 0,
  };
};

const rows_a_page = 500;

/** As many from the first as a page has room for, by the rows that they say they have. */
function fitting(seals: readonly SealRow[]): SealRow[] {
  let rows = 0;
  const end = seals.findIndex(({ first_seq, last_seq }) => {
    rows += Math.max(0, last_seq - first_seq + 1);
    return rows > rows_a_page;
  });
  return seals.slice(0, end === -1 ? seals.length : Math.max(1, end));
}

/** Number of the last seal before a moment: 0 for none. */
export const sealBefore: Query<{ tenant_id: string; at: number }, number> = async (sql, args) => {
  const row = await sql.get<Row & { number: number }>(
    `select number from activity_seals where tenant_id = $1 and at < $2
     order by at desc, number desc limit 1`,
    [args.tenant_id, args.at],
  );
  return row?.number ?? 0;
};
