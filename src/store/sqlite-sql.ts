/**
 * The Sql of one transaction or query over an open SQLite connection, and what its errors mean.
 *
 * Invariants: a statement is complete when its call returns; after a statement failed, all later
 * ones of the same session fail alike (as on Postgres), so a swallowed error cannot commit half a
 * transaction; a session refuses work once it has ended; no statement touches the transaction
 * itself; integers are bound as integers (SQLite would else divide them as reals).
 */
import { createRowMakers, type ToRow } from './row-maker.ts';
import { type Row, type Sql, type SqlValue, StoreError } from './sql.ts';
import {
  checkParams,
  inList,
  isFew,
  type RowLimit,
  rejected,
  rewrite,
  row_limit,
  rowLimit,
  tooManyRows,
} from './statements.ts';

/** The part of a SQLite connection that the store uses. */
export type Connection = {
  readonly isTransaction: boolean;
  exec(text: string): void;
  prepare(text: string): Statement;
  close(): void;
};

type Bound = string | number | bigint | null;
type Statement = {
  get(...params: Bound[]): unknown;
  all(...params: Bound[]): unknown[];
  iterate(...params: Bound[]): Iterable<unknown>;
  run(...params: Bound[]): { changes: number | bigint };
  /** Rows come as arrays of values from then on. */
  setReturnArrays(enabled: boolean): void;
  columns(): { name: string }[];
};

/** The engine failed in a way after which nothing it says can be trusted. */
export class EngineBroken extends Error {}

const statement_limit = 500;

export type Session = {
  readonly sql: Sql;
  /** The error of the first statement that failed, or null. */
  failure(): Error | null;
  end(): void;
};

export type Statements = {
  connection: Connection;
  find(text: string): Prepared;
  /** Compiles the text anew the next time. */
  forget(text: string): void;
  /** Begins and ends one snapshot. */
  begin(): void;
  rollback(): void;
};
export type Prepared = {
  statement: Statement;
  param_count: number;
  /** How many rows it may give, as its text says; null where that says nothing. */
  limit: RowLimit | null;
  /** How many columns it gave last; 0 until it gave a row. */
  width: number;
  toRow: ToRow;
  makerOf: (names: readonly string[]) => ToRow;
};

/** The prepared statements of one connection, so that each text is compiled once. */
export function cacheStatements(connection: Connection): Statements {
  const cached = new Map<string, Prepared>();
  const control = new Map<string, Statement>();
  const makerOf = createRowMakers();
  const run = (text: string) => {
    const statement = control.get(text) ?? connection.prepare(text);
    control.set(text, statement);
    statement.run();
  };
  return {
    connection,
    begin: () => run('begin'),
    rollback: () => run('rollback'),
    find: (text) => {
      const found = cached.get(text);
      if (found) return found;
      const { rewritten, param_count } = rewrite(text);
      const limit = rowLimit(text);
      const statement = connection.prepare(rewritten);
      statement.setReturnArrays(true);
      const prepared = { statement, param_count, limit, width: 0, toRow: notYet, makerOf };
      const oldest = cached.size >= statement_limit ? cached.keys().next().value : undefined;
      if (oldest !== undefined) cached.delete(oldest);
      cached.set(text, prepared);
      return prepared;
    },
    forget: (text) => void cached.delete(text),
  };
}

const notYet: ToRow = () => ({});

export function openSession(statements: Statements): Session {
  let ended = false;
  let failure: Error | null = null;
  const attempt = <T>(text: string, work: () => T): Promise<T> => {
    if (ended) return rejected(new Error('sql was used after its transaction had ended'));
    if (failure) return rejected(failure);
    try {
      return Promise.resolve(work());
    } catch (error) {
      failure = meaningOf(error, statements.connection);
      // One that failed while it gave rows would give the same error once more.
      statements.forget(text);
      return rejected(failure);
    }
  };
  const sql: Sql = {
    all: <T extends Row>(text: string, params: readonly SqlValue[] = []) =>
      attempt(text, () => readRows<T>(statements.find(text), params)),
    get: <T extends Row>(text: string, params: readonly SqlValue[] = []) =>
      attempt(text, () => {
        const prepared = statements.find(text);
        const row = prepared.statement.get(...bind(prepared, params));
        return row === undefined ? undefined : rowOf<T>(prepared, row);
      }),
    run: (text, params = []) =>
      attempt(text, () => {
        const prepared = statements.find(text);
        return Number(prepared.statement.run(...bind(prepared, params)).changes);
      }),
    in: inList,
    forUpdate: '',
  };
  return {
    sql,
    failure: () => failure,
    end: () => {
      ended = true;
    },
  };
}

function readRows<T extends Row>(prepared: Prepared, params: readonly SqlValue[]): T[] {
  // All at once takes half the time, where there cannot be too many.
  if (isFew(prepared.limit, params)) {
    return prepared.statement.all(...bind(prepared, params)).map((row) => rowOf<T>(prepared, row));
  }
  const rows: T[] = [];
  for (const row of prepared.statement.iterate(...bind(prepared, params))) {
    if (rows.length === row_limit) {
      throw tooManyRows();
    }
    rows.push(rowOf<T>(prepared, row));
  }
  return rows;
}

/** A plain object of a row's values: the engine's own have no prototype, and are slow. */
function rowOf<T extends Row>(prepared: Prepared, values: unknown): T {
  const { length } = values as unknown[];
  if (prepared.width !== length) {
    prepared.toRow = prepared.makerOf(prepared.statement.columns().map(({ name }) => name));
    prepared.width = length;
  }
  return prepared.toRow(values as unknown[]) as T;
}

function bind(prepared: Prepared, params: readonly SqlValue[]): Bound[] {
  return checkParams(params, prepared.param_count).map((value) =>
    // Integers as integers: SQLite would else divide them as reals.
    Number.isSafeInteger(value) ? BigInt(value as number) : value,
  );
}

// SQLite's primary result codes: https://sqlite.org/rescode.html
const busy = [5, 6];
const full = 13;
const constraint = 19;
const broken = new Map([
  [7, 'out of memory'],
  [8, 'the file cannot be written'],
  [10, 'the disk failed'],
  [11, 'the file is damaged'],
  [14, 'the file cannot be opened'],
  [15, 'the lock protocol failed'],
  [26, 'the file is no database'],
]);

/** What a thrown value means to the store: a StoreError, EngineBroken, or the error itself. */
export function meaningOf(error: unknown, connection: Connection): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  const errcode = 'errcode' in error && typeof error.errcode === 'number' ? error.errcode : 0;
  const primary = errcode & 0xff;
  if (primary === constraint) return refusalOf(errcode, error.message, connection);
  if (primary === full) return new StoreError('store_full', 'the disk of the store is full');
  if (busy.includes(primary)) {
    return new StoreError('store_failing', 'another process holds the store');
  }
  const why = broken.get(primary);
  return why === undefined ? error : new EngineBroken(`${why}: ${error.message} (${errcode})`);
}

// Extended codes: 787 foreign key; 1555, 2067, 2579 primary key, unique, rowid; else check, not
// null, or the type of a strict column.
function refusalOf(errcode: number, message: string, connection: Connection): StoreError {
  if (errcode === 787) return new StoreError('foreign', message);
  if ([1555, 2067, 2579].includes(errcode)) {
    return new StoreError('unique', message, uniqueIndexOf(message, connection));
  }
  const named = /^CHECK constraint failed: (\w+)$/.exec(message)?.[1];
  return new StoreError('check', message, named ?? null);
}

/**
 * SQLite names columns ("t.a, t.b") where Postgres names the constraint: this finds the unique
 * index or the named constraint of those columns. Null for keys without a name of their own, and
 * where two share the columns.
 */
function uniqueIndexOf(message: string, connection: Connection): string | null {
  const failed = message.replace(/^UNIQUE constraint failed: /, '');
  const named = /^index '(.+)'$/.exec(failed)?.[1];
  if (named !== undefined) return named;
  const table = failed.split('.')[0] ?? '';
  const statement = connection.prepare(
    `select i.name as name, i.origin as origin, c.name as column_name, t.sql as made_by
     from sqlite_schema t, pragma_index_list(t.name) i, pragma_index_info(i.name) c
     where t.type = 'table' and t.name = ?1 and i."unique" = 1 and i.origin in ('c', 'u')
     order by i.name, c.seqno`,
  );
  const indexes = new Map<string, { origin: string; made_by: string; columns: string[] }>();
  for (const row of statement.iterate(table)) {
    const { name, column_name, ...rest } = row as Record<
      'name' | 'origin' | 'column_name' | 'made_by',
      string
    >;
    const known = indexes.get(name) ?? { ...rest, columns: [] };
    known.columns.push(column_name);
    indexes.set(name, known);
  }
  const matching = [...indexes].filter(
    ([, { columns }]) => columns.map((column) => `${table}.${column}`).join(', ') === failed,
  );
  const [only] = matching;
  if (only === undefined || matching.length > 1) return null;
  const [name, { origin, made_by, columns }] = only;
  return origin === 'c' ? name : constraintName(made_by, columns);
}

/** The name of a unique constraint in the text that made its table: of a column, or of several. */
function constraintName(made_by: string, columns: readonly string[]): string | null {
  const list = columns.join('\\s*,\\s*');
  const of_table = new RegExp(`\\bconstraint\\s+(\\w+)\\s+unique\\s*\\(\\s*${list}\\s*\\)`, 'i');
  const found = of_table.exec(made_by)?.[1];
  if (found !== undefined || columns.length > 1) return found ?? null;
  const of_column = new RegExp(
    `[(,]\\s*${columns[0]}\\s[^,()]*?\\bconstraint\\s+(\\w+)\\s+unique\\b`,
    'i',
  );
  return of_column.exec(made_by)?.[1] ?? null;
}
