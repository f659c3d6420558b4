/**
 * The least that could take launches: node:http, JSON.parse, and the statements of a launch on the
 * bare worker. No authentication, no validation, no names, no log: what the API costs is measured
 * against it.
 *
 * Invariants: the statements are those that the program's own launch runs until the workload is
 * queued (the launch, then the first wait of what finds no machine), recorded from one.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Worker } from 'node:worker_threads';
import { openMemoryStore } from '../src/store/memory.ts';
import type { Sql, SqlValue } from '../src/store/sql.ts';
import { transactions } from '../src/store/transactions.ts';
import { launchArgs, newId } from './admit-fill.ts';

export type Statement = { text: string; params: SqlValue[] };
export type BareServer = { url: string; close(): Promise<void> };

/** What one launch with an Idempotency-Key does in the store, until it is queued. */
export async function recordLaunch(names: {
  tenant_id: string;
  user_id: string;
}): Promise<Statement[]> {
  const statements: Statement[] = [];
  const table = {
    ...transactions,
    launchWorkload: (sql: Sql, args: Parameters<typeof transactions.launchWorkload>[1]) =>
      transactions.launchWorkload(recording(sql, statements), args),
    queueWorkloads: (sql: Sql, args: Parameters<typeof transactions.queueWorkloads>[1]) =>
      transactions.queueWorkloads(recording(sql, statements), args),
  };
  const store = openMemoryStore({ transactions: table });
  const who = { ...names, user_name: 'bench', store_uuid: newId(), now: 1 };
  await store.transact('setUp', who);
  const args = launchArgs(names, marks);
  // A row of the activity log for each launch, as the program writes it.
  await store.transact('launchWorkload', { ...args, action: { ...args.action, id: marks.id } });
  await store.transact('queueWorkloads', {
    members: [{ workload_id: marks.id, revision: 1 }],
    ...{ code: 'no_machine_matches', details: { machines: 1 } },
    ...{ now: marks.now, actor: 'controller', request_id: null },
  });
  await store.close();
  return statements;
}

/** Stand in the recorded parameters for what is another in each launch. */
export const marks = { id: '@id@', name: '@name@', key: '@key@', request: '@request@', now: 77 };

function recording(sql: Sql, statements: Statement[]): Sql {
  const note = <T>(text: string, params: readonly SqlValue[], result: Promise<T>) => {
    statements.push({ text, params: [...params] });
    return result;
  };
  return {
    ...sql,
    all: (text, params = []) => note(text, params, sql.all(text, params)),
    get: (text, params = []) => note(text, params, sql.get(text, params)),
    run: (text, params = []) => note(text, params, sql.run(text, params)),
  };
}

/** Serves `POST`, on a database that has the program's schema. */
export async function serveBare(path: string, statements: Statement[]): Promise<BareServer> {
  const worker = new Worker(new URL('./admit-bare-worker.ts', import.meta.url), {
    workerData: { path, statements, marks },
  });
  const launch = await openBatches(worker);
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { name: string };
      const id = newId();
      await launch({ id, name: body.name, key: id, request: id, now: Date.now() });
      const text = JSON.stringify({ id, ...body, state: 'pending' });
      response.writeHead(201, { 'content-type': 'application/json' });
      response.end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      const exited = new Promise((resolve) => worker.once('exit', resolve));
      worker.postMessage('close');
      await exited;
    },
  };
}

export type BareLaunch = { id: string; name: string; key: string; request: string; now: number };

/** Batches as the store does: what is asked for while one batch is under way makes the next. */
async function openBatches(worker: Worker): Promise<(args: BareLaunch) => Promise<void>> {
  type Call = { args: BareLaunch; resolve: () => void };
  let waiting: Call[] = [];
  let under_way: Call[] = [];
  let due = false;
  const ready = Promise.withResolvers<void>();
  const flush = () => {
    due = false;
    under_way = waiting;
    waiting = [];
    worker.postMessage(under_way.map((call) => call.args));
  };
  const flushSoon = () => {
    if (due || under_way.length > 0 || waiting.length === 0) return;
    due = true;
    queueMicrotask(() => process.nextTick(flush));
  };
  worker.on('error', (error) => {
    throw error; // what waits would never be answered
  });
  worker.on('message', (message: 'ready' | number) => {
    if (message === 'ready') return ready.resolve();
    for (const call of under_way) call.resolve();
    under_way = [];
    flushSoon();
  });
  await ready.promise;
  return (args) =>
    new Promise((resolve) => {
      waiting.push({ args, resolve });
      flushSoon();
    });
}
