/**
 * Named transactions run in batches on one SQLite connection: one durable commit for many.
 *
 * Invariants: a batch's outcomes are told only after its COMMIT; a transaction that fails undoes
 * only its own savepoint; when the engine gave the whole batch up (a full disk, a constraint at
 * COMMIT) each is run again alone, so that only the guilty one fails; a transaction that waits for
 * anything but `sql` is undone and fails. Throws EngineBroken when it cannot know what is on disk.
 */
import { type Json, type Refused, StoreError, type TransactionTable } from './sql.ts';
import {
  type Connection,
  cacheStatements,
  EngineBroken,
  meaningOf,
  openSession,
  type Statements,
} from './sqlite-sql.ts';

/** A call of a named transaction. Args and results travel as JSON text, empty for undefined. */
export type Job = { name: string; args: string };
export type Failure = {
  code: StoreError['code'];
  message: string;
  constraint: string | null;
  refused: Refused | null;
  stack: string | null;
};
export type Outcome = { ok: true; result: string } | { ok: false; failure: Failure };

export type Runner = { run(jobs: readonly Job[]): Promise<Outcome[]> };

export function createRunner(connection: Connection, table: TransactionTable): Runner {
  const statements = cacheStatements(connection);
  const control = prepareControl(connection);

  async function run(jobs: readonly Job[]): Promise<Outcome[]> {
    const together = jobs.length > 1 ? await runTogether(jobs) : null;
    if (together) return together;
    const outcomes: Outcome[] = [];
    for (const job of jobs) outcomes.push(await runAlone(job));
    return outcomes;
  }

  /** Null when the batch as a whole came to nothing. */
  async function runTogether(jobs: readonly Job[]): Promise<Outcome[] | null> {
    const refused = begin();
    if (refused) return jobs.map(() => refused);
    const outcomes: Outcome[] = [];
    try {
      for (const job of jobs) {
        control.savepoint.run();
        const outcome = await attempt(statements, table, job);
        if (!connection.isTransaction) return null;
        if (!outcome.ok) control.undo.run();
        control.release.run();
        outcomes.push(outcome);
      }
      control.commit.run();
      return outcomes;
    } catch (error) {
      giveUp(error);
      return null;
    }
  }

  async function runAlone(job: Job): Promise<Outcome> {
    const refused = begin();
    if (refused) return refused;
    try {
      const outcome = await attempt(statements, table, job);
      if (!connection.isTransaction) {
        return outcome.ok ? failed(new Error('the transaction ended itself')) : outcome;
      }
      if (outcome.ok) control.commit.run();
      else control.rollback.run();
      return outcome;
    } catch (error) {
      return failed(giveUp(error));
    }
  }

  function begin(): Outcome | null {
    try {
      control.begin.run();
      return null;
    } catch (error) {
      return failed(giveUp(error));
    }
  }

  /** Leaves no transaction open; returns what the error means, throws when that is unknown. */
  function giveUp(error: unknown): Error {
    const meaning = meaningOf(error, connection);
    if (meaning instanceof EngineBroken) throw meaning;
    if (connection.isTransaction) control.rollback.run();
    return meaning;
  }

  return { run };
}

function prepareControl(connection: Connection) {
  return {
    begin: connection.prepare('begin immediate'),
    commit: connection.prepare('commit'),
    rollback: connection.prepare('rollback'),
    savepoint: connection.prepare('savepoint one'),
    undo: connection.prepare('rollback to one'),
    release: connection.prepare('release one'),
  };
}

async function attempt(
  statements: Statements,
  table: TransactionTable,
  job: Job,
): Promise<Outcome> {
  const transaction = Object.hasOwn(table, job.name) ? table[job.name] : undefined;
  if (!transaction) return failed(new Error(`there is no transaction ${job.name}`));
  const session = openSession(statements);
  const settled = await settleOnSql(() => transaction(session.sql, decode(job.args) as never));
  session.end();
  const failure = session.failure();
  if (failure instanceof EngineBroken) throw failure;
  if (failure) return failed(failure);
  if (!settled.ok) return failed(settled.error);
  try {
    return { ok: true, result: encode(settled.value) };
  } catch (error) {
    return failed(error);
  }
}

export type Settled<T> = { ok: true; value: T } | { ok: false; error: unknown };

/**
 * Runs work that awaits nothing but `sql`. Such work needs only microtasks, and a tick asked for
 * inside a microtask comes when none is left: by then it has settled, or it waits for something
 * else.
 */
export async function settleOnSql<T>(work: () => Promise<T>): Promise<Settled<T>> {
  await null;
  return new Promise((resolve) => {
    let is_settled = false;
    const settle = (settled: Settled<T>) => {
      is_settled = true;
      resolve(settled);
    };
    const fail = (error: unknown) => settle({ ok: false, error });
    try {
      Promise.resolve(work()).then((value) => settle({ ok: true, value }), fail);
    } catch (error) {
      fail(error);
    }
    process.nextTick(() => {
      // An error is costly to make, and seldom needed here.
      if (!is_settled) fail(new Error('it waited for something other than sql'));
    });
  });
}

export function encode(value: unknown): string {
  return JSON.stringify(value) ?? '';
}

export function decode(text: string): Json | undefined {
  return text === '' ? undefined : (JSON.parse(text) as Json);
}

/** What the caller of a transaction that failed so is told. */
export function failed(error: unknown): Outcome {
  if (error instanceof StoreError) {
    const { code, message, constraint, refused } = error;
    return { ok: false, failure: { code, message, constraint, refused, stack: null } };
  }
  const message = error instanceof Error ? error.message : String(error);
  const refused = refusedOf(error);
  const stack = error instanceof Error && !refused ? (error.stack ?? null) : null;
  return { ok: false, failure: { code: 'rejected', message, constraint: null, refused, stack } };
}

/**
 * An error with a code and details of its own is a refusal: the caller can tell it from a defect.
 */
function refusedOf(error: unknown): Refused | null {
  if (!(error instanceof Error) || !('code' in error) || !('details' in error)) return null;
  const { code, details } = error;
  if (typeof code !== 'string' || typeof details !== 'object' || details === null) return null;
  return { code, details: JSON.parse(JSON.stringify(details)) };
}

/** The error that the caller of a transaction gets. */
export function errorOf(failure: Failure): StoreError {
  const error = new StoreError(failure.code, failure.message, failure.constraint, failure.refused);
  if (failure.stack) error.cause = failure.stack;
  return error;
}
