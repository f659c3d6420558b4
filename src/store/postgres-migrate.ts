/**
 * The schema's history on Postgres: the same texts as on SQLite, each once, in order, in a
 * transaction of its own.
 *
 * Invariants: the caller holds the store's lock, so two starts never meet here; a database that a
 * newer version has written is refused before anything is changed; before an upgrade every row is
 * copied to the data folder; a migration that fails leaves nothing behind.
 */
import { join } from 'node:path';
import { dumpStore, writeDump } from './dump.ts';
import {
  type Applied,
  checkApplied,
  checkOrder,
  checksumOf,
  historyTable,
  type Migration,
  migrationFailed,
} from './migrate.ts';
import { createTexts, openSession, type PgConnection } from './postgres-sql.ts';

export type PgMigrateOptions = { now: number; folder: string };

/** Brings the schema to the newest version known. Returns the version found and the one reached. */
export async function migratePostgres(
  connection: PgConnection,
  migrations: readonly Migration[],
  { now, folder }: PgMigrateOptions,
): Promise<{ from: number; to: number }> {
  checkOrder(migrations);
  const from = await checkSchema(connection, migrations);
  const pending = migrations.slice(from);
  if (from > 0 && pending.length > 0) {
    await keepCopy(connection, from, join(folder, `einsora.postgres.before-${from + 1}`));
  }
  for (const migration of pending) await apply(connection, migration, now);
  return { from, to: migrations.length };
}

/** How many migrations the schema has had. Throws MigrationError where they are not these. */
export async function checkSchema(
  connection: PgConnection,
  migrations: readonly Migration[],
): Promise<number> {
  const there = await connection.ask(
    `select 1 as one from pg_catalog.pg_tables
     where schemaname = current_schema() and tablename = 'schema_migrations'`,
    [],
    null,
  );
  if (there.rows.length === 0) return 0;
  const text = 'select version, name, checksum from schema_migrations order by version';
  const applied = (await connection.ask(text, [], null)).rows as Applied[];
  checkApplied(applied, migrations);
  return applied.length;
}

async function apply(connection: PgConnection, migration: Migration, now: number): Promise<void> {
  try {
    // It may build an index over everything; its end is the start's, which people wait for.
    await connection.tell('begin; set local statement_timeout = 0');
    await connection.tell(historyTable);
    await connection.tell(migration.text);
    if (connection.state() !== 'open') throw new Error('it ended its transaction');
    const { version, name } = migration;
    await connection.ask(
      'insert into schema_migrations values ($1, $2, $3, $4)',
      [version, name, checksumOf(migration), now],
      null,
    );
    await connection.tell('commit');
  } catch (error) {
    if (connection.lost()) throw error;
    if (connection.state() !== 'none') await connection.tell('rollback');
    throw migrationFailed(migration, error);
  }
}

/** Every row as it was, beside the store's other files, for whoever must go back. */
async function keepCopy(connection: PgConnection, version: number, path: string): Promise<void> {
  await connection.tell('begin isolation level repeatable read, read only');
  const session = openSession(connection, createTexts(), 'read');
  await writeDump(path, (write) => dumpStore(session.sql, 'postgres', version, write));
  await connection.tell('commit');
}
