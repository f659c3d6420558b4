/**
 * Every row of a store as lines of JSON that either engine can read back.
 *
 * Invariants: the same rows give the same lines, whatever the engine (tables in an order in which
 * each row comes after the rows it points at, rows by primary key, columns by name); memory is
 * bounded by a page of rows; the last line counts the rows, so a dump that was cut short is
 * refused; both functions await nothing but `sql`. Who calls it sees to it that all is read from
 * one snapshot.
 */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFolder } from '../lib/files.ts';
import { type Engine, readTables, type Table } from './dump-tables.ts';
import type { Row, Sql, SqlValue } from './sql.ts';

const format = 'einsora.store-dump/v1';
const page_rows = 500;

/** Calls `write` with each line. `version` is that of the schema. */
export async function dumpStore(
  sql: Sql,
  engine: Engine,
  version: number,
  write: (line: string) => void,
): Promise<void> {
  const tables = await readTables(sql, engine);
  const line = (value: unknown) => write(`${JSON.stringify(value)}\n`);
  line({ format, version });
  let rows = 0;
  for (const table of tables) {
    line({ table: table.name, columns: table.columns });
    rows += await dumpTable(sql, table, line);
  }
  line({ rows });
}

async function dumpTable(sql: Sql, table: Table, line: (row: unknown) => void): Promise<number> {
  const { name, columns, key } = table;
  const order = key.join(', ');
  const places = key.map((_, index) => `$${index + 1}`).join(', ');
  let after: SqlValue[] | null = null;
  for (let count = 0; ; ) {
    const where: string = after === null ? '' : `where (${order}) > (${places})`;
    const rows: Row[] = await sql.all(
      `select ${columns.join(', ')} from ${name} ${where} order by ${order} limit ${page_rows}`,
      after ?? [],
    );
    for (const row of rows) line(columns.map((column) => row[column] ?? null));
    count += rows.length;
    const last = rows.at(-1);
    if (last === undefined || rows.length < page_rows) return count;
    after = key.map((column) => last[column] ?? null);
  }
}

type Header = { format: string; version: number };
type TableLine = { table: string; columns: string[] };
type EndLine = { rows: number };

/**
 * Fills a store that has the schema of the dump's version. What its migrations put there themselves
 * is replaced. Throws on lines that are no whole dump; the caller's transaction is then undone.
 */
export async function loadStore(
  sql: Sql,
  engine: Engine,
  version: number,
  lines: Iterable<string>,
): Promise<{ rows: number }> {
  const known = await readTables(sql, engine);
  for (const table of known.toReversed()) await sql.run(`delete from ${table.name}`);
  let insert: string | null = null;
  let width = 0;
  let rows = 0;
  let started = false;
  for (const text of lines) {
    const line = JSON.parse(text) as SqlValue[] | Header | TableLine | EndLine;
    if (!started) {
      checkHeader(line, version);
      started = true;
    } else if (Array.isArray(line)) {
      if (insert === null || line.length !== width) throw new Error('a row without its table');
      await sql.run(insert, line);
      rows += 1;
    } else if ('table' in line) {
      insert = insertInto(known, line);
      width = line.columns.length;
    } else {
      if (!('rows' in line) || line.rows !== rows) throw new Error('rows are missing in the dump');
      return { rows };
    }
  }
  throw new Error('the dump has no end');
}

function checkHeader(line: object, version: number): void {
  const header = line as Partial<Header>;
  if (header.format !== format) throw new Error('this is no dump of a store');
  if (header.version === version) return;
  throw new Error(`the dump has schema ${header.version}, this store ${version}`);
}

/** Names come from a file: only those that the store has itself are used. */
function insertInto(known: readonly Table[], { table, columns }: TableLine): string {
  const found = known.find(({ name }) => name === table);
  if (!found) throw new Error(`the store has no table ${table}`);
  const strange = columns.find((column) => !found.columns.includes(column));
  if (strange !== undefined) throw new Error(`${table} has no column ${strange}`);
  const places = columns.map((_, index) => `$${index + 1}`).join(', ');
  return `insert into ${found.name} (${columns.join(', ')}) values (${places})`;
}

/** A private file that holds all that `fill` wrote, or is not there. */
export async function writeDump(
  path: string,
  fill: (write: (line: string) => void) => Promise<void>,
): Promise<void> {
  const temporary = `${path}.tmp`;
  rmSync(temporary, { force: true });
  const file = openSync(temporary, 'wx', 0o600);
  try {
    await fill((line) => writeAll(file, line));
    fsyncSync(file);
  } catch (error) {
    closeSync(file);
    rmSync(temporary, { force: true });
    throw error;
  }
  closeSync(file);
  renameSync(temporary, path);
  syncFolder(dirname(path));
}

/** A disk that fills up may take a part of a line: the rest then fails. */
function writeAll(file: number, line: string): void {
  const bytes = Buffer.from(line);
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
}
