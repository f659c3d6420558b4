/**
 * The store on a Postgres database: writes on one connection that holds the deployment's lock,
 * reads on a small pool.
 *
 * Invariants: whoever writes holds the lock, on that very connection, so two control planes never
 * write one database; reads are read-only snapshots and wait for no write; a database that went
 * away is no reason to end the process, one that another control plane took over is. ADR-0027. The
 * only file that knows `pg`; loaded where a database is configured.
 */
import { hostname } from 'node:os';
import { Client, type ClientConfig, Pool, type PoolClient, Query, type QueryResult } from 'pg';
import { type Clock, systemClock } from '../lib/clock.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { type Random, systemRandom } from '../lib/random.ts';
import type { Secret } from '../lib/secret.ts';
import type { Migration } from './migrate.ts';
import { migrations as released } from './migrations/index.ts';
import { inspect, shownUrl } from './postgres-open.ts';
import { createReader, type Lease } from './postgres-reader.ts';
import {
  checkType,
  createTexts,
  type PgAnswer,
  type PgConnection,
  parserOf,
} from './postgres-sql.ts';
import { startWriter } from './postgres-writer.ts';
import { type Row, type SqlValue, type Store, StoreError, type TransactionTable } from './sql.ts';
import { row_limit, tooManyRows } from './statements.ts';

const connect_timeout_ms = 5000;
const statement_timeout_ms = 5000;
const idle_in_transaction_ms = 10_000;
/** Beyond the server's own limit, and long enough for a slow disk to COMMIT. */
const answer_timeout_ms = 20_000;
const end_timeout_ms = 2000;
const readers = 4;

export type PostgresOptions<Table extends TransactionTable> = {
  /** `postgres://user:password@host/database`; never printed. */
  url: Secret;
  /** Where a copy is kept before the schema is changed. */
  folder: string;
  transactions: Table;
  /** Unless given, the program's own. */
  migrations?: readonly Migration[];
  log?: Log;
  clock?: Clock;
  random?: Random;
  /** How long the lock of a control plane that was killed is waited for. */
  takeover_ms?: number;
};

/**
 * Opens the database, migrating it. Throws MigrationError, or DatabaseError (`database_in_use`,
 * `database_unreachable`, `database_unsuitable`).
 */
export async function openPostgresStore<Table extends TransactionTable>(
  options: PostgresOptions<Table>,
): Promise<Store<Table>> {
  const { url, transactions, folder } = options;
  const { log = silentLog, clock = systemClock, random = systemRandom } = options;
  const config = configOf(url);
  const texts = createTexts();
  const writer = await startWriter({
    ...{ transactions, folder, texts, log, clock, random },
    migrations: options.migrations ?? released,
    takeover_ms: options.takeover_ms ?? 10_000,
    connect: () => connect(config, clock),
  });
  const pool = openPool(config, clock, log);
  const reader = createReader(pool.lease, texts);
  let closed: Promise<void> | null = null;
  async function close(): Promise<void> {
    // Reads that a server owes an answer for longer than a statement may take get none.
    const cancel = clock.after(statement_timeout_ms + end_timeout_ms, pool.cut);
    await Promise.all([writer.close(), reader.drain()]);
    await pool.end();
    cancel();
  }
  return {
    transact: (name, args) => {
      if (Object.hasOwn(transactions, name)) return writer.transact(name, args) as Promise<never>;
      return Promise.reject(new StoreError('rejected', `there is no transaction ${name}`));
    },
    read: (query, args) => reader.read(query, args),
    failed: writer.failed,
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

function configOf(url: Secret): ClientConfig {
  return {
    connectionString: url.reveal(),
    // For people who look at pg_stat_activity, and for the one who is told who holds the lock.
    application_name: `einsora on ${hostname()}, process ${process.pid}`.slice(0, 63),
    connectionTimeoutMillis: connect_timeout_ms,
    statement_timeout: statement_timeout_ms,
    idle_in_transaction_session_timeout: idle_in_transaction_ms,
    keepAlive: true,
    pipeline: true,
    types: { getTypeParser: parserOf as never },
  };
}

/** What is found at an address, which is told without its password. */
export async function lookAtDatabase(url: Secret) {
  return { address: shownUrl(url), ...(await inspect(() => connectPostgres(url))) };
}

/** A connection of its own, without a lock. */
export function connectPostgres(url: Secret, clock: Clock = systemClock): Promise<PgConnection> {
  return connect(configOf(url), clock);
}

async function connect(config: ClientConfig, clock: Clock): Promise<PgConnection> {
  // The driver takes any text for an address, and looks for a host of that name.
  if (!/^postgres(?:ql)?:\/\//.test(config.connectionString ?? '')) {
    throw new Error('it is none such as postgres://user@host/einsora');
  }
  const client = new Client(config);
  const connection = wrap(client, clock);
  await client.connect();
  return connection;
}

function openPool(config: ClientConfig, clock: Clock, log: Log) {
  const pool = new Pool({ ...config, max: readers });
  const connections = new WeakMap<object, PgConnection>();
  const open = new Set<PoolClient>();
  pool.on('connect', (client: PoolClient) => {
    connections.set(client, wrap(client, clock));
    open.add(client);
  });
  pool.on('remove', (client: PoolClient) => open.delete(client));
  pool.on('error', (error) => log.debug({ why: error.message }, 'a reading connection was lost'));
  return {
    async lease(): Promise<Lease> {
      const client = await pool.connect();
      const connection = connections.get(client) ?? wrap(client, clock);
      return { connection, release: (broken) => client.release(broken) };
    },
    end: () => pool.end(),
    cut() {
      for (const client of open) client.connection.stream.destroy();
    },
  };
}

/** A client as the store uses it. It gives up a server that owes an answer for too long. */
function wrap(client: Client, clock: Clock): PgConnection {
  const { lost, lose, over, owe } = createLoss();
  client.on('error', lose);
  client.on('end', () => lose(new Error('the connection has ended')));
  const owed = watchAnswers(
    clock,
    () => lost() !== null,
    () => {
      client.connection.stream.destroy(new Error('Postgres gave no answer'));
    },
  );

  function submit<T>(query: Query, read: (result: unknown) => T): Promise<T> {
    const gone = lost();
    if (gone !== null) return Promise.reject(gone);
    return new Promise((resolve, reject) => {
      owed.asked();
      const settled = owe(reject);
      query.once('error', (error: Error & { severity?: string }) => {
        settled();
        if (error.severity === 'FATAL' || error.severity === 'PANIC') lose(error);
        owed.answered();
        reject(error);
      });
      query.once('end', (result: unknown) => {
        settled();
        owed.answered();
        try {
          resolve(read(result));
        } catch (error) {
          reject(error);
        }
      });
      client.query(query);
    });
  }

  return {
    ask(text: string, values: readonly SqlValue[], name: string | null): Promise<PgAnswer> {
      const query = new Query({ text, values: [...values], ...(name === null ? {} : { name }) });
      const rows: Row[] = [];
      query.on('row', (row: Row) => {
        if (rows.length <= row_limit) rows.push(row);
      });
      return submit(query, (result) => {
        const { fields, rowCount } = result as QueryResult;
        if (rows.length > row_limit) throw tooManyRows();
        // Also where no row came back, or every value was null.
        for (const field of fields) checkType(field.dataTypeID, field.name);
        return { rows, count: rowCount ?? 0 };
      });
    },
    tell: (text) => submit(new Query({ text }), tagsOf),
    state: () => stateOf(client.getTransactionStatus()),
    lost,
    over,
    backend: () => (client as unknown as { processID: number | null }).processID ?? 0,
    async end() {
      lose(new Error('the connection was closed'));
      // A server that is silent would keep it waiting for what it owes.
      const cancel = clock.after(end_timeout_ms, () => client.connection.stream.destroy());
      await client.end();
      cancel();
    },
  };
}

/** Whether a connection is lost, and who is owed an answer by it: then nobody gets one. */
function createLoss() {
  const over = Promise.withResolvers<void>();
  const waiting = new Set<(error: Error) => void>();
  let lost: Error | null = null;
  return {
    lost: () => lost,
    over: over.promise,
    lose(error: Error) {
      lost ??= error;
      over.resolve();
      for (const reject of waiting) reject(lost);
      waiting.clear();
    },
    /** Rejected when it is lost, unless what is returned was called before. */
    owe(reject: (error: Error) => void): () => void {
      waiting.add(reject);
      return () => void waiting.delete(reject);
    },
  };
}

/** Calls `giveUp` when an answer is owed for too long. One timer serves many statements. */
function watchAnswers(clock: Clock, isOver: () => boolean, giveUp: () => void) {
  let owed = 0;
  let since = 0;
  let is_armed = false;
  const look = () => {
    is_armed = false;
    if (owed === 0 || isOver()) return;
    const left_ms = since + answer_timeout_ms - clock.monotonic();
    if (left_ms <= 0) giveUp();
    else arm(left_ms);
  };
  const arm = (ms: number) => {
    is_armed = true;
    clock.after(ms, look);
  };
  return {
    asked() {
      if (owed === 0) since = clock.monotonic();
      owed += 1;
      if (!is_armed) arm(answer_timeout_ms);
    },
    answered() {
      owed -= 1;
      since = clock.monotonic();
    },
  };
}

function tagsOf(result: unknown): string[] {
  const results = Array.isArray(result) ? result : [result];
  return results.map(({ command }: { command: string }) => command);
}

function stateOf(status: string | null): ReturnType<PgConnection['state']> {
  if (status === 'T') return 'open';
  return status === 'E' ? 'doomed' : 'none';
}
