/**
 * A restored store: a copy that does not know what happened since it was made (ADR-0035).
 *
 * Invariants: it has a higher `store_epoch` than what it was copied from, so agents that met it
 * obey no other; what it believes to run is kept where it is found and never begun anew; nothing is
 * placed again before every machine has told what it runs, or a person has fenced it; the numbers
 * of its runs are none that the lost history can have used.
 */
import type { Row, Sql } from './sql.ts';

/** Runs of one workload that one life of the store may have: each restore begins a new range. */
const run_epochs_each = 1_000_000;

export async function readStoreEpoch(
  sql: Sql,
): Promise<{ store_uuid: string; store_epoch: number }> {
  const meta = await sql.all<{ key: string; value: string }>(
    "select key, value from meta where key in ('store_uuid', 'store_epoch')",
  );
  const value = (key: string) => meta.find((row) => row.key === key)?.value ?? '';
  return { store_uuid: value('store_uuid'), store_epoch: Number(value('store_epoch')) };
}

/** What a store does first where it is a copy. */
export async function restoreStore(
  sql: Sql,
  _args: Record<string, never>,
): Promise<{ store_epoch: number }> {
  const store_epoch = (await readStoreEpoch(sql)).store_epoch + 1;
  await sql.run("update meta set value = $1 where key = 'store_epoch'", [String(store_epoch)]);
  await sql.run(
    `update workloads set restored_epoch = $1, revision = revision + 1 where state <> 'deleted'`,
    [store_epoch],
  );
  await sql.run(
    'update runs set proven_at = created_at where ended_at is null and proven_at is null',
  );
  // Of each machine the first hello is believed, whatever it knows; a later one may come late.
  await sql.run('update machines set generation = generation + 1, hello_id = null');
  return { store_epoch };
}

/** True where every machine has told what it runs since then. */
export async function isReconciled(sql: Sql, restored_epoch: number): Promise<boolean> {
  if (restored_epoch === 0) return true;
  const silent = await sql.get<Row>(
    'select id from machines where reconciled_epoch < $1 and removed_at is null limit 1',
    [restored_epoch],
  );
  return silent === undefined;
}

/** The machine has told what it runs, and this store knows of all of it. */
export async function markReconciled(sql: Sql, machine_id: string): Promise<void> {
  await sql.run(
    `update machines set reconciled_epoch =
       (select cast(value as bigint) from meta where key = 'store_epoch')
     where id = $1 and reconciled_epoch <
       (select cast(value as bigint) from meta where key = 'store_epoch')`,
    [machine_id],
  );
}

export function nextRunEpoch(row: { run_epoch: number; restored_epoch: number }): number {
  return Math.max(row.run_epoch + 1, row.restored_epoch * run_epochs_each);
}
