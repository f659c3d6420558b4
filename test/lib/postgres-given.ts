/**
 * What tests of the Postgres store begin with: a store over a wire that can be cut, and a
 * connection of somebody else beside it.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import type { Secret } from '../../src/lib/secret.ts';
import { connectPostgres, openPostgresStore } from '../../src/store/postgres.ts';
import type { PgConnection } from '../../src/store/postgres-sql.ts';
import type { Store } from '../../src/store/sql.ts';
import { migrations, type SuiteTable, transactions } from '../contracts/store-transactions.ts';
import type { FakeClock } from './fake-clock.ts';
import { needs } from './parts.ts';
import { createDatabase } from './postgres.ts';
import { stretchWire, type Wire } from './postgres-wire.ts';

export const real = needs('postgres');
const folder = mkdtempSync(join(tmpdir(), 'einsora-postgres-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

export function open(url: Secret, takeover_ms = 5000, clock: Clock = systemClock) {
  return openPostgresStore({ url, folder, transactions, migrations, takeover_ms, clock });
}

export type Given = { store: Store<SuiteTable>; url: Secret; wire: Wire; beside: PgConnection };

/** A store over a wire that can be cut, and a connection of somebody else beside it. */
export function given(name: string, body: (given: Given) => Promise<void>): void {
  test(name, real, async () => {
    const database = await createDatabase();
    const wire = await stretchWire(database);
    const store = await open(wire.url, 500);
    const beside = await connectPostgres(database.url);
    try {
      await body({ store, wire, beside, url: database.url });
    } finally {
      await beside.end();
      await store.close();
      await wire.close();
      await database.free();
    }
  });
}

/** Lets time pass until it settles, in steps that leave the server time to answer. */
export async function passing(clock: FakeClock, work: Promise<unknown>): Promise<void> {
  let settled = false;
  const settle = () => {
    settled = true;
  };
  work.then(settle, settle);
  while (!settled) {
    await clock.advance(20);
    await systemClock.sleep(2);
  }
}

/** Until so many sessions wait for a lock. */
export async function untilWaiting(beside: PgConnection, count: number): Promise<void> {
  await untilSql(beside, `select count(*) as n from pg_locks where granted = false`, count);
}

export async function untilFree(beside: PgConnection): Promise<void> {
  const text = `select count(*) as n from pg_locks where locktype = 'advisory' and database =
    (select oid from pg_database where datname = current_database())`;
  await untilSql(beside, text, 0);
}

async function untilSql(beside: PgConnection, text: string, count: number): Promise<void> {
  for (let turn = 0; turn < 500; turn += 1) {
    const { rows } = await beside.ask(text, [], null);
    if (rows[0]?.n === count) return;
    await systemClock.sleep(10);
  }
  assert.fail(`never so: ${text}`);
}
