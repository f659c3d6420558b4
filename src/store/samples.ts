/**
 * What runs used, in rows of 5 minutes, and when workloads were used last.
 *
 * Invariants: written for many runs at once and in few statements; of two rows for the same time
 * the one of more samples stays, so that a control plane that was restarted in the middle takes
 * nothing away; what is too old goes in bounded pieces.
 */
import type { Query, Row, Sql, SqlValue } from './sql.ts';

export type SampleRow = Row & {
  workload_id: string;
  replica: number;
  run_epoch: number;
  /** When its 5 minutes begin. */
  at: number;
  sample_count: number;
  cpu_millis: number | null;
  cpu_most_millis: number | null;
  memory_bytes: number | null;
  memory_most_bytes: number | null;
  disk_bytes: number | null;
  gpu_percent: number | null;
  gpu_memory_bytes: number | null;
};

const key_columns = ['workload_id', 'replica', 'run_epoch', 'at'] as const;
const figure_columns = [
  'sample_count',
  'cpu_millis',
  'cpu_most_millis',
  'memory_bytes',
  'memory_most_bytes',
  'disk_bytes',
  'gpu_percent',
  'gpu_memory_bytes',
] as const;
const columns = [...key_columns, ...figure_columns];
const rows_of_statement = 40;
/** Of the oldest, so long a piece goes with each writing: more than one writing adds. */
const forgotten_at_once_ms = 3600_000;

export async function recordSamples(
  sql: Sql,
  { rows, forget_before }: { rows: SampleRow[]; forget_before: number },
): Promise<void> {
  const news = figure_columns.map((name) => `${name} = excluded.${name}`).join(', ');
  await insertMany(sql, rows, {
    into: `run_samples (${columns.join(', ')})`,
    valuesOf: (row) => columns.map((name) => row[name]),
    conflict: `(workload_id, at, run_epoch, replica) do update set ${news}
      where excluded.sample_count > run_samples.sample_count`,
  });
  await sql.run(
    `delete from run_samples where at < $1
       and at <= (select min(at) from run_samples) + cast($2 as bigint)`,
    [forget_before, forgotten_at_once_ms],
  );
}

/** Rows of a workload from a moment on, oldest first. */
export const listSamples: Query<
  { workload_id: string; from: number; limit: number },
  SampleRow[]
> = (sql, { workload_id, from, limit }) =>
  sql.all<SampleRow>(
    `select * from run_samples where workload_id = $1 and at >= $2
     order by at, run_epoch, replica limit $3`,
    [workload_id, from, limit],
  );

export type UseRow = Row & {
  workload_id: string;
  used_at: number | null;
  /** Of which run `idle_ms` tells: for so long it was seen to be unused. */
  run_epoch: number;
  idle_ms: number;
  /** Up to that moment of its agent's monotonic clock; null where it was not seen. */
  seen_ms: number | null;
};

const use_columns = ['workload_id', 'used_at', 'run_epoch', 'idle_ms', 'seen_ms'] as const;

export async function saveUses(sql: Sql, { uses }: { uses: UseRow[] }): Promise<void> {
  await insertMany(sql, uses, {
    into: `workload_uses (${use_columns.join(', ')})`,
    valuesOf: (row) => use_columns.map((name) => row[name]),
    conflict: `(workload_id) do update set used_at = excluded.used_at,
      run_epoch = excluded.run_epoch, idle_ms = excluded.idle_ms, seen_ms = excluded.seen_ms`,
  });
}

/** A page of what is known of workloads that are there, in the order of their ids. */
export const listUses: Query<{ after: string; limit: number }, UseRow[]> = (sql, args) =>
  sql.all<UseRow>(
    `select u.* from workload_uses u join workloads w on w.id = u.workload_id
     where u.workload_id > $1 and w.state <> 'deleted' order by u.workload_id limit $2`,
    [args.after, args.limit],
  );

/** The runs of these workloads on that machine, and how many GPUs each is to have. */
export const runsOnMachine: Query<
  { machine_id: string; workload_ids: string[] },
  (Row & { workload_id: string; replica: number; run_epoch: number; gpu_count: number })[]
> = (sql, { machine_id, workload_ids }) =>
  sql.all(
    `select r.workload_id, r.replica, r.run_epoch, w.gpu_count
     from runs r join workloads w on w.id = r.workload_id
     where r.machine_id = $1 and r.removed_at is null
       and r.workload_id ${sql.in(workload_ids, 2)}`,
    [machine_id, ...workload_ids],
  );

type Insert<T> = { into: string; conflict: string; valuesOf(row: T): SqlValue[] };

async function insertMany<T>(sql: Sql, rows: readonly T[], how: Insert<T>): Promise<void> {
  for (let from = 0; from < rows.length; from += rows_of_statement) {
    const some = rows.slice(from, from + rows_of_statement).map(how.valuesOf);
    let count = 0;
    const places = some.map((row) => {
      const names = row.map(() => {
        count += 1;
        return `$${count}`;
      });
      return `(${names.join(', ')})`;
    });
    await sql.run(
      `insert into ${how.into} values ${places.join(', ')} on conflict ${how.conflict}`,
      some.flat(),
    );
  }
}
