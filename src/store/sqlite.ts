/**
 * The store on one SQLite file: writes go to a worker, reads to a read-only connection here.
 *
 * Invariants: reads never see an uncommitted row (the writer's own connection would show it); the
 * read connection opens only after the schema is up to date and closes before the writer's; the
 * lock on a data folder is the system's and dies with the process. Who opens a store holds the
 * lock.
 */
import { closeSync, existsSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { systemClock } from '../lib/clock.ts';
import { isErrno, syncFolder, writeDurably } from '../lib/files.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { createQueue, runQuery } from './reader.ts';
import { type Store, StoreError, type TransactionTable } from './sql.ts';
import { type Connection, cacheStatements } from './sqlite-sql.ts';
import { startWriter } from './sqlite-writer.ts';

/** Older ones can lose a commit when a checkpoint meets a write: https://sqlite.org/wal.html */
const oldest_sqlite = [3, 51, 3];
/**
 * Short, for the wait stops everything else here; only a recovery or a closing writer causes one.
 */
const read_timeout_ms = 100;

/** There while the store is open: the next one looks at every page where it finds it. */
const open_marker = 'store-open';

export type SqliteOptions<Table extends TransactionTable> = {
  folder: string;
  /** The module that exports `transactions`; the worker imports it by this URL. */
  transactions_url: string;
  /** The same table, for its types: writes are called by its names. */
  transactions: Table;
  log?: Log;
  /** The most pages of 4 KiB that the file may have; beyond them a write is `store_full`. */
  page_limit?: number;
};

/**
 * Opens `<folder>/einsora.db`, creating or migrating it. Throws MigrationError (`data_dir_newer`,
 * `migration_changed`, `migration_failed`), DatabaseError `store_damaged` or StoreError
 * `store_failing`. A store that was not closed is looked through first.
 */
export async function openSqliteStore<Table extends TransactionTable>(
  options: SqliteOptions<Table>,
): Promise<Store<Table>> {
  const version = process.versions.sqlite ?? '0';
  if (!isSupportedSqlite(version)) {
    const oldest = oldest_sqlite.join('.');
    throw new StoreError('store_failing', `SQLite ${version} is too old: ${oldest} is needed`);
  }
  const path = join(options.folder, 'einsora.db');
  createPrivately(path);
  syncFolder(options.folder);
  const { transactions_url, transactions } = options;
  const now = systemClock.now();
  const page_limit = options.page_limit ?? null;
  const marker = join(options.folder, open_marker);
  // Left behind by a process that did not come to close the store.
  const check = existsSync(marker);
  if (!check) writeDurably(marker, '');
  const data = { path, transactions_url, now, page_limit, check };
  const writer = await startWriter(data, options.log ?? silentLog);
  const connection = new DatabaseSync(path, { readOnly: true, timeout: read_timeout_ms });
  const statements = cacheStatements(connection);
  const enqueue = createQueue();
  let closed: Promise<void> | null = null;
  let broken = false;
  void writer.failed.then(() => {
    broken = true;
  });

  async function close(): Promise<void> {
    await enqueue(async () => connection.close());
    await writer.close();
    if (!broken) rmSync(marker, { force: true });
  }

  return {
    transact: (name, args) => {
      if (Object.hasOwn(transactions, name)) return writer.transact(name, args) as Promise<never>;
      return Promise.reject(new StoreError('rejected', `there is no transaction ${name}`));
    },
    read: (query, args) => {
      if (closed) return Promise.reject(new StoreError('store_failing', 'the store is closed'));
      return enqueue(() => runQuery(statements, query, args));
    },
    failed: writer.failed,
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

/** True for 3.51.3 and later. */
export function isSupportedSqlite(version: string): boolean {
  const parts = version.split('.').map(Number);
  for (const [index, least] of oldest_sqlite.entries()) {
    const part = parts[index] ?? 0;
    if (part !== least) return part > least;
  }
  return true;
}

/** A database in memory. */
export type MemoryConnection = Omit<Connection, 'prepare'> & {
  prepare(text: string): ReturnType<Connection['prepare']> & {
    all(...params: (string | number)[]): unknown[];
  };
  /** A copy: the whole of it, as bytes. */
  serialize(): Uint8Array;
  /** What statements and triggers may call by this name. */
  function(name: string, work: (...args: (string | number)[]) => null): void;
};

/** A database in memory, empty or the copy of another one. */
export function openMemoryConnection(copy?: Uint8Array): MemoryConnection {
  const connection = new DatabaseSync(':memory:');
  if (copy !== undefined) connection.deserialize(copy);
  return connection as MemoryConnection;
}

/** A database in a file, alone with it: for who looks at a copy. */
export function openFileConnection(path: string): Connection {
  return new DatabaseSync(path);
}

/**
 * Locks a data folder for this process, or returns null when someone else holds it. The system
 * lets go of the lock when the process ends, however it ends.
 */
export function lockFolder(folder: string): { release(): void } | null {
  const path = join(folder, 'lock.db');
  createPrivately(path);
  const connection = new DatabaseSync(path, { timeout: 0 });
  try {
    connection.exec('begin exclusive');
  } catch (error) {
    connection.close();
    if (isBusy(error)) return null;
    throw error;
  }
  const release = () => {
    process.off('exit', release);
    if (connection.isOpen) connection.close();
  };
  // The listener also keeps the connection: the lock must not go when its last user forgets it.
  process.on('exit', release);
  return { release };
}

/**
 * Makes the file, for this user only, if it is not there. One that is there is not even opened:
 * when a process closes any handle of a file, it loses the locks it has on it.
 */
function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === 5;
}
