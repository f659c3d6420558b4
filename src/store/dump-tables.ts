/**
 * Which tables a store has, as its engine tells it: columns, primary key, and an order in which
 * each comes after those it points at.
 *
 * Invariants: the same schema gives the same answer on both engines. The history of the schema is
 * no part of what is dumped: who loads a dump makes the schema first.
 */
import type { Row, Sql } from './sql.ts';

export type Engine = 'sqlite' | 'postgres';
export type Table = { name: string; columns: string[]; key: string[] };

type Texts = { columns: string; links: string };

/** `place` is the column's place in the primary key, 0 outside of it. */
const texts: Record<Engine, Texts> = {
  sqlite: {
    columns: `select t.name as table_name, c.name as column_name, c.pk as place
      from sqlite_schema t, pragma_table_info(t.name) c
      where t.type = 'table' and t.name not in ('schema_migrations')
        and substr(t.name, 1, 7) <> 'sqlite_'
      order by t.name, c.name`,
    links: `select t.name as table_name, f."table" as target
      from sqlite_schema t, pragma_foreign_key_list(t.name) f
      where t.type = 'table' order by t.name, f."table"`,
  },
  postgres: {
    columns: `select cast(c.relname as text) as table_name, cast(a.attname as text) as column_name,
        coalesce(array_position(k.conkey, a.attnum), 0) as place
      from pg_class c
        join pg_namespace n on n.oid = c.relnamespace and n.nspname = current_schema()
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and a.attisdropped = false
        left join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
      where c.relkind = 'r' and c.relname <> 'schema_migrations'
      order by c.relname, a.attname`,
    links: `select cast(c.relname as text) as table_name, cast(t.relname as text) as target
      from pg_constraint k
        join pg_class c on c.oid = k.conrelid
        join pg_class t on t.oid = k.confrelid
        join pg_namespace n on n.oid = c.relnamespace and n.nspname = current_schema()
      where k.contype = 'f' order by c.relname, t.relname`,
  },
};

type ColumnRow = Row & { table_name: string; column_name: string; place: number };
type LinkRow = Row & { table_name: string; target: string };

export async function readTables(sql: Sql, engine: Engine): Promise<Table[]> {
  const columns = await sql.all<ColumnRow>(texts[engine].columns);
  const links = await sql.all<LinkRow>(texts[engine].links);
  const tables = Map.groupBy(columns, (row) => row.table_name);
  return inOrder([...tables.keys()].sort(), links).map((name) => {
    const own = tables.get(name) ?? [];
    const key = own.filter(({ place }) => place > 0).sort((a, b) => a.place - b.place);
    if (key.length === 0) throw new Error(`the table ${name} has no primary key`);
    return {
      name,
      columns: own.map((row) => row.column_name).sort(),
      key: key.map((row) => row.column_name),
    };
  });
}

/** Always the first by name of those whose targets are all there already. */
function inOrder(names: readonly string[], links: readonly LinkRow[]): string[] {
  const left = new Set(names);
  const ordered: string[] = [];
  while (left.size > 0) {
    const next = [...left].find((name) =>
      links.every(({ table_name, target }) =>
        table_name !== name || target === name ? true : !left.has(target),
      ),
    );
    if (next === undefined) throw new Error('tables that point at each other cannot be ordered');
    left.delete(next);
    ordered.push(next);
  }
  return ordered;
}
