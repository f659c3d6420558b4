/**
 * Endpoints that run by a fallback and would go back to what they asked (ADR-0059): which of them
 * may now, for a pass of the controller.
 *
 * Invariants: none within half an hour of its placement; none that was in use in the last minute,
 * or is not known not to be.
 */
import { limits } from '../contract/limits.ts';
import { listReturning, type ReturningRow, return_after_ms } from '../store/fallback-return.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type Returning = {
  /** Those that may go back now, where there is room for what they asked. */
  may: ReturningRow[];
  /** When to look again, by the wall clock; null where none would go back. */
  look_at: number | null;
};

export type IdleOf = (workload_id: string, run_epoch: number) => number;

export async function readReturning(
  store: EinsoraStore,
  idleOf: IdleOf,
  now: number,
): Promise<Returning> {
  const rows = await store.read(listReturning, { limit: limits.returning_rows });
  const may = rows.filter(
    (row) =>
      now - row.placed_at >= return_after_ms &&
      idleOf(row.id, row.run_epoch) >= limits.return_idle_ms,
  );
  return { may, look_at: rows.length === 0 ? null : now + limits.return_look_ms };
}
