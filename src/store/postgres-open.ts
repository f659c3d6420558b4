/**
 * What happens to a Postgres database before the store is used: it is looked at, locked, and its
 * schema brought up to date.
 *
 * Invariants: the lock belongs to the connection and goes with it; only one control plane holds it;
 * nothing is changed in a database that is held, newer or unsuitable; after a lost connection the
 * schema must be the one that this program knows.
 */

import type { Clock } from '../lib/clock.ts';
import type { Secret } from '../lib/secret.ts';
import { DatabaseError, type DatabaseErrorCode } from './database-error.ts';
import type { Migration } from './migrate.ts';
import { checkSchema, migratePostgres } from './postgres-migrate.ts';
import type { PgConnection } from './postgres-sql.ts';

export type OpenOptions = {
  connect(): Promise<PgConnection>;
  migrations: readonly Migration[];
  folder: string;
  clock: Clock;
  takeover_ms: number;
};

/** `eins`, in the first of the two numbers that name an advisory lock. */
const lock_class = 0x65696e73;
const lock_pause_ms = 200;
const oldest_version = 15;

/** What `doctor` says of a database: nothing is locked or changed. */
export async function inspect(
  connect: () => Promise<PgConnection>,
): Promise<{ version: string; why: null } | { code: DatabaseErrorCode; why: string }> {
  let connection: PgConnection | null = null;
  try {
    connection = await connect().catch((error) => {
      throw unreachable(error);
    });
    await setUp(connection);
    const text = `select current_setting('server_version') as version`;
    const { rows } = await connection.ask(text, [], null);
    return { version: String(rows[0]?.version).split(' ')[0] ?? '', why: null };
  } catch (error) {
    const { code, details } = error instanceof DatabaseError ? error : unreachable(error);
    return { code, why: details.why ?? '' };
  } finally {
    await connection?.end();
  }
}

/** A connection that holds the lock, with the schema up to date. */
export async function takeOver(options: OpenOptions): Promise<PgConnection> {
  return prepare(options, (connection) =>
    migratePostgres(connection, options.migrations, {
      now: options.clock.now(),
      folder: options.folder,
    }),
  );
}

/** The same after `lost` was lost: the schema must be as it was. */
export async function reopen(options: OpenOptions, lost: PgConnection): Promise<PgConnection> {
  return prepare({ ...options, ours: lost.backend() }, async (connection) => {
    const found = await checkSchema(connection, options.migrations);
    if (found === options.migrations.length) return;
    throw unsuitable('another program changed its schema meanwhile');
  });
}

async function prepare(
  options: OpenOptions & { ours?: number },
  work: (connection: PgConnection) => Promise<unknown>,
): Promise<PgConnection> {
  const connection = await options.connect().catch((error) => {
    throw unreachable(error);
  });
  try {
    await setUp(connection);
    await lock(connection, options);
    await work(connection);
    return connection;
  } catch (error) {
    const lost = connection.lost();
    await connection.end();
    throw lost ? unreachable(lost) : error;
  }
}

async function setUp(connection: PgConnection): Promise<void> {
  const { rows } = await connection.ask(
    `select cast(current_setting('server_version_num') as int) as version,
       pg_encoding_to_char(d.encoding) as encoding,
       case d.datlocprovider when 'i' then 'ICU' else cast(d.datcollate as text) end as collation,
       current_setting('synchronous_commit') as commits
     from pg_database d where d.datname = current_database()`,
    [],
    null,
  );
  const { version, encoding, collation, commits } = rows[0] ?? {};
  if (Math.floor(Number(version) / 10_000) < oldest_version) {
    throw unsuitable(`its Postgres is older than version ${oldest_version}`);
  }
  if (encoding !== 'UTF8') throw unsuitable(`its encoding is ${encoding}`);
  // Names are sorted and looked for by range, byte by byte, as SQLite does.
  if (!/^(?:C|POSIX)(?:\.UTF-?8)?$/i.test(String(collation))) {
    throw unsuitable(`it sorts by ${collation}`);
  }
  // An answer is given once its commit is on disk, whatever the server does for others.
  if (commits === 'off') await connection.tell('set synchronous_commit = on');
  await connection.tell(
    `set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 3; set tcp_keepalives_count = 3;
     set client_min_messages = warning`,
  );
}

/**
 * Takes the lock of this database's schema. A control plane that was killed holds it until the
 * server notices, so it is asked for again for a while.
 */
async function lock(
  connection: PgConnection,
  { clock, takeover_ms, ours }: OpenOptions & { ours?: number },
): Promise<void> {
  const asked_at = clock.monotonic();
  for (;;) {
    const { rows } = await connection.ask(
      `select cast(pg_try_advisory_lock(${lock_class}, hashtext(current_schema())) as int) as held`,
      [],
      null,
    );
    if (rows[0]?.held === 1) return;
    if (clock.monotonic() - asked_at >= takeover_ms) break;
    if (ours !== undefined) await endOwn(connection, ours);
    await clock.sleep(lock_pause_ms);
  }
  const holder = await holderOf(connection);
  throw new DatabaseError('database_in_use', `the database is served by ${holder}`, { holder });
}

const holders = `pg_locks l join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'advisory' and l.classid = ${lock_class} and l.granted
       and l.database = (select oid from pg_database where datname = current_database())`;

/** The server may not have noticed that our connection was cut: ours may be ended by us. */
async function endOwn(connection: PgConnection, backend: number): Promise<void> {
  await connection.ask(
    `select cast(pg_terminate_backend(l.pid) as int) as ended from ${holders} and l.pid = $1
       and a.application_name = current_setting('application_name')`,
    [backend],
    null,
  );
}

async function holderOf(connection: PgConnection): Promise<string> {
  const { rows } = await connection.ask(
    `select a.application_name as name, coalesce(cast(a.client_addr as text), 'this machine') as at
     from ${holders}`,
    [],
    null,
  );
  const [row] = rows;
  return row ? `${row.name} (from ${row.at})` : 'another control plane';
}

function unsuitable(why: string): DatabaseError {
  return new DatabaseError('database_unsuitable', `the database cannot be used: ${why}`, { why });
}

function unreachable(error: unknown): DatabaseError {
  const { message, errors } = (error instanceof Error ? error : {}) as Partial<AggregateError>;
  const why = message || errors?.[0]?.message || String(error);
  return new DatabaseError('database_unreachable', `Postgres does not answer: ${why}`, { why });
}

/** The address of a database without what is secret in it. */
export function shownUrl(url: Secret): string {
  const [address = '', query = ''] = url.reveal().split('?');
  const parts = /^(postgres(?:ql)?:\/\/)(?:([^/@:]*)(?::[^@]*)?@)?([^@?]*)$/.exec(address);
  if (parts === null) return 'an address that cannot be read';
  const [, scheme, user, place] = parts;
  const host = /(?:^|&)host=([^&]*)/.exec(query)?.[1];
  const at = user ? `${user}@` : '';
  return `${scheme}${at}${place}${host ? `?host=${decodeURIComponent(host)}` : ''}`;
}
