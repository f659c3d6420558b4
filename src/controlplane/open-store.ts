/**
 * Opens the store that was asked for: a SQLite file in the data folder, or a Postgres database.
 *
 * Invariants: whatever a person can mend is an EinsoraError with the command that helps; a
 * database's address is told without its password. Called by system.ts alone.
 */
import { join } from 'node:path';
import { EinsoraError } from '../contract/errors.ts';
import { type Details, isReasonCode } from '../core/reasons.ts';
import type { Clock } from '../lib/clock.ts';
import { makePrivateFolder, writeDurably } from '../lib/files.ts';
import type { Log } from '../lib/log.ts';
import { networkFolder } from '../lib/network-folder.ts';
import type { Random } from '../lib/random.ts';
import type { Secret } from '../lib/secret.ts';
import { openSqliteStore } from '../store/sqlite.ts';
import { type EinsoraStore, transactions } from '../store/transactions.ts';
import { storeRefusal } from './store-refusal.ts';

export type StoreOptions = {
  data_dir: string;
  /** Of a Postgres database; null for the file in the data folder. */
  database_url: Secret | null;
  clock: Clock;
  random: Random;
  log: Log;
};

export function prepareFolder(data_dir: string): void {
  try {
    makePrivateFolder(data_dir);
    writeDurably(join(data_dir, '.writable'), '');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const full = storeRefusal(error, data_dir);
    if (full !== null) throw full;
    throw new EinsoraError('data_dir_unwritable', { data_dir, why }, error);
  }
  const type = networkFolder(data_dir);
  if (type !== null) throw new EinsoraError('data_dir_on_network', { data_dir, type });
}

export async function openStore(options: StoreOptions): Promise<EinsoraStore> {
  const { data_dir, database_url } = options;
  if (database_url === null) return openFile(options).catch(refusedAs({ data_dir }));
  const { openPostgresStore } = await import('../store/postgres.ts');
  const { shownUrl } = await import('../store/postgres-open.ts');
  const { clock, random, log } = options;
  const shared = { url: database_url, folder: data_dir, transactions, clock, random, log };
  const database = shownUrl(database_url);
  return openPostgresStore(shared).catch(refusedAs({ data_dir: database, database }));
}

/** Where the database is, as it may be shown; null for a file. */
export async function shownDatabase(url: Secret | null): Promise<string | null> {
  if (url === null) return null;
  return (await import('../store/postgres-open.ts')).shownUrl(url);
}

function openFile({ data_dir, log }: StoreOptions): Promise<EinsoraStore> {
  const transactions_url = new URL('../store/transactions.ts', import.meta.url).href;
  return openSqliteStore({ folder: data_dir, transactions_url, transactions, log });
}

/** A failure to open that is in the table of reasons, with where the store is. */
function refusedAs(place: Details): (error: unknown) => never {
  return (error) => {
    const { code = '', details } = error as { code?: string; details?: Details };
    if (!isReasonCode(code) || details === undefined) throw error;
    throw new EinsoraError(code, { ...place, ...details }, error);
  };
}
