/**
 * The program's transactions, and one more that writes what the bench needs to begin.
 */
import type { Sql, SqlValue } from '../src/store/sql.ts';
import { transactions as released } from '../src/store/transactions.ts';

export const transactions = {
  ...released,
  write: (sql: Sql, args: { text: string; params: SqlValue[] }): Promise<number> =>
    sql.run(args.text, args.params),
};
