/**
 * The program's transactions, and two more: one writes what a test needs and the program has no
 * transaction for yet (other tenants, other roles), one runs another and fails at its n-th
 * statement. The writing worker of a file store imports it.
 *
 * Invariants: what a remembered proof may outlive (ADR-0038) writes no proof, user or tenant, and
 * what the gateway's memory may outlive (ADR-0068) nothing that a request is led by: one that does
 * fails, in whatever test it is.
 */
import { besideProofs } from '../../src/controlplane/auth/proof-cache.ts';
import { background } from '../../src/controlplane/write-watch.ts';
import type { Json, Sql, SqlValue, TransactionTable } from '../../src/store/sql.ts';
import { transactions as all } from '../../src/store/transactions.ts';

export const injected = 'a fault of the test';

const released = Object.fromEntries(
  Object.entries(all).map(([name, run]) => {
    const proofs = besideProofs.has(name) ? guarded(run) : run;
    return [name, background.has(name) ? guarded(proofs, writesTargets) : proofs];
  }),
) as typeof all;

const write = (sql: Sql, args: { text: string; params: SqlValue[] }): Promise<number> =>
  sql.run(args.text, args.params);

export const transactions = {
  ...released,
  write,
  async failAt(sql: Sql, args: { name: string; args: Json; at: number }): Promise<unknown> {
    const table: TransactionTable = { ...released, write };
    const transaction = table[args.name];
    if (!transaction) throw new Error(`there is no transaction ${args.name}`);
    const faulty = failing(sql, args.at);
    try {
      return await transaction(faulty.sql, args.args as never);
    } finally {
      // However the transaction took it.
      if (faulty.failed()) await Promise.reject(new Error(injected));
    }
  },
};

export type RigTable = typeof transactions;

/** The n-th statement fails, and with it (as the engines have it) all that come after. */
function failing(sql: Sql, at: number): { sql: Sql; failed(): boolean } {
  let count = 0;
  const step = <T>(work: () => Promise<T>): Promise<T> => {
    count += 1;
    if (count < at) return work();
    const refused = Promise.reject(new Error(injected));
    refused.catch(() => {});
    return refused;
  };
  return {
    failed: () => count >= at,
    sql: {
      ...sql,
      all: (text, params) => step(() => sql.all(text, params)),
      get: (text, params) => step(() => sql.get(text, params)),
      run: (text, params) => step(() => sql.run(text, params)),
    },
  };
}

/** The same transaction, refused where it writes what is remembered: what proofs are made of. */
export function guarded(
  transaction: unknown,
  writes = writesProofs,
): (sql: Sql, args: unknown) => Promise<unknown> {
  const run = transaction as (sql: Sql, args: unknown) => Promise<unknown>;
  const look = (text: string) => {
    if (writes(text)) throw new Error(`what is remembered would not notice: ${text}`);
    return text;
  };
  return (sql, args) =>
    run(
      {
        ...sql,
        all: (text, params) => sql.all(look(text), params),
        get: (text, params) => sql.get(look(text), params),
        run: (text, params) => sql.run(look(text), params),
      },
      args,
    );
}

function writesProofs(text: string): boolean {
  const writes = /\b(?:insert into|update|delete from)\s+(?:tokens|sessions|users|tenants)\b/i;
  return writes.test(text) && !/^\s*update (?:tokens|sessions) set last_used_at = /i.test(text);
}

const tables = [
  ...['endpoint_keys', 'run_keys', 'workloads', 'runs', 'machines', 'users', 'tenants'],
  ...[
    'endpoint_guests',
    'machine_guests',
    'endpoint_key_models',
    'request_limits',
    'endpoint_aliases',
  ],
];
const writes_targets = new RegExp(
  `\\b(?:insert into|update|delete from)\\s+(?:${tables.join('|')})\\b`,
  'i',
);

/** A proof that a run goes on leads no request elsewhere. */
export function writesTargets(text: string): boolean {
  return writes_targets.test(text) && !/\bupdate runs set proven_steady = /i.test(text);
}
