/**
 * The program's transactions, and one more that writes what a test needs and the program has no
 * transaction for yet (other tenants, other roles). The writing worker of a file store imports it.
 */
import type { Sql, SqlValue } from '../../src/store/sql.ts';
import { transactions as released } from '../../src/store/transactions.ts';

export const transactions = {
  ...released,
  write: (sql: Sql, args: { text: string; params: SqlValue[] }): Promise<number> =>
    sql.run(args.text, args.params),
};

export type RigTable = typeof transactions;
