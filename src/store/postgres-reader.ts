/**
 * Queries on Postgres: each in a read-only transaction of its own, on a connection of the pool.
 *
 * Invariants: a query sees one snapshot, whatever commits meanwhile, and waits for no write; one
 * that waits for anything but `sql` fails and gives its connection back; a connection that was lost
 * is replaced once, for a query may be asked again.
 */
import { Again, openSession, type PgConnection, type Texts } from './postgres-sql.ts';
import { type Query, StoreError } from './sql.ts';

/** A connection for one query. */
export type Lease = { connection: PgConnection; release(broken: boolean): void };

const waiting_limit = 10_000;

export function createReader(lease: () => Promise<Lease>, texts: Texts) {
  const under_way = new Set<Promise<unknown>>();
  let closed = false;

  async function read<Args, Result>(query: Query<Args, Result>, args: Args): Promise<Result> {
    try {
      return await readOnce(await leased(), texts, query, args);
    } catch (error) {
      if (!(error instanceof Gone)) throw error;
    }
    try {
      return await readOnce(await leased(), texts, query, args);
    } catch (error) {
      throw error instanceof Gone ? notRead(error) : error;
    }
  }

  async function leased(): Promise<Lease> {
    try {
      return await lease();
    } catch (error) {
      throw notRead(error);
    }
  }

  return {
    read<Args, Result>(query: Query<Args, Result>, args: Args): Promise<Result> {
      if (closed) return Promise.reject(new StoreError('store_failing', 'the store is closed'));
      if (under_way.size >= waiting_limit) return Promise.reject(notRead('too many reads wait'));
      const reading = read(query, args);
      under_way.add(reading);
      const done = () => under_way.delete(reading);
      reading.then(done, done);
      return reading;
    },
    /** Takes no more, and resolves when those taken have settled. */
    async drain(): Promise<void> {
      closed = true;
      await Promise.allSettled(under_way);
    },
  };
}

/** The query was not answered, and may be asked again. */
class Gone extends Error {}

async function readOnce<Args, Result>(
  { connection, release }: Lease,
  texts: Texts,
  query: Query<Args, Result>,
  args: Args,
): Promise<Result> {
  const began = connection.tell('begin isolation level repeatable read, read only');
  const session = openSession(connection, texts, 'read');
  const settled = await session.settle(() => query(session.sql, args));
  void session.end();
  // Asked for now and answered after all that the query asked: only then is the connection free.
  const ended = Promise.all([began, connection.tell('commit')]);
  ended.then(
    () => release(false),
    () => release(true),
  );
  if (connection.lost()) throw new Gone(connection.lost()?.message);
  const failure = session.failure();
  if (failure instanceof Again) throw new Gone(failure.message);
  if (failure) throw failure;
  if (!settled.ok) throw settled.error;
  return settled.value;
}

function notRead(why: unknown): StoreError {
  const { message, errors } = (why instanceof Error ? why : {}) as Partial<AggregateError>;
  const said = message || errors?.[0]?.message || String(why);
  return new StoreError('store_failing', `the store could not be read: ${said}`);
}
