/**
 * What the store's bench asks for launches: the store on both engines, and a bare peer of each that
 * batches as it does.
 */
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { openPostgresStore } from '../src/store/postgres.ts';
import { openSqliteStore } from '../src/store/sqlite.ts';
import { createDatabase } from '../test/lib/postgres.ts';
import { openBareClient } from './store-bare-postgres.ts';
import { type Launch, migrations, transactions } from './store-transactions.ts';

export type Target = { launch(args: Launch): Promise<unknown>; close(): Promise<void> };

/** The store's own limit on Postgres. */
const postgres_batch = 64;

export async function openStore(folder: string): Promise<Target> {
  const transactions_url = new URL('./store-transactions.ts', import.meta.url).href;
  const store = await openSqliteStore({ folder, transactions_url, transactions });
  return { launch: (args) => store.transact('launch', args), close: store.close };
}

/** On a server whose folder is given. */
export async function openStoreOnPostgres(server: string, folder: string): Promise<Target> {
  const { url } = await createDatabase(server);
  const store = await openPostgresStore({ url, folder, transactions, migrations });
  return { launch: (args) => store.transact('launch', args), close: store.close };
}

export async function openBare(folder: string): Promise<Target> {
  const worker = new Worker(new URL('./store-bare-worker.ts', import.meta.url), {
    workerData: { path: join(folder, 'bare.db') },
  });
  const ready = Promise.withResolvers<void>();
  let answer = (_: unknown[]) => {};
  worker.on('message', (answers: unknown[] | 'ready') => {
    if (answers === 'ready') ready.resolve();
    else answer(answers);
  });
  await ready.promise;
  return {
    launch: createBatches(Number.POSITIVE_INFINITY, (launches) => {
      worker.postMessage(launches);
      return new Promise((resolve) => {
        answer = resolve;
      });
    }),
    close: () =>
      new Promise((resolve) => {
        worker.once('exit', () => resolve());
        worker.postMessage('close');
      }),
  };
}

export async function openBareOnPostgres(server: string): Promise<Target> {
  const { url } = await createDatabase(server);
  const client = await openBareClient(url.reveal());
  return { launch: createBatches(postgres_batch, client.run), close: client.close };
}

/** Batches as the store does: what is asked for while one batch is under way makes the next. */
function createBatches(
  limit: number,
  run: (launches: Launch[]) => Promise<unknown[]>,
): Target['launch'] {
  type Call = { args: Launch; resolve: (value: unknown) => void };
  let waiting: Call[] = [];
  let busy = false;
  let due = false;
  const flushSoon = () => {
    if (due || busy || waiting.length === 0) return;
    due = true;
    queueMicrotask(() => process.nextTick(flush));
  };
  const flush = async () => {
    due = false;
    busy = true;
    const calls = waiting.slice(0, limit);
    waiting = waiting.slice(calls.length);
    const answers = await run(calls.map((call) => call.args));
    for (const [index, call] of calls.entries()) call.resolve(answers[index]);
    busy = false;
    flushSoon();
  };
  return (args) =>
    new Promise((resolve) => {
      waiting.push({ args, resolve });
      flushSoon();
    });
}
