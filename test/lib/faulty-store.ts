/**
 * A store on which every transaction first fails at each of its statements, one after the other,
 * and only then is let through: any test that runs on it proves that nothing of a transaction that
 * failed stays, and that the same call succeeds afterwards.
 *
 * EINSORA_TEST_FAULTS names the kind of store on which the tests of a process run so;
 * EINSORA_TEST_FAULTS_LOG a file that gets the name of each transaction that was tried.
 */
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { type Engine, readTables } from '../../src/store/dump-tables.ts';
import type { Sql, SqlValue, Store } from '../../src/store/sql.ts';
import { injected, type RigTable } from './rig-transactions.ts';

/** How often each transaction is tried so in a process; what comes after that goes straight in. */
const tries_of_each: Record<Engine, number> = { sqlite: 8, postgres: 3 };
const tries = new Map<string, number>();

/** More statements than any transaction of the tests has. */
const most_statements = 2000;

export function failingFirst(store: Store<RigTable>, engine: Engine): Store<RigTable> {
  const lookAt = createFingerprint(store, engine);
  const log = process.env.EINSORA_TEST_FAULTS_LOG;
  let last: Promise<unknown> = Promise.resolve();

  async function tryAll(name: keyof RigTable & string, args: unknown): Promise<unknown> {
    const tried = tries.get(name) ?? 0;
    if (tried === tries_of_each[engine]) return store.transact(name, args as never);
    tries.set(name, tried + 1);
    if (log !== undefined) appendFileSync(log, `${name}\n`);
    const before = await lookAt();
    for (let at = 1; at < most_statements; at += 1) {
      try {
        return await store.transact('failAt', { name, args: args as never, at });
      } catch (error) {
        if (!(error instanceof Error) || error.message !== injected) throw error;
      }
      assert.equal(await lookAt(), before, `${name} failed at statement ${at}, and left something`);
    }
    return assert.fail(`${name} has no end`);
  }

  return {
    ...store,
    // One after the other: what others wrote meanwhile would look like a trace.
    transact: (name, args) => {
      const next = last.then(() => tryAll(name, args));
      last = next.catch(() => {});
      return next as Promise<never>;
    },
  };
}

/** Everything that is in the store, as one text. */
function createFingerprint(store: Store<RigTable>, engine: Engine): () => Promise<string> {
  let texts: string[] | null = null;
  const read = async (sql: Sql): Promise<string> => {
    texts ??= (await readTables(sql, engine)).map(
      ({ name, key }) => `select * from ${name} order by ${key.join(', ')}`,
    );
    const tables = await Promise.all(texts.map((text) => sql.all<Record<string, SqlValue>>(text)));
    return JSON.stringify(tables);
  };
  return () => store.read(read, null);
}
