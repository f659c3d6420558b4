/**
 * The Sql of one transaction or query over a Postgres connection, and what its errors mean.
 *
 * Invariants: a statement that failed dooms its session, awaited or not; a session refuses work
 * once it has ended; work that waits for anything but its statements is found out, without a timer;
 * only columns that are strings and whole numbers come back, so both engines give the same rows.
 */
import type { Settled } from './batch.ts';
import { type Row, type Sql, type SqlValue, StoreError } from './sql.ts';
import { checkParams, inList, rejected, rewrite } from './statements.ts';

export type PgAnswer = { rows: Row[]; count: number };

/** One connection. Statements are answered in the order in which they were asked. */
export type PgConnection = {
  /** One statement; prepared under `name` where there is one. */
  ask(text: string, params: readonly SqlValue[], name: string | null): Promise<PgAnswer>;
  /** Statements without parameters. Resolves with the tags of what was done: `BEGIN`, … */
  tell(text: string): Promise<string[]>;
  /** As the last answer said: no transaction, one that goes on, or one that can only end. */
  state(): 'none' | 'open' | 'doomed';
  /** Why it can no longer be used, or null. */
  lost(): Error | null;
  /** The server's process that answers it. */
  backend(): number;
  /** Resolves when it was lost, or ended. */
  readonly over: Promise<void>;
  end(): Promise<void>;
};

/** What each text needs, found out once. */
export type Texts = { find(text: string): { param_count: number; name: string | null } };

const named_limit = 500;
/** Long lists of parameters come in many lengths: naming each would fill the server's memory. */
const named_params = 24;

export function createTexts(): Texts {
  const known = new Map<string, { param_count: number; name: string | null }>();
  let named = 0;
  return {
    find(text) {
      const found = known.get(text);
      if (found) return found;
      const { param_count } = rewrite(text);
      const is_named = param_count <= named_params && named < named_limit;
      if (is_named) named += 1;
      const facts = { param_count, name: is_named ? `s${named}` : null };
      if (is_named) known.set(text, facts);
      return facts;
    },
  };
}

export type PgSession = {
  readonly sql: Sql;
  /** What the first statement that failed meant, or null. */
  failure(): Error | null;
  /** Settles when the work does, or when it turns out to wait for something else. */
  settle<T>(work: () => Promise<T>): Promise<Settled<T>>;
  /** Refuses further statements, and resolves when those asked for were answered. */
  end(): Promise<void>;
};

export function openSession(
  connection: PgConnection,
  texts: Texts,
  kind: 'read' | 'write',
): PgSession {
  const desk = openDesk(connection, texts, kind);
  const { attempt } = desk;
  const sql: Sql = {
    all: <T extends Row>(text: string, params: readonly SqlValue[] = []) =>
      attempt(text, params, ({ rows }) => rows as T[]),
    get: <T extends Row>(text: string, params: readonly SqlValue[] = []) =>
      attempt(text, params, ({ rows }) => rows[0] as T | undefined),
    run: (text, params = []) => attempt(text, params, ({ count }) => count),
    in: inList,
    forUpdate: kind === 'write' ? 'for update' : '',
  };
  return { sql, failure: desk.failure, settle: (work) => settleOn(desk, work), end: desk.close };
}

/**
 * Work that awaits nothing but statements needs only microtasks while none is on its way, and a
 * tick asked for inside a microtask comes when none is left: by then it has settled or asked for
 * more, or it waits for something else.
 */
function settleOn<T>(desk: Desk, work: () => Promise<T>): Promise<Settled<T>> {
  return new Promise((resolve) => {
    const fail = (error: unknown) => resolve({ ok: false, error });
    const look = () => {
      if (desk.isIdle()) fail(new Error('it waited for something other than sql'));
    };
    const lookSoon = () => queueMicrotask(() => process.nextTick(look));
    desk.onIdle(lookSoon);
    try {
      Promise.resolve(work()).then((value) => resolve({ ok: true, value }), fail);
    } catch (error) {
      fail(error);
    }
    if (desk.isIdle()) lookSoon();
  });
}

/** What a session has asked for, and what became of it. */
type Desk = {
  attempt<T>(text: string, params: readonly SqlValue[], read: (answer: PgAnswer) => T): Promise<T>;
  failure(): Error | null;
  /** Nothing that was asked for is without its answer. */
  isIdle(): boolean;
  /** Called each time it becomes idle. */
  onIdle(fn: () => void): void;
  close(): Promise<void>;
};

function openDesk(connection: PgConnection, texts: Texts, kind: 'read' | 'write'): Desk {
  let closed = false;
  let failure: Error | null = null;
  let asked = 0;
  let becameIdle = () => {};

  async function answer(text: string, params: readonly SqlValue[]): Promise<PgAnswer> {
    const { param_count, name } = texts.find(text);
    return connection.ask(text, checkParams(params, param_count), name);
  }

  const answered = () => {
    asked -= 1;
    if (asked === 0) becameIdle();
  };

  return {
    attempt: (text, params, read) => {
      if (closed) return rejected(new Error('sql was used after its transaction had ended'));
      if (failure) return rejected(failure);
      asked += 1;
      const result = answer(text, params).then(read, (error) => {
        failure ??= kind === 'read' && isWrite(error) ? notAllowed() : meaningOf(error);
        throw failure;
      });
      result.then(answered, answered);
      return result;
    },
    failure: () => failure,
    isIdle: () => asked === 0,
    onIdle: (fn) => {
      becameIdle = fn;
    },
    close() {
      closed = true;
      if (asked === 0) return Promise.resolve();
      return new Promise((resolve) => {
        becameIdle = resolve;
      });
    },
  };
}

function isWrite(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '25006';
}

function notAllowed(): StoreError {
  return new StoreError('rejected', 'a query may not write');
}

/** The server gave the transaction up for another's sake: the same again may well succeed. */
export class Again extends Error {}

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const again = ['40001', '40P01'];
const full = ['53100', '53200'];
const failing: Record<string, string> = {
  '25006': 'the database takes no writes',
  '55P03': 'another session holds what it needs',
  '57014': 'a statement took too long',
};

/** What an error of the server means to the store: a StoreError, Again, or the error itself. */
export function meaningOf(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  const { code = '', constraint = null } = error as { code?: string; constraint?: string | null };
  if (again.includes(code)) return new Again(error.message);
  if (code === '23505') return new StoreError('unique', error.message, ownName(constraint));
  if (code === '23503') return new StoreError('foreign', error.message, constraint);
  if (code === '23514') return new StoreError('check', error.message, constraint);
  if (code === '23502') return new StoreError('check', error.message);
  if (full.includes(code)) return new StoreError('store_full', 'the disk of the store is full');
  const why = Object.hasOwn(failing, code) ? failing[code] : undefined;
  return why === undefined ? error : new StoreError('store_failing', why);
}

/** SQLite has no name for a primary key, so nobody may learn the one that Postgres makes up. */
function ownName(constraint: string | null): string | null {
  return constraint?.endsWith('_pkey') ? null : constraint;
}

// Object ids of pg_type: https://github.com/postgres/postgres/blob/master/src/include/catalog
const numbers = [20, 21, 23, 26];
const texts_of = [19, 25, 705, 1042, 1043];

/** How a value of a column's type is read. */
export function parserOf(type: number): (text: string) => SqlValue {
  return numbers.includes(type) ? wholeNumber : (text) => text;
}

/** Throws for a column whose values SQLite would give otherwise. */
export function checkType(type: number, column: string): void {
  if (texts_of.includes(type) || numbers.includes(type)) return;
  throw new TypeError(`the column ${column} is neither a text nor a bigint: cast it`);
}

function wholeNumber(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number)) throw new RangeError(`${text} is no safe integer`);
  return number;
}
