/**
 * The writing side of the Postgres store: one connection that holds the lock, batches on it, and
 * what happens when it is lost.
 *
 * Invariants: calls settle in the order in which they were asked, each once; what was lost before
 * its COMMIT is done again on the next connection, what was lost during it is `outcome_unknown`;
 * while Postgres is away calls are refused as `store_failing` after a while, and taken again once
 * it is back. `failed` resolves only when another control plane took the database over.
 */
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { fraction, type Random } from '../lib/random.ts';
import { failed, type Job, type Outcome } from './batch.ts';
import { createCalls, failing } from './calls.ts';
import { DatabaseError } from './database-error.ts';
import type { Migration } from './migrate.ts';
import { type BatchResult, runBatch } from './postgres-batch.ts';
import { reopen, takeOver } from './postgres-open.ts';
import type { PgConnection, Texts } from './postgres-sql.ts';
import { StoreError, type TransactionTable } from './sql.ts';

/** Of each transaction that wrote the server keeps a number at hand, up to 64 in one COMMIT. */
const batch_limit = 64;
/**
 * How often a batch is tried that the server gives up for another's sake, or whose connection dies.
 */
const attempts = 6;
const again_ms = 20;
/** How long a write waits for a Postgres that went away. */
const away_ms = 5000;
const longest_pause_ms = 1000;

export type WriterOptions = {
  transactions: TransactionTable;
  migrations: readonly Migration[];
  folder: string;
  texts: Texts;
  log: Log;
  clock: Clock;
  random: Random;
  takeover_ms: number;
  connect(): Promise<PgConnection>;
};

export type PgWriter = {
  transact(name: string, args: unknown): Promise<unknown>;
  readonly failed: Promise<StoreError>;
  close(): Promise<void>;
};

/** Resolves once the lock is held and the schema is up to date. */
export async function startWriter(options: WriterOptions): Promise<PgWriter> {
  const link = createLink(options, await takeOver(options));
  const calls = createCalls(batch_limit, (jobs) => {
    const told = runAll(options, link, jobs).catch((error) => {
      options.log.error({ why: String(error) }, 'a batch could not be run');
      return jobs.map(() => failed(unknownOutcome(String(error))));
    });
    void told.then((outcomes) => calls.finish(outcomes));
  });
  void link.failed.then((error) => calls.abandon(error.message));
  return {
    transact: calls.add,
    failed: link.failed,
    async close() {
      await calls.drain();
      await link.close();
    },
  };
}

/** Runs jobs together, and each alone where together they came to nothing. */
async function runAll(options: WriterOptions, link: Link, jobs: Job[]): Promise<Outcome[]> {
  const together = await runUntilSettled(options, link, jobs);
  if (together.length === jobs.length) return together;
  const outcomes: Outcome[] = [];
  for (const job of jobs) outcomes.push(...(await runUntilSettled(options, link, [job])));
  return outcomes;
}

/** The outcomes of all jobs; none where several have to be tried one by one. */
async function runUntilSettled(
  { texts, transactions, clock, random, log }: WriterOptions,
  link: Link,
  jobs: readonly Job[],
): Promise<Outcome[]> {
  const all = (error: Error): Outcome[] => jobs.map(() => failed(error));
  for (let attempt = 1; ; attempt += 1) {
    const connection = await link.get();
    if (connection instanceof StoreError) return all(connection);
    const result = await runBatch(connection, texts, transactions, jobs);
    if (result.kind === 'done') return result.outcomes;
    if (result.kind === 'unknown') return all(unknownOutcome(result.why));
    if (result.kind === 'undone') return jobs.length > 1 ? [] : all(result.error);
    log.debug({ attempt, why: whyOf(result) }, 'a batch is tried again');
    if (attempt === attempts) return jobs.length > 1 ? [] : all(failing(whyOf(result)));
    await clock.sleep(again_ms * attempt * (0.5 + fraction(random)));
  }
}

function whyOf(result: Extract<BatchResult, { kind: 'again' | 'lost' }>): string {
  return result.kind === 'again' ? result.why : 'the connection was lost';
}

function unknownOutcome(why: string): StoreError {
  const message = `the connection was lost, and it may have been done or not: ${why}`;
  return new StoreError('outcome_unknown', message);
}

type Link = {
  /** The connection that holds the lock, or why there is none. */
  get(): Promise<PgConnection | StoreError>;
  readonly failed: Promise<StoreError>;
  close(): Promise<void>;
};

/** Keeps one connection, and makes another as soon as it is lost. */
function createLink(options: WriterOptions, first: PgConnection): Link {
  const { clock, random, log } = options;
  const failed_ = Promise.withResolvers<StoreError>();
  const stop = new AbortController();
  let current: Promise<PgConnection | null> = Promise.resolve(first);
  let why = 'Postgres does not answer';

  function watch(connection: PgConnection): PgConnection {
    void connection.over.then(() => {
      if (stop.signal.aborted) return;
      log.warn({ why: connection.lost()?.message ?? null }, 'the connection to Postgres was lost');
      current = reconnect(connection);
    });
    return connection;
  }

  async function reconnect(lost: PgConnection): Promise<PgConnection | null> {
    for (let attempt = 1; !stop.signal.aborted; attempt += 1) {
      try {
        const connection = watch(await reopen(options, lost));
        log.info({ attempt }, 'Postgres is back');
        return connection;
      } catch (error) {
        why = error instanceof Error ? error.message : String(error);
        if (error instanceof DatabaseError && error.code !== 'database_unreachable') {
          failed_.resolve(new StoreError('store_failing', why));
          return null;
        }
      }
      const pause_ms = Math.min(longest_pause_ms, 50 * 2 ** attempt);
      await clock.sleep(pause_ms * (0.5 + fraction(random)), stop.signal);
    }
    return null;
  }

  watch(first);
  return {
    async get() {
      const tired = new AbortController();
      const late = clock.sleep(away_ms, tired.signal).then(() => null);
      const connection = await Promise.race([current, late]);
      tired.abort();
      return connection ?? failing(why);
    },
    failed: failed_.promise,
    async close() {
      stop.abort();
      await (await current)?.end();
    },
  };
}
