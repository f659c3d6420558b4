/**
 * The least that could do the store's work: a worker, one connection, a COMMIT for each message.
 * No savepoints, no names, no checks: what the store costs is measured against it.
 */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { type Launch, schema, statements } from './store-transactions.ts';

const connection = new DatabaseSync(workerData.path);
connection.exec('pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on');
connection.exec(`pragma journal_size_limit = ${64 * 1024 * 1024}; pragma cache_size = -32768`);
connection.exec(schema);
const [workload, event, counter] = statements.map((text) =>
  connection.prepare(text.replaceAll('$', '?')),
);
const begin = connection.prepare('begin immediate');
const commit = connection.prepare('commit');

parentPort?.on('message', (launches: Launch[] | 'close') => {
  if (launches === 'close') {
    connection.close();
    parentPort?.close();
    return;
  }
  begin.run();
  for (const { id, now } of launches) {
    workload?.run(id, now);
    event?.run(id, now);
    counter?.run();
  }
  commit.run();
  parentPort?.postMessage(launches.map(({ id }) => ({ id })));
});
parentPort?.postMessage('ready');
