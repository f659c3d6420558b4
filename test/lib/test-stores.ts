/**
 * Empty stores for tests, of each kind that this machine can have.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLog } from '../../src/lib/log.ts';
import { openMemoryStore } from '../../src/store/memory.ts';
import { openPostgresStore } from '../../src/store/postgres.ts';
import type { Store } from '../../src/store/sql.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
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

export type TestStore = { store: RigStore; close(): Promise<void> };

/** An empty store with the program's schema. */
export async function openTestStore(kind: StoreKind): Promise<TestStore> {
  const opened = await open(kind);
  if (faulty !== kind) return opened;
  const engine = kind === 'postgres' ? 'postgres' : 'sqlite';
  return { ...opened, store: failingFirst(opened.store, engine) };
}

async function open(kind: StoreKind): Promise<TestStore> {
  if (kind === 'memory') {
    const store = openMemoryStore({ transactions });
    return { store, close: () => store.close() };
  }
  const folder = mkdtempSync(join(tmpdir(), 'einsora-rig-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  if (kind === 'file') {
    const store = await openSqliteStore({ folder, transactions_url, transactions, log: silentLog });
    return {
      store,
      async close() {
        await store.close();
        remove();
      },
    };
  }
  const database = await createDatabase();
  const store = await openPostgresStore({ url: database.url, folder, transactions });
  return {
    store,
    async close() {
      await store.close();
      await database.free();
      remove();
    },
  };
}

const transactions_url = new URL('rig-transactions.ts', import.meta.url).href;
