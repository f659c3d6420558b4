/**
 * The bare worker of bench/store-bare-worker.ts, with the statements of a whole launch: one
 * connection, a COMMIT for each message, no savepoints, no checks.
 */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { BareLaunch, marks as marksOf, Statement } from './admit-bare.ts';

const { path, statements, marks } = workerData as {
  path: string;
  statements: Statement[];
  marks: typeof marksOf;
};
const connection = new DatabaseSync(path);
connection.exec('pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on');
connection.exec(`pragma journal_size_limit = ${64 * 1024 * 1024}; pragma cache_size = -32768`);

type Fill = (launch: BareLaunch) => string | number | null;
const prepared = statements.map(({ text, params }) => ({
  reads: /^\s*select/i.test(text) || /returning/i.test(text),
  statement: connection.prepare(text.replaceAll('$', '?')),
  fills: params.map(fillOf),
}));
const begin = connection.prepare('begin immediate');
const commit = connection.prepare('commit');

/** A parameter as it is, or with this launch's own values where the marks stand. */
function fillOf(value: string | number | null): Fill {
  if (value === marks.now) return (launch) => launch.now;
  if (typeof value !== 'string' || !value.includes('@')) return () => value;
  const parts = value.split(/@(id|name|key|request)@/);
  return (launch) =>
    parts
      .map((part, index) => (index % 2 === 0 ? part : String(launch[part as 'id' | 'name'])))
      .join('');
}

parentPort?.on('message', (launches: BareLaunch[] | 'close') => {
  if (launches === 'close') {
    connection.close();
    parentPort?.close();
    return;
  }
  begin.run();
  for (const launch of launches) {
    for (const { reads, statement, fills } of prepared) {
      const params = fills.map((fill) => fill(launch));
      if (reads) statement.get(...params);
      else statement.run(...params);
    }
  }
  commit.run();
  parentPort?.postMessage(launches.length);
});
parentPort?.postMessage('ready');
