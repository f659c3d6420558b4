/**
 * Empty stores for tests, of each kind that this machine can have.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLog } from '../../src/lib/log.ts';
import type { Engine } from '../../src/store/dump-tables.ts';
import { openMemoryStore } from '../../src/store/memory.ts';
import { openPostgresStore } from '../../src/store/postgres.ts';
import type { Store } from '../../src/store/sql.ts';
import { openMemoryConnection, openSqliteStore } from '../../src/store/sqlite.ts';
import { failingFirst } from './faulty-store.ts';
import { needs } from './parts.ts';
import { createDatabase } from './postgres.ts';
import { type RigTable, transactions } from './rig-transactions.ts';

export type RigStore = Store<RigTable>;
export type StoreKind = 'memory' | 'file' | 'postgres';

/** The one kind on which this process proves that faults leave nothing, or undefined. */
const faulty = process.env.EINSORA_TEST_FAULTS as StoreKind | undefined;

/** The stores that tests of this machine run on. */
export const storeKinds: StoreKind[] = faulty
  ? [faulty]
  : ['memory', 'file', ...(needs('postgres').skip === false ? (['postgres'] as const) : [])];

export type TestStore = {
  store: RigStore;
  /** Ends this store, and gives the next one on the same data. */
  reopen(): Promise<RigStore>;
  close(): Promise<void>;
};

/** An empty store with the program's schema. */
export async function openTestStore(kind: StoreKind): Promise<TestStore> {
  const place = await makePlace(kind);
  const wrapped = async () => {
    const store = await place.open();
    return faulty === kind ? failingFirst(store, place.engine) : store;
  };
  let current = await wrapped();
  return {
    store: current,
    async reopen() {
      await current.close();
      current = await wrapped();
      return current;
    },
    async close() {
      await current.close();
      await place.remove();
    },
  };
}

type Place = { engine: Engine; open(): Promise<RigStore>; remove(): Promise<void> };

async function makePlace(kind: StoreKind): Promise<Place> {
  if (kind === 'memory') {
    const connection = openMemoryConnection();
    return {
      engine: 'sqlite',
      open: async () => openMemoryStore({ transactions, connection }),
      remove: async () => connection.close(),
    };
  }
  const folder = mkdtempSync(join(tmpdir(), 'einsora-rig-'));
  const removeFolder = () => rmSync(folder, { recursive: true, force: true });
  if (kind === 'file') {
    const options = { folder, transactions_url, transactions, log: silentLog };
    const open = () => openSqliteStore(options);
    return { engine: 'sqlite', open, remove: async () => removeFolder() };
  }
  const database = await createDatabase();
  return {
    engine: 'postgres',
    open: () => openPostgresStore({ url: database.url, folder, transactions }),
    async remove() {
      await database.free();
      removeFolder();
    },
  };
}

const transactions_url = new URL('rig-transactions.ts', import.meta.url).href;
