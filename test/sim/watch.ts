/**
 * What was written to the store, seen by the database itself: triggers that tell which workloads
 * and machines a statement has touched.
 *
 * Invariants: it adds nothing to the store's own tables; what was committed is never left out. What
 * was rolled back may be named too, also where it never came to be: so what was deleted is told
 * apart.
 */
import type { MemoryConnection } from '../../src/store/sqlite.ts';

export type Touched = {
  workloads: Set<string>;
  machines: Set<string>;
  /** Of both: those that lost a row of their own or one about them. */
  losers: Set<string>;
};

export type Watch = {
  /** What was touched since the last call. */
  take(): Touched;
  all<T>(text: string, ...params: (string | number)[]): T[];
  get<T>(text: string, ...params: (string | number)[]): T | undefined;
  exec(text: string): void;
};

/** Proofs of running are written twice a minute and change nothing else. */
const of_runs = 'wanted, observed, ready_at, ended_at, removed_at, superseded_at, machine_id';
const of_machines =
  'generation, agent_epoch, cpu_millis, memory_bytes, tenant_id, sharing, drained_at';
const triggers = [
  ['workloads', 'w', 'id', ''],
  ['runs', 'w', 'workload_id', of_runs],
  ['runs', 'm', 'machine_id', of_runs],
  ['replicas', 'w', 'workload_id', ''],
  ['holds', 'w', 'workload_id', ''],
  ['holds', 'm', 'machine_id', ''],
  ['machines', 'm', 'id', of_machines],
  ['workload_events', 'w', 'workload_id', ''],
  ['ledger', 'w', 'workload_id', ''],
] as const;

export function watchDatabase(connection: MemoryConnection): Watch {
  let touched = newTouched();
  connection.function('touch', (kind, id, event) => {
    touched[kind === 'w' ? 'workloads' : 'machines'].add(String(id));
    if (event === 'delete') touched.losers.add(String(id));
    return null;
  });
  for (const [table, kind, column, columns] of triggers) {
    const update = columns === '' ? 'update' : `update of ${columns}`;
    for (const [event, row, name] of [
      ['insert', 'new', 'insert'],
      [update, 'new', 'update'],
      ['delete', 'old', 'delete'],
    ]) {
      connection.exec(
        `create temp trigger touched_${table}_${kind}_${name} after ${event} on main.${table} begin
           select touch('${kind}', ${row}.${column}, '${name}');
         end`,
      );
    }
  }
  const statements = new Map<string, Prepared>();
  const prepare = (text: string) => {
    const found = statements.get(text) ?? prepareRows(connection, text);
    statements.set(text, found);
    return found;
  };
  return {
    take() {
      const taken = touched;
      if (taken.workloads.size + taken.machines.size > 0) touched = newTouched();
      return taken;
    },
    all: <T>(text: string, ...params: (string | number)[]) => {
      const { statement, rowOf } = prepare(text);
      return statement.all(...params).map((values) => rowOf(values) as T);
    },
    get: <T>(text: string, ...params: (string | number)[]) => {
      const { statement, rowOf } = prepare(text);
      const values = statement.get(...params);
      return values === undefined ? undefined : (rowOf(values) as T);
    },
    exec: (text) => connection.exec(text),
  };
}

type Prepared = ReturnType<typeof prepareRows>;

/** Rows come as arrays and are named here, which is a quarter of the work. */
function prepareRows(connection: MemoryConnection, text: string) {
  const statement = connection.prepare(text);
  statement.setReturnArrays(true);
  const names = statement.columns().map(({ name }) => name);
  const rowOf = (values: unknown) => {
    const row: Record<string, unknown> = {};
    for (const [at, name] of names.entries()) row[name] = (values as unknown[])[at];
    return row;
  };
  return { statement, rowOf };
}

function newTouched(): Touched {
  return { workloads: new Set(), machines: new Set(), losers: new Set() };
}
