/** The schema's history: order, checksums, failures, and folders of other versions. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Migration, MigrationError, migrate } from './migrate.ts';
import { migrations as released } from './migrations/index.ts';
import type { Sql } from './sql.ts';
import { openMemoryConnection, openSqliteStore } from './sqlite.ts';

const one: Migration = { version: 1, name: 'one', text: 'create table a (x integer);' };
const two: Migration = {
  version: 2,
  name: 'two',
  text: 'create table b (y integer); insert into a values (7);',
};

function errorOf(work: () => unknown): MigrationError {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof MigrationError, String(error));
    return error;
  }
  return assert.fail('it did not fail');
}

test('migrations run once each, in order, and are recorded with their time', () => {
  const connection = openMemoryConnection();
  assert.deepEqual(migrate(connection, [one], { now: 100 }), { from: 0, to: 1 });
  assert.deepEqual(migrate(connection, [one, two], { now: 200 }), { from: 1, to: 2 });
  assert.deepEqual(migrate(connection, [one, two], { now: 300 }), { from: 2, to: 2 });
  const text = 'select version, name, applied_at from schema_migrations order by version';
  const rows = [...connection.prepare(text).iterate()].map((row) => Object.values(Object(row)));
  assert.deepEqual(rows, [
    [1, 'one', 100],
    [2, 'two', 200],
  ]);
  assert.equal([...connection.prepare('select x from a').iterate()].length, 1);
});

test('a store of a newer version is refused before anything is done', () => {
  const connection = openMemoryConnection();
  migrate(connection, [one, two], { now: 1 });
  const error = errorOf(() => migrate(connection, [one], { now: 2 }));
  assert.equal(error.code, 'data_dir_newer');
  assert.deepEqual(error.details, { found: 2, known: 1 });
});

test('a migration that was changed after it ran is refused', () => {
  const connection = openMemoryConnection();
  migrate(connection, [one], { now: 1 });
  const changed = { ...one, text: `${one.text} -- changed` };
  const error = errorOf(() => migrate(connection, [changed, two], { now: 2 }));
  assert.equal(error.code, 'migration_changed');
  assert.deepEqual(error.details, { version: 1, name: 'one' });
});

test('a migration that fails leaves nothing behind, and those before it stay', () => {
  const bad = 'create table b (y integer); insert into nowhere values (1);';
  const orphan = `create table p (id integer primary key);
    create table c (p integer references p (id)); insert into c values (1);`;
  for (const text of [bad, orphan]) {
    const connection = openMemoryConnection();
    const failing = { version: 2, name: 'failing', text };
    const error = errorOf(() => migrate(connection, [one, failing], { now: 1 }));
    assert.equal(error.code, 'migration_failed');
    assert.equal(connection.isTransaction, false);
    assert.deepEqual(migrate(connection, [one], { now: 2 }), { from: 1, to: 1 });
  }
});

test('a migration that ends its own transaction is refused', () => {
  const connection = openMemoryConnection();
  const ending = { ...one, text: `${one.text} commit;` };
  const error = errorOf(() => migrate(connection, [ending], { now: 1 }));
  assert.match(error.message, /it ended its transaction/);
});

test('a migration may rebuild a table that others point at', () => {
  const connection = openMemoryConnection();
  const before = `create table p (id integer primary key);
    create table c (p integer references p (id) on delete cascade);
    insert into p values (1); insert into c values (1);`;
  const rebuild = `create table p2 (id integer primary key, more text);
    insert into p2 (id) select id from p; drop table p; alter table p2 rename to p;`;
  const history = [
    { version: 1, name: 'before', text: before },
    { version: 2, name: 'rebuild', text: rebuild },
  ];
  migrate(connection, history, { now: 1 });
  assert.equal([...connection.prepare('select p from c').iterate()].length, 1);
  assert.throws(() => connection.exec('insert into c values (9)'), /FOREIGN KEY/);
});

test('a gap in the versions is a mistake of the program', () => {
  const connection = openMemoryConnection();
  assert.throws(() => migrate(connection, [two], { now: 1 }), /is 2 where 1 was due/);
});

test('the migrations of this version run on an empty store', () => {
  const connection = openMemoryConnection();
  assert.equal(migrate(connection, released, { now: 1 }).to, released.length);
  const row = connection.prepare(`select value from meta where key = 'none'`).get();
  assert.equal(row, undefined);
});

test('a file is copied before an upgrade, and an older program refuses it afterwards', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-migrate-'));
  const open = (migrations: readonly Migration[]) => {
    const module = `export const transactions = {};
      export const migrations = ${JSON.stringify(migrations)};`;
    const transactions_url = `data:text/javascript,${encodeURIComponent(module)}`;
    return openSqliteStore({ folder, transactions_url, transactions: {} });
  };
  const count = (sql: Sql) => sql.get('select count(*) as count from a');
  try {
    await (await open([one])).close();
    assert.equal(existsSync(join(folder, 'einsora.db.before-2')), false);
    const upgraded = await open([one, two]);
    assert.deepEqual(await upgraded.read(count, null), { count: 1 });
    await upgraded.close();
    assert.equal(existsSync(join(folder, 'einsora.db.before-2')), true);
    await assert.rejects(open([one]), {
      code: 'data_dir_newer',
      details: { found: 2, known: 1 },
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
