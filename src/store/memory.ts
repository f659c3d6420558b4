/**
 * The store in this process's memory, for tests and the simulator: the same SQL, gone when closed.
 *
 * Invariants: transactions and queries take turns on the one connection (a second one would be
 * another database), so that each query sees one snapshot without a transaction of its own; args
 * and results travel as JSON, as they do to the worker; a query cannot write.
 */
import { createRunner, decode, encode, errorOf } from './batch.ts';
import { type Migration, migrate } from './migrate.ts';
import { migrations as released } from './migrations/index.ts';
import { createQueue, runQuery } from './reader.ts';
import { type Query, type Store, StoreError, type TransactionTable } from './sql.ts';
import { openMemoryConnection } from './sqlite.ts';
import { type Connection, cacheStatements, type Prepared, type Statements } from './sqlite-sql.ts';

export type MemoryOptions<Table extends TransactionTable> = {
  transactions: Table;
  /** Unless given, the program's own. */
  migrations?: readonly Migration[];
  /** A database in memory that outlives this store, as a file outlives a process. */
  connection?: Connection;
};

export function openMemoryStore<Table extends TransactionTable>(
  options: MemoryOptions<Table>,
): Store<Table> {
  const connection = options.connection ?? openMemoryConnection();
  migrate(connection, options.migrations ?? released, { now: 0 });
  const runner = createRunner(connection, options.transactions);
  const reading = guardReads(connection);
  const enqueue = createQueue();
  let closed = false;

  async function transact(name: string, args: unknown): Promise<unknown> {
    if (closed) throw new StoreError('store_failing', 'the store is closed');
    const job = { name, args: encode(args) };
    const [outcome] = await enqueue(() => runner.run([job]));
    if (!outcome) throw new StoreError('outcome_unknown', 'the engine gave no answer');
    if (!outcome.ok) throw errorOf(outcome.failure);
    return decode(outcome.result);
  }

  return {
    transact: (name, args) => transact(name, args) as Promise<never>,
    read: async (query, args) => {
      if (closed) throw new StoreError('store_failing', 'the store is closed');
      return enqueue(() => reading.run(query, args));
    },
    // Memory does not fail the way a disk does: this never settles.
    failed: new Promise(() => {}),
    close: async () => {
      if (closed) return;
      closed = true;
      await enqueue(async () => {
        if (options.connection === undefined) connection.close();
      });
    },
  };
}

/**
 * Queries that cannot write. A statement is kept from it until it ran once without wanting to: the
 * engine compiles all statements anew whenever that guard is turned, so it stays off where nothing
 * new is run.
 */
function guardReads(connection: Connection) {
  const cached = cacheStatements(connection);
  const harmless = new WeakSet<Prepared>();
  const doubtful: Prepared[] = [];
  const guarded: Statements = {
    ...cached,
    begin: () => {},
    rollback: () => {},
    find(text) {
      const prepared = cached.find(text);
      if (harmless.has(prepared)) return prepared;
      if (doubtful.length === 0) connection.exec('pragma query_only = 1');
      doubtful.push(prepared);
      return prepared;
    },
  };
  return {
    async run<Args, Result>(query: Query<Args, Result>, args: Args): Promise<Result> {
      try {
        const result = await runQuery(guarded, query, args);
        for (const prepared of doubtful) harmless.add(prepared);
        return result;
      } finally {
        if (doubtful.splice(0).length > 0) connection.exec('pragma query_only = 0');
      }
    },
  };
}
