/**
 * Queries on one SQLite connection, one after the other.
 *
 * Invariants: each query sees one snapshot, whatever commits meanwhile; none sees an uncommitted
 * row; a query that waits for anything but `sql` fails rather than hold the others up.
 */
import { settleOnSql } from './batch.ts';
import { type Query, StoreError } from './sql.ts';
import { EngineBroken, meaningOf, openSession, type Statements } from './sqlite-sql.ts';

const read_only = 8;

/** Runs one query. The caller sees to it that nothing else uses the connection meanwhile. */
export async function runQuery<Args, Result>(
  statements: Statements,
  query: Query<Args, Result>,
  args: Args,
): Promise<Result> {
  const { connection } = statements;
  try {
    statements.begin();
  } catch (error) {
    throw readingError(meaningOf(error, connection));
  }
  const session = openSession(statements);
  const settled = await settleOnSql(() => query(session.sql, args));
  session.end();
  if (connection.isTransaction) statements.rollback();
  const failure = session.failure();
  if (failure) throw readingError(failure);
  if (!settled.ok) throw settled.error;
  return settled.value;
}

/** A queue of one: each piece of work starts when the one before has settled. */
export function createQueue(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const next = last.then(work, work);
    last = next;
    return next;
  };
}

function readingError(error: Error): Error {
  if (!(error instanceof EngineBroken)) return error;
  return error.message.endsWith(`(${read_only})`)
    ? new StoreError('rejected', 'a query may not write')
    : new StoreError('store_failing', `the store could not be read: ${error.message}`);
}
