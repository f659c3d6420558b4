/**
 * The store on a real Postgres: its contract, and what happens when connections, the server or
 * another control plane get in the way.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { failureOf, storeContract } from '../../test/contracts/store.ts';
import {
  countBoxes,
  listBoxes,
  migrations,
  transactions,
} from '../../test/contracts/store-transactions.ts';
import { needs } from '../../test/lib/parts.ts';
import { createDatabase, type TestDatabase } from '../../test/lib/postgres.ts';
import { openPostgresStore } from './postgres.ts';

const real = needs('postgres');
const folder = mkdtempSync(join(tmpdir(), 'einsora-postgres-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

function open({ url }: Pick<TestDatabase, 'url'>, takeover_ms = 5000) {
  return openPostgresStore({ url, folder, transactions, migrations, takeover_ms });
}

describe('with a server', real, () => {
  storeContract('Postgres', async () => {
    const database = await createDatabase();
    const store = await open(database);
    const close = async () => {
      await store.close();
    };
    return { ...store, close };
  });
});
