/**
 * The released migrations, stopped at every single statement: nothing is half-done, the next start
 * completes, and the copy that was kept before can be read back.
 */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { needs } from '../../test/lib/parts.ts';
import { createDatabase } from '../../test/lib/postgres.ts';
import { statementsOf } from '../../test/lib/sql-statements.ts';
import type { Secret } from '../lib/secret.ts';
import { dumpStore, loadStore } from './dump.ts';
import type { Engine } from './dump-tables.ts';
import { openMemoryStore } from './memory.ts';
import { type Migration, migrate } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import { connectPostgres, openPostgresStore } from './postgres.ts';
import type { PgConnection } from './postgres-sql.ts';
import type { Row, Sql } from './sql.ts';
import { openFileConnection, openSqliteStore } from './sqlite.ts';
import type { Connection } from './sqlite-sql.ts';
import { transactions as released } from './transactions.ts';

const folder = mkdtempSync(join(tmpdir(), 'einsora-crash-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const known = (version: number) => migrations.slice(0, version);

class Crash extends Error {}

/** A connection of a process that dies at its n-th statement, and does nothing more after that. */
function dying(real: Connection, at: number): Connection {
  let count = 0;
  const step = <T>(work: () => T): T => {
    count += 1;
    if (count >= at) throw new Crash(`at ${at}`);
    return work();
  };
  return {
    get isTransaction() {
      return real.isTransaction;
    },
    exec: (text) => {
      for (const statement of statementsOf(text)) step(() => real.exec(statement));
    },
    prepare: (text) => {
      const statement = real.prepare(text);
      return {
        setReturnArrays: (enabled) => statement.setReturnArrays(enabled),
        columns: () => statement.columns(),
        get: (...params) => step(() => statement.get(...params)),
        iterate: (...params) => step(() => statement.iterate(...params)),
        all: (...params) => step(() => statement.all(...params)),
        run: (...params) => step(() => statement.run(...params)),
      };
    },
    close: () => real.close(),
  };
}

/** The file and its log as a process that was killed leaves them. */
function copyOf(path: string, to: string): void {
  for (const suffix of ['', '-wal']) {
    rmSync(`${to}${suffix}`, { force: true });
    if (existsSync(`${path}${suffix}`)) copyFileSync(`${path}${suffix}`, `${to}${suffix}`);
  }
  rmSync(`${to}-shm`, { force: true });
}

const schemaText = 'select name, sql from sqlite_schema order by name';
const schemaOf = (connection: Connection) =>
  JSON.stringify([...connection.prepare(schemaText).iterate()]);

function wholeSchema(version: number): string {
  const connection = openFileConnection(':memory:');
  migrate(connection, known(version), { now: 1 });
  return schemaOf(connection);
}

test('a file whose upgrade is killed at any statement is whole, and the next start ends it', () => {
  const path = join(folder, 'live.db');
  const image = join(folder, 'image.db');
  const whole = wholeSchema(migrations.length);
  let crashes = 0;
  for (const { version } of migrations) {
    const [before, after] = [version === 1 ? '[]' : wholeSchema(version - 1), wholeSchema(version)];
    for (let at = 1, crashed = true; crashed; at += 1) {
      const live = openFileConnection(path);
      live.exec('pragma journal_mode = wal');
      try {
        migrate(dying(live, at), known(version), { now: 1 });
        crashed = false;
      } catch {
        crashes += 1;
      }
      copyOf(path, image);
      live.close();
      copyOf(image, path);
      const survivor = openFileConnection(image);
      survivor.exec('pragma synchronous = off');
      const found = schemaOf(survivor);
      if (found !== after) assert.equal(found, before, `step ${version}, statement ${at}`);
      assert.equal(migrate(survivor, migrations, { now: 2 }).to, migrations.length);
      assert.equal(schemaOf(survivor), whole);
      survivor.close();
      if (found === after) crashed = false;
    }
  }
  const statements = migrations.flatMap(({ text }) => statementsOf(text));
  assert.ok(crashes >= statements.length, `${crashes} of ${statements.length}`);
});

const catalog = [
  `select cast(c.relname as text) as a, cast(a.attname as text) as b,
     format_type(a.atttypid, a.atttypmod) as c, cast(a.attnotnull as int) as d
   from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
   where c.relnamespace = cast('public' as regnamespace) and c.relkind = 'r' order by 1, 2`,
  `select indexname as a, indexdef as b from pg_indexes where schemaname = 'public' order by 1`,
  `select conname as a, pg_get_constraintdef(oid) as b from pg_constraint
   where connamespace = cast('public' as regnamespace) order by 1, 2`,
];

async function catalogOf(beside: PgConnection): Promise<string> {
  const parts: Row[][] = [];
  for (const text of catalog) parts.push((await beside.ask(text, [], null)).rows);
  return JSON.stringify(parts);
}

function open(url: Secret, history: readonly Migration[]) {
  return openPostgresStore({ url, folder, transactions: {}, migrations: history });
}

test(
  'a database whose upgrade is cut off at any statement is whole as well',
  needs('postgres'),
  async () => {
    const [database, other] = [await createDatabase(), await createDatabase()];
    const beside = await connectPostgres(database.url);
    const beside_other = await connectPostgres(other.url);
    const endings = ['select pg_terminate_backend(pg_backend_pid())', 'select 1 from nowhere'];
    for (const { version, name, text } of migrations) {
      const before = await catalogOf(beside);
      const statements = statementsOf(text);
      for (let count = 0; count <= statements.length; count += 1) {
        const ending = endings[count === statements.length ? 1 : 0];
        const cut = [...statements.slice(0, count), ending].join(';\n');
        const history = [...known(version - 1), { version, name, text: cut }];
        await assert.rejects(open(database.url, history), /terminat|does not exist/);
        const found = await catalogOf(beside);
        // The first that ran at all has made the table of the history, as each does in its own.
        assert.equal(found, before, `step ${version} (${name}), statement ${count}`);
      }
      await (await open(database.url, known(version))).close();
    }
    await (await open(other.url, migrations)).close();
    assert.equal(await catalogOf(beside), await catalogOf(beside_other));
    for (const connection of [beside, beside_other]) await connection.end();
    for (const { free } of [database, other]) await free();
  },
);

const row = `insert into tenants (id, slug, name, created_at) values ('t', 'slug', 'näme', 5)`;
const newer: Migration = {
  version: migrations.length + 1,
  name: 'newer',
  text: 'alter table tenants add column more bigint not null default 0;',
};

/** What a copy before an upgrade of either engine holds can be read into either. */
async function checkLoads(version: number, lines: string[]): Promise<void> {
  const transactions = {
    load: (sql: Sql, args: { lines: string[] }) => loadStore(sql, 'sqlite', version, args.lines),
  };
  const store = openMemoryStore({ transactions });
  await store.transact('load', { lines });
  assert.deepEqual(await store.read(dump, { engine: 'sqlite', version }), lines);
  assert.ok(lines.some((line) => line.includes('"näme"')));
  await assert.rejects(store.transact('load', { lines: lines.slice(0, -1) }), /has no end/);
  const fewer = lines.filter((line) => !line.includes('"näme"'));
  await assert.rejects(store.transact('load', { lines: fewer }), /are missing/);
  assert.deepEqual(await store.read(dump, { engine: 'sqlite', version }), lines);
  await store.close();
}

async function dump(sql: Sql, args: { engine: Engine; version: number }): Promise<string[]> {
  const lines: string[] = [];
  await dumpStore(sql, args.engine, args.version, (line) => lines.push(line));
  return lines;
}

test('the copy of a file before its upgrade opens, is private, and loads elsewhere', async () => {
  const own = mkdtempSync(join(folder, 'file-'));
  const openFile = (history: readonly Migration[]) => {
    const module = `export const transactions = { add: (sql) => sql.run(${JSON.stringify(row)}) };
      export const migrations = ${JSON.stringify(history)};`;
    const transactions_url = `data:text/javascript,${encodeURIComponent(module)}`;
    const transactions = { add: (sql: Sql, _: null) => sql.run(row) };
    return openSqliteStore({ folder: own, transactions_url, transactions });
  };
  const first = await openFile(migrations);
  await first.transact('add', null);
  await first.close();
  await (await openFile([...migrations, newer])).close();
  const copy = join(own, `einsora.db.before-${newer.version}`);
  assert.equal(statSync(copy).mode & 0o777, 0o600);
  const connection = openFileConnection(copy);
  assert.equal(migrate(connection, migrations, { now: 1 }).from, migrations.length);
  connection.close();
  copyFileSync(copy, join(own, 'einsora.db'));
  const back = await openFile(migrations);
  await checkLoads(
    migrations.length,
    await back.read(dump, { engine: 'sqlite', version: migrations.length }),
  );
  await back.close();
});

test(
  'the copy of a database before its upgrade is private and loads elsewhere',
  needs('postgres'),
  async () => {
    const database = await createDatabase();
    const transactions = { ...released, add: (sql: Sql, _: null) => sql.run(row) };
    const options = { url: database.url, folder, transactions };
    const first = await openPostgresStore(options);
    await first.transact('add', null);
    await first.close();
    await (await openPostgresStore({ ...options, migrations: [...migrations, newer] })).close();
    const copy = join(folder, `einsora.postgres.before-${newer.version}`);
    assert.equal(statSync(copy).mode & 0o777, 0o600);
    const lines = readFileSync(copy, 'utf8').split(/(?<=\n)/);
    await checkLoads(migrations.length, lines);
    await assert.rejects(openPostgresStore(options), { code: 'data_dir_newer' });
    await database.free();
  },
);
