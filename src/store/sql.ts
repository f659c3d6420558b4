/**
 * SQL as the rest of the store sees it: one text for two engines.
 *
 * Contract: parameters are `$1`, `$2`, …; rows are plain objects of strings, numbers and nulls; a
 * Transaction or Query awaits nothing but `sql`, takes plain JSON and returns plain JSON; time and
 * ids come as arguments. Whether a transaction happened is never in doubt: `transact` resolves only
 * after it is durable, and rejects with a StoreError otherwise.
 */
export type SqlValue = string | number | null;
export type Row = Record<string, SqlValue>;

export type Sql = {
  all<T extends Row>(text: string, params?: readonly SqlValue[]): Promise<T[]>;
  get<T extends Row>(text: string, params?: readonly SqlValue[]): Promise<T | undefined>;
  /** Runs a write and returns how many rows it changed. */
  run(text: string, params?: readonly SqlValue[]): Promise<number>;
  /**
   * `in ($3, $4)` for two values and `first` 3. At most 500 values; none gives a test that is never
   * true.
   */
  in(values: readonly SqlValue[], first: number): string;
  /** `for update` where the engine needs it, empty where it serialises writers itself. */
  readonly forUpdate: string;
};

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json | undefined };

/** A unit of work with effects. Rejecting rolls back all of it. */
export type Transaction<Args, Result> = (sql: Sql, args: Args) => Promise<Result>;
/** A unit of reading. */
export type Query<Args, Result> = (sql: Sql, args: Args) => Promise<Result>;

export type TransactionTable = Record<string, Transaction<never, unknown>>;

export type Store<Table extends TransactionTable> = {
  transact<Name extends keyof Table & string>(
    name: Name,
    args: Parameters<Table[Name]>[1],
  ): Promise<Awaited<ReturnType<Table[Name]>>>;
  read<Args, Result>(query: Query<Args, Result>, args: Args): Promise<Result>;
  /**
   * Resolves when the store can no longer be trusted to write: the process must end. A Postgres
   * that went away is no such thing, for it comes back; one that another control plane took over
   * is.
   */
  readonly failed: Promise<StoreError>;
  close(): Promise<void>;
};

export type StoreErrorCode =
  /** A constraint refused it. `constraint` names it where the engine says. */
  | 'unique'
  | 'foreign'
  | 'check'
  /** The disk is full: nothing was changed, later ones may succeed. */
  | 'store_full'
  /** Refused before it began: nothing was changed. */
  | 'store_failing'
  /** The engine could not say whether it happened. */
  | 'outcome_unknown'
  /** The transaction threw: a defect, or a Refusal. */
  | 'rejected';

/** What a transaction refused, when it threw an error with a code and details of its own. */
export type Refused = { code: string; details: { [key: string]: Json | undefined } };

export class StoreError extends Error {
  readonly code: StoreErrorCode;
  readonly constraint: string | null;
  /**
   * With `rejected`: the code and details of the error that the transaction threw, if it had them.
   */
  readonly refused: Refused | null;
  constructor(
    code: StoreErrorCode,
    message: string,
    constraint: string | null = null,
    refused: Refused | null = null,
  ) {
    super(message);
    this.code = code;
    this.constraint = constraint;
    this.refused = refused;
  }
}
