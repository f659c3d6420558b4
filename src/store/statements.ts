/**
 * What both engines ask of a statement: its text, its parameters, how many rows it may give.
 *
 * Invariants: no text ends or begins a transaction; one statement at a time; only what both engines
 * store alike is bound (Postgres takes no NUL character in a text, so SQLite gets none either).
 */
import type { SqlValue } from './sql.ts';

export const row_limit = 10_000;
const in_limit = 500;

export function tooManyRows(): Error {
  return new Error(`a statement gave more than ${row_limit} rows: read it in pages`);
}

/** A number, or the index of the parameter that says it. */
export type RowLimit = { rows: number } | { param: number };

/** The limit at the end of a statement. */
export function rowLimit(text: string): RowLimit | null {
  const [, param, rows] = /\blimit\s+(?:\$(\d+)|(\d+))\s*$/i.exec(text) ?? [];
  if (rows !== undefined) return { rows: Number(rows) };
  return param === undefined ? null : { param: Number(param) - 1 };
}

/** True where a statement cannot give more rows than are allowed. */
export function isFew(limit: RowLimit | null, params: readonly SqlValue[]): boolean {
  if (limit === null) return false;
  const rows = 'rows' in limit ? limit.rows : params[limit.param];
  return typeof rows === 'number' && rows >= 0 && rows <= row_limit;
}

/** The parameters as given, once they are as many as the text names and each can be stored. */
export function checkParams(params: readonly SqlValue[], count: number): readonly SqlValue[] {
  if (params.length !== count) {
    throw new Error(`a statement of ${count} parameters got ${params.length}`);
  }
  for (let index = 0; index < count; index += 1) checkValue(params[index] as SqlValue, index);
  return params;
}

function checkValue(value: SqlValue, index: number): void {
  if (value === null || (typeof value === 'number' && Number.isFinite(value))) return;
  if (typeof value !== 'string') {
    throw new TypeError(
      `parameter $${index + 1} is ${String(value)}: only strings, numbers and null are stored`,
    );
  }
  if (value.includes('\0')) throw new TypeError(`parameter $${index + 1} holds a NUL character`);
}

/** `in ($3, $4)` for two values and `first` 3. */
export function inList(values: readonly SqlValue[], first: number): string {
  if (values.length === 0) return 'in (null)';
  if (values.length > in_limit) {
    throw new Error(`in() takes at most ${in_limit} values and got ${values.length}`);
  }
  return `in (${values.map((_, index) => `$${first + index}`).join(', ')})`;
}

/** A rejection that its caller may leave unawaited: the session remembers the failure anyway. */
export function rejected(error: Error): Promise<never> {
  const promise = Promise.reject(error);
  promise.catch(() => {});
  return promise;
}

const token = new RegExp(
  [
    /'(?:[^']|'')*'|"(?:[^"]|"")*"/,
    /--[^\n]*|\/\*[\s\S]*?\*\//,
    /\blimit\s+\$(?<most>\d+)|\$(?<index>\d+)|(?<end>;\s*\S)/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'gi',
);

/**
 * Turns `$1` into SQLite's `?1`, or `?` where each stands once and in order: one with a number is
 * looked up by its name, after all before it. Refuses what would end the transaction or be dropped
 * unseen. A limit is hidden from SQLite's planner: it would look at its value, and compile the
 * statement anew each time that one is bound, which takes longer than to run it.
 */
export function rewrite(text: string): { rewritten: string; param_count: number } {
  if (!/^\s*(?:select|with|values|insert|update|delete)\b/i.test(text)) {
    throw new Error(`not a statement of a transaction: ${text.trim().slice(0, 60)}`);
  }
  const numbers = [...text.matchAll(token)].flatMap(({ groups = {} }) => {
    const number = groups.most ?? groups.index;
    return number === undefined ? [] : [Number(number)];
  });
  const is_in_order = numbers.every((number, at) => number === at + 1);
  const place = (number: string) => (is_in_order ? '?' : `?${number}`);
  const rewritten = text.replace(token, (whole, most?: string, index?: string, end?: string) => {
    if (end !== undefined) throw new Error('one statement at a time');
    if (most !== undefined) return `limit (${place(most)} + 0)`;
    return index === undefined ? whole : place(index);
  });
  return { rewritten, param_count: Math.max(0, ...numbers) };
}
