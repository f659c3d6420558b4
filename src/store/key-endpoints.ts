/**
 * What endpoint keys open: a first endpoint each, and any number beside it.
 *
 * Invariants: a key ends with the last endpoint that it opens.
 */
import type { Sql } from './sql.ts';

/** Of `endpoint_keys`, those that open the workload `$1`. */
export const opens = `(workload_id = $1 or id in
  (select m.key_id from endpoint_key_models m where m.workload_id = $1))`;

/** Revokes the keys that open a deleted endpoint and no other. */
export async function revokeKeysOf(
  sql: Sql,
  { workload_id, now }: { workload_id: string; now: number },
): Promise<void> {
  await sql.run(
    `update endpoint_keys set revoked_at = $2 where revoked_at is null and ${opens}
       and not exists (select 1 from workloads w
         where w.id <> $1 and w.intent <> 'deleted' and (w.id = endpoint_keys.workload_id or w.id in
           (select m.workload_id from endpoint_key_models m where m.key_id = endpoint_keys.id)))`,
    [workload_id, now],
  );
}
