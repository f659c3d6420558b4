/**
 * A batch of named transactions on one Postgres connection: one COMMIT, and one wait for the disk,
 * for all of them.
 *
 * Invariants: outcomes are told only after COMMIT was answered; a transaction that fails undoes
 * only its own savepoint; what the server gave up as a whole is reported as such, never half; a
 * connection that was lost after COMMIT was sent leaves the outcome `unknown`, before it nothing
 * happened. ADR-0027.
 */
import { decode, encode, failed, type Job, type Outcome } from './batch.ts';
import { Again, meaningOf, openSession, type PgConnection, type Texts } from './postgres-sql.ts';
import type { TransactionTable } from './sql.ts';

export type BatchResult =
  | { kind: 'done'; outcomes: Outcome[] }
  /** Nothing happened, and the same again may succeed. */
  | { kind: 'again'; why: string }
  /** Nothing happened, and the connection is gone. */
  | { kind: 'lost' }
  /** The connection was lost while COMMIT was on its way. */
  | { kind: 'unknown'; why: string }
  /** Nothing happened, for this reason; of several, each has to be tried alone. */
  | { kind: 'undone'; error: Error };

export async function runBatch(
  connection: PgConnection,
  texts: Texts,
  table: TransactionTable,
  jobs: readonly Job[],
): Promise<BatchResult> {
  const together = jobs.length > 1;
  // What is told here is not waited for: it travels with the first statement behind it.
  let control = tellAhead(connection, together ? 'begin; savepoint one' : 'begin');
  const outcomes: Outcome[] = [];
  for (const [index, job] of jobs.entries()) {
    const outcome = await runJob(connection, texts, table, job);
    const refused = await control;
    if (connection.lost()) return { kind: 'lost' };
    if (refused) return undo(connection, refused);
    if (outcome instanceof Again) return undo(connection, outcome);
    if (connection.state() === 'none') return endedItself(outcome);
    outcomes.push(outcome);
    if (index === jobs.length - 1) break;
    const settle = outcome.ok ? 'release one' : 'rollback to one; release one';
    control = tellAhead(connection, `${settle}; savepoint one`);
  }
  return finish(connection, outcomes, together);
}

async function finish(
  connection: PgConnection,
  outcomes: Outcome[],
  together: boolean,
): Promise<BatchResult> {
  const last = outcomes.at(-1);
  if (!together && !last?.ok) {
    await tellAhead(connection, 'rollback');
    return { kind: 'done', outcomes };
  }
  const settle = last?.ok ? 'release one' : 'rollback to one; release one';
  try {
    const tags = await connection.tell(together ? `${settle}; commit` : 'commit');
    // A transaction that can only end answers COMMIT with what it did instead.
    if (tags.at(-1) === 'COMMIT') return { kind: 'done', outcomes };
    return { kind: 'undone', error: new Error(`COMMIT was answered by ${tags.at(-1)}`) };
  } catch (error) {
    const lost = connection.lost();
    if (lost) return { kind: 'unknown', why: lost.message };
    return undo(connection, meaningOf(error));
  }
}

/** Leaves no transaction open. */
async function undo(connection: PgConnection, error: Error): Promise<BatchResult> {
  if (connection.state() !== 'none') await tellAhead(connection, 'rollback');
  return error instanceof Again ? { kind: 'again', why: error.message } : { kind: 'undone', error };
}

function endedItself(outcome: Outcome): BatchResult {
  const why = outcome.ok ? 'the transaction ended itself' : outcome.failure.message;
  return { kind: 'undone', error: new Error(why) };
}

/** Resolves with what went wrong, or null; never rejects, for it may be left alone for a while. */
async function tellAhead(connection: PgConnection, text: string): Promise<Error | null> {
  try {
    await connection.tell(text);
    return null;
  } catch (error) {
    return meaningOf(error);
  }
}

async function runJob(
  connection: PgConnection,
  texts: Texts,
  table: TransactionTable,
  job: Job,
): Promise<Outcome | Again> {
  const transaction = Object.hasOwn(table, job.name) ? table[job.name] : undefined;
  if (!transaction) return failed(new Error(`there is no transaction ${job.name}`));
  const session = openSession(connection, texts, 'write');
  const settled = await session.settle(() => transaction(session.sql, decode(job.args) as never));
  await session.end();
  const failure = session.failure();
  if (failure instanceof Again) return failure;
  if (failure) return failed(failure);
  if (!settled.ok) return failed(settled.error);
  try {
    return { ok: true, result: encode(settled.value) };
  } catch (error) {
    return failed(error);
  }
}
