/**
 * The writing worker: owns the only connection that writes, migrates it, and runs batches.
 *
 * Invariants: an outcome is posted only after its COMMIT is on disk (`synchronous = full`); when
 * the engine cannot say what is on disk the worker says so and ends, and never writes again.
 */
import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { syncFolder } from '../lib/files.ts';
import { createRunner } from './batch.ts';
import { DatabaseError } from './database-error.ts';
import { type Migration, MigrationError, migrate } from './migrate.ts';
import type { TransactionTable } from './sql.ts';
import type { FromWriter, StartFailure, ToWriter, WriterData } from './sqlite-writer.ts';

/** How long a write waits for another process (a backup tool, a shell) that holds the file. */
const busy_timeout_ms = 5000;
const journal_limit_bytes = 64 * 1024 * 1024;
const cache_kib = 32 * 1024;

/**
 * What the module at `transactions_url` exports. Without migrations of its own, the program's run.
 */
type Registry = { transactions: TransactionTable; migrations?: readonly Migration[] };

const port = parentPort;
if (!port) throw new Error('sqlite-worker.ts runs as a worker');
const post = (message: FromWriter) => port.postMessage(message);
process.on('unhandledRejection', (reason) => post({ kind: 'stray', message: String(reason) }));

try {
  await start(workerData as WriterData);
} catch (error) {
  post({ kind: 'refused', failure: startFailure(error) });
}

async function start(data: WriterData): Promise<void> {
  const registry = (await import(data.transactions_url)) as Registry;
  const migrations = registry.migrations ?? (await import('./migrations/index.ts')).migrations;
  const connection = new DatabaseSync(data.path, { timeout: busy_timeout_ms });
  let versions: { from: number; to: number };
  try {
    configure(connection, data);
    if (data.check) lookForDamage(connection);
    versions = migrate(connection, migrations, {
      now: data.now,
      beforeUpgrade: (from) => keepCopy(connection, `${data.path}.before-${from + 1}`),
    });
  } catch (error) {
    connection.close();
    throw error;
  }
  const runner = createRunner(connection, registry.transactions);
  port?.on('message', async (message: ToWriter) => {
    if (message.kind === 'close') {
      connection.close();
      port.close();
      return;
    }
    try {
      post({ kind: 'done', outcomes: await runner.run(message.jobs) });
    } catch (error) {
      post({ kind: 'broken', message: error instanceof Error ? error.message : String(error) });
      process.exit(1);
    }
  });
  post({ kind: 'ready', ...versions });
}

function configure(connection: DatabaseSync, data: WriterData): void {
  const mode = connection.prepare('pragma journal_mode = wal').get()?.journal_mode;
  if (mode !== 'wal') throw new Error(`the disk does not allow a write-ahead log (${mode})`);
  connection.exec('pragma synchronous = full');
  // The savepoint of each transaction of a batch keeps the pages it changes: in a file of their own
  // from 64 KiB on, which costs as much again as the work, unless temporary files are in memory.
  connection.exec('pragma temp_store = memory');
  // A plain fsync on macOS leaves the data in the disk's own cache. Elsewhere these change nothing.
  connection.exec('pragma fullfsync = 1; pragma checkpoint_fullfsync = 1');
  connection.exec(`pragma journal_size_limit = ${journal_limit_bytes}`);
  connection.exec(`pragma cache_size = -${cache_kib}`);
  if (data.page_limit !== null) connection.exec(`pragma max_page_count = ${data.page_limit}`);
}

function lookForDamage(connection: DatabaseSync): void {
  const found = connection.prepare('pragma quick_check(1)').get()?.quick_check;
  if (found !== 'ok') throw new DatabaseError('store_damaged', String(found), {});
}

/** The store as it was, beside it, for whoever must go back to the version before. */
function keepCopy(connection: DatabaseSync, path: string): void {
  const temporary = `${path}.tmp`;
  rmSync(temporary, { force: true });
  // Made by us, for SQLite would make it readable for others; it takes an empty one.
  const file = openSync(temporary, 'wx', 0o600);
  try {
    connection.prepare('vacuum into ?1').run(temporary);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(temporary, path);
  syncFolder(dirname(path));
}

function startFailure(error: unknown): StartFailure {
  if (error instanceof MigrationError) {
    return { code: error.code, message: error.message, details: error.details };
  }
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof DatabaseError || isCorrupt(error)) {
    return { code: 'store_damaged', message, details: {} };
  }
  return { code: 'failed', message: `the store could not be opened: ${message}`, details: {} };
}

/** Pages that contradict each other (11), or no database at all (26). */
function isCorrupt(error: unknown): boolean {
  const code = (error as { errcode?: number } | null)?.errcode ?? 0;
  return [11, 26].includes(code & 0xff);
}
