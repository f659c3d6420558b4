/**
 * What was written to the store, seen by the database itself: triggers that note which workloads
 * and machines a commit has touched.
 *
 * Invariants: it adds nothing to the store's own tables; what was rolled back was not touched.
 */
import type { Connection } from '../../src/store/sqlite-sql.ts';

export type Touched = { workloads: Set<string>; machines: Set<string> };

export type Watch = {
  /** What was touched since the last call. */
  take(): Touched;
  all<T>(text: string, ...params: (string | number)[]): T[];
  get<T>(text: string, ...params: (string | number)[]): T | undefined;
  exec(text: string): void;
};

/** Proofs of running are written twice a minute and change nothing else. */
const of_runs = 'wanted, observed, ready_at, ended_at, removed_at, machine_id';
const of_machines = 'generation, agent_epoch, cpu_millis, tenant_id, sharing';
const triggers = [
  ['workloads', 'w', 'id', ''],
  ['runs', 'w', 'workload_id', of_runs],
  ['runs', 'm', 'machine_id', of_runs],
  ['holds', 'w', 'workload_id', ''],
  ['holds', 'm', 'machine_id', ''],
  ['machines', 'm', 'id', of_machines],
  ['workload_events', 'w', 'workload_id', ''],
  ['ledger', 'w', 'workload_id', ''],
] as const;

export function watchDatabase(connection: Connection): Watch {
  connection.exec('create temp table touched (kind text, id text, primary key (kind, id))');
  for (const [table, kind, column, columns] of triggers) {
    const update = columns === '' ? 'update' : `update of ${columns}`;
    for (const [event, row, name] of [
      ['insert', 'new', 'insert'],
      [update, 'new', 'update'],
      ['delete', 'old', 'delete'],
    ]) {
      connection.exec(
        `create temp trigger touched_${table}_${kind}_${name} after ${event} on main.${table} begin
           insert or ignore into touched values ('${kind}', ${row}.${column});
         end`,
      );
    }
  }
  const statements = new Map<string, ReturnType<Connection['prepare']>>();
  const prepare = (text: string) => {
    const found = statements.get(text) ?? connection.prepare(text);
    statements.set(text, found);
    return found;
  };
  return {
    take() {
      const touched: Touched = { workloads: new Set(), machines: new Set() };
      for (const row of prepare('select kind, id from touched').iterate()) {
        const { kind, id } = row as { kind: 'w' | 'm'; id: string };
        touched[kind === 'w' ? 'workloads' : 'machines'].add(id);
      }
      if (touched.workloads.size + touched.machines.size > 0) prepare('delete from touched').run();
      return touched;
    },
    all: <T>(text: string, ...params: (string | number)[]) =>
      [...prepare(text).iterate(...params)] as T[],
    get: <T>(text: string, ...params: (string | number)[]) =>
      prepare(text).get(...params) as T | undefined,
    exec: (text) => connection.exec(text),
  };
}
