/**
 * The schema's history: each migration runs once, in order, in a transaction of its own.
 *
 * Invariants: a folder that a newer version has written is refused before anything is changed; a
 * migration that was changed after it ran is refused; a migration that fails leaves nothing behind.
 * Foreign keys are off while one runs, so that it can rebuild a table, and are checked before
 * COMMIT.
 */
import { createHash } from 'node:crypto';
import type { Connection } from './sqlite-sql.ts';

export type Migration = { version: number; name: string; text: string };

export type MigrationErrorCode = 'data_dir_newer' | 'migration_changed' | 'migration_failed';

export class MigrationError extends Error {
  readonly code: MigrationErrorCode;
  readonly details: Record<string, string | number>;
  constructor(code: MigrationErrorCode, message: string, details: Record<string, string | number>) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

export type MigrateOptions = {
  /** Wall-clock milliseconds, for `applied_at`. */
  now: number;
  /** Called once before the first migration of a store that holds data; a throw stops it all. */
  beforeUpgrade?: (from_version: number) => void;
};

/** Brings the schema to the newest version known. Returns the version found and the one reached. */
export function migrate(
  connection: Connection,
  migrations: readonly Migration[],
  options: MigrateOptions,
): { from: number; to: number } {
  checkOrder(migrations);
  const applied = readApplied(connection);
  checkApplied(applied, migrations);
  const pending = migrations.slice(applied.length);
  if (applied.length > 0 && pending.length > 0) options.beforeUpgrade?.(applied.length);
  connection.exec('pragma foreign_keys = off');
  try {
    for (const migration of pending) apply(connection, migration, options.now);
  } finally {
    connection.exec('pragma foreign_keys = on');
  }
  return { from: applied.length, to: migrations.length };
}

/** The table in which a store keeps its own history. */
export const historyTable = `create table if not exists schema_migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at bigint not null
)`;

export function checksumOf(migration: Migration): string {
  return createHash('sha256').update(migration.text).digest('hex');
}

/** A gap in the versions is a mistake of the program. */
export function checkOrder(migrations: readonly Migration[]): void {
  for (const [index, { version, name }] of migrations.entries()) {
    if (version !== index + 1) {
      throw new Error(`migration ${name} is ${version} where ${index + 1} was due`);
    }
  }
}

export type Applied = { version: number; name: string; checksum: string };

function readApplied(connection: Connection): Applied[] {
  const there = connection
    .prepare(`select 1 from sqlite_schema where type = 'table' and name = 'schema_migrations'`)
    .get();
  if (there === undefined) return [];
  const rows = connection
    .prepare('select version, name, checksum from schema_migrations order by version')
    .iterate();
  return [...rows] as Applied[];
}

/** Throws MigrationError where what was applied is newer than, or other than, what is known. */
export function checkApplied(applied: readonly Applied[], migrations: readonly Migration[]): void {
  const found = applied.at(-1)?.version ?? 0;
  const known = migrations.length;
  if (found > known) {
    const message = `the store has schema ${found} and this version knows up to ${known}`;
    throw new MigrationError('data_dir_newer', message, { found, known });
  }
  for (const [index, { version, name, checksum }] of applied.entries()) {
    const migration = migrations[index];
    if (migration?.version === version && checksumOf(migration) === checksum) continue;
    const message = `migration ${version} (${name}) is not the one that made this store`;
    throw new MigrationError('migration_changed', message, { version, name });
  }
}

function apply(connection: Connection, migration: Migration, now: number): void {
  const { version, name } = migration;
  connection.exec('begin immediate');
  try {
    connection.exec(historyTable);
    connection.exec(migration.text);
    if (!connection.isTransaction) throw new Error('it ended its transaction');
    const orphan = connection.prepare('pragma foreign_key_check').get();
    if (orphan !== undefined) throw new Error('it left a row without the row it points at');
    connection
      .prepare('insert into schema_migrations values (?1, ?2, ?3, ?4)')
      .run(BigInt(version), name, checksumOf(migration), BigInt(now));
    connection.exec('commit');
  } catch (error) {
    if (connection.isTransaction) connection.exec('rollback');
    throw migrationFailed(migration, error);
  }
}

export function migrationFailed({ version, name }: Migration, error: unknown): MigrationError {
  const why = error instanceof Error ? error.message : String(error);
  const message = `migration ${version} (${name}) failed: ${why}`;
  return new MigrationError('migration_failed', message, { version, name });
}
