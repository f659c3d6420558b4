/**
 * What the store's bench runs, on both engines, in the store and in its bare peers alike: a launch
 * in three statements.
 */
import type { Migration } from '../src/store/migrate.ts';
import type { Sql } from '../src/store/sql.ts';

export type Launch = { id: string; now: number };

export const schema = `
create table launches (
  id text primary key,
  state text not null,
  created_at bigint not null
);
create table launch_events (
  launch_id text not null references launches (id),
  number bigint not null,
  at bigint not null,
  primary key (launch_id, number)
);
create table counters (id integer primary key, generation bigint not null);
insert into counters values (1, 0);
`;

export const statements = [
  `insert into launches (id, state, created_at) values ($1, 'queued', $2)`,
  'insert into launch_events (launch_id, number, at) values ($1, 1, $2)',
  'update counters set generation = generation + 1 where id = 1',
] as const;

export const migrations: readonly Migration[] = [{ version: 1, name: 'bench', text: schema }];

export const transactions = {
  launch: async (sql: Sql, args: Launch): Promise<{ id: string }> => {
    await sql.run(statements[0], [args.id, args.now]);
    await sql.run(statements[1], [args.id, args.now]);
    await sql.run(statements[2]);
    return { id: args.id };
  },
};
