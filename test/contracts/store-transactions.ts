/**
 * The transactions and the schema that the store's conformance suite runs. A file store's worker
 * imports this module by its URL.
 */
import type { Migration } from '../../src/store/migrate.ts';
import type { Json, Sql } from '../../src/store/sql.ts';

export const migrations: readonly Migration[] = [
  {
    version: 1,
    name: 'suite',
    text: `
create table boxes (
  id text primary key,
  label text,
  size bigint not null constraint boxes_size check (size >= 0),
  parent_id text references boxes (id) deferrable initially deferred
);
create unique index boxes_label on boxes (label) where label is not null;
create table items (
  id text primary key,
  box_id text not null references boxes (id),
  weight bigint not null default 0
);
`,
  },
];

type Box = { id: string; label?: string | null; size?: number };

class TooHeavy extends Error {
  readonly code = 'too_heavy';
  readonly details = { limit: 3 };
}

async function addBox(sql: Sql, box: Box): Promise<{ id: string }> {
  await sql.run('insert into boxes (id, label, size) values ($1, $2, $3)', [
    box.id,
    box.label ?? null,
    box.size ?? 0,
  ]);
  return { id: box.id };
}

export const transactions = {
  addBox,
  addItem: async (sql: Sql, args: { id: string; box_id: string }) =>
    sql.get<{ id: string }>('insert into items (id, box_id) values ($1, $2) returning id', [
      args.id,
      args.box_id,
    ]),
  addBoxAndList: async (sql: Sql, box: Box) =>
    sql.all<{ id: string }>('insert into boxes (id, label, size) values ($1, $2, 0) returning id', [
      box.id,
      box.label ?? null,
    ]),
  addThenThrow: async (sql: Sql, args: { id: string }): Promise<void> => {
    await addBox(sql, args);
    throw new Error('changed my mind');
  },
  addThenRefuse: async (sql: Sql, args: { id: string }): Promise<void> => {
    await addBox(sql, args);
    throw new TooHeavy('over the limit');
  },
  /** A caught error must not let the rest of the transaction through. */
  swallowError: async (sql: Sql, args: { id: string; taken: string }): Promise<string> => {
    await addBox(sql, { id: args.id });
    await addBox(sql, { id: args.taken }).catch(() => {});
    return 'swallowed';
  },
  /** A write that nobody awaits still counts. */
  forgetToAwait: async (sql: Sql, args: { id: string }): Promise<void> => {
    void sql.run('insert into boxes (id, size) values ($1, -1)', [args.id]);
  },
  waitForAnother: async (sql: Sql, args: { id: string }): Promise<string> => {
    await addBox(sql, args);
    await new Promise((resolve) => setImmediate(resolve));
    await addBox(sql, { id: `${args.id}-late` });
    return 'late';
  },
  waitForever: async (sql: Sql, args: { id: string }): Promise<void> => {
    await addBox(sql, args);
    await new Promise(() => {});
  },
  endItself: async (sql: Sql, args: { id: string }): Promise<void> => {
    await addBox(sql, args);
    await sql.run('commit');
  },
  /** Postgres only: a function that a test makes. */
  callFlaky: async (sql: Sql, box: Box): Promise<number> => {
    await addBox(sql, box);
    return (await sql.get<{ n: number }>('select flaky() as n'))?.n ?? 0;
  },
  growBoth: async (sql: Sql, args: { first: string; second: string }): Promise<void> => {
    await sql.run('update boxes set size = size + 10 where id = $1', [args.first]);
    await sql.run('update boxes set size = size + 10 where id = $1', [args.second]);
  },
  /** Found out at COMMIT, so that all that was to be committed with it comes to nothing. */
  failAtCommit: async (sql: Sql, args: { id: string }): Promise<void> => {
    await addBox(sql, args);
    await sql.run(`update boxes set parent_id = 'nowhere' where id = $1`, [args.id]);
  },
  /** SQLite only: takes the whole transaction down with it, as a full disk does. */
  endAll: async (sql: Sql, args: { id: string; taken: string }): Promise<void> => {
    await addBox(sql, { id: args.id });
    await sql.run('insert or rollback into boxes (id, size) values ($1, 0)', [args.taken]);
  },
  /** Keeps two ids apart: its answer depends on what ran before it. */
  addIfAbsent: async (sql: Sql, args: { id: string; unless: string }): Promise<boolean> => {
    const found = await sql.get('select id from boxes where id = $1', [args.unless]);
    if (!found) await addBox(sql, { id: args.id });
    return !found;
  },
  echo: async (_sql: Sql, args: { value?: Json }): Promise<Json | undefined> => args.value,
  giveDate: async (): Promise<unknown> => ({ at: new Date(0), gone: undefined }),
  giveBigint: async (): Promise<unknown> => 1n,
  bindValue: async (sql: Sql, args: { value?: Json }) =>
    sql.get('select cast($1 as bigint) as value', [args.value as string]),
  half: async (sql: Sql, args: { of: number }) => sql.get('select $1 / 2 as half', [args.of]),
  grow: async (sql: Sql, args: { id: string; bytes: number }): Promise<void> => {
    await addBox(sql, { id: args.id, label: `${args.id}${'x'.repeat(args.bytes)}` });
  },
  clear: async (sql: Sql, args: { prefix: string }): Promise<number> =>
    sql.run('delete from boxes where substr(id, 1, length($1)) = $1', [args.prefix]),
  /** SQLite only: what the writing connection was set to. */
  writerSettings: async (sql: Sql) =>
    sql.get(`select s.synchronous as synchronous, f.foreign_keys as foreign_keys
      from pragma_synchronous s, pragma_foreign_keys f`),
  endProcess: async (sql: Sql, args: { id: string }): Promise<void> => {
    await addBox(sql, args);
    process.exit(3);
  },
};

export type SuiteTable = typeof transactions;

/** Queries of the suite. */
export const countBoxes = async (sql: Sql, args: { prefix: string }): Promise<number> => {
  const text = 'select count(*) as count from boxes where substr(id, 1, length($1)) = $1';
  return (await sql.get<{ count: number }>(text, [args.prefix]))?.count ?? 0;
};

export const listBoxes = async (sql: Sql, args: { ids: string[] }) =>
  sql.all<{ id: string; label: string | null; size: number }>(
    `select id, label, size from boxes where id ${sql.in(args.ids, 1)} order by id`,
    args.ids,
  );
