/**
 * The queue as the last pass of the controller left it: whose turn is next, and why each waits.
 *
 * Invariants: in memory only, for showing; a restart forgets it and the next pass tells it again;
 * nothing is decided by it.
 */
import type { WaitReason } from '../core/placement-index.ts';

export type QueueView = {
  /** 1 is next; null for what the last pass did not see waiting. */
  place(workload_id: string): number | null;
  /** Why it waits, with the figures of the last pass. */
  reason(workload_id: string): WaitReason | null;
  replace(standings: ReadonlyMap<string, Standing>): void;
};

/** Of a workload that waits, or of one replica that waits while others of it go on. */
export function standingKey({ id, one }: { id: string; one?: { replica: number } }): string {
  return one === undefined ? id : `${id}.${one.replica}`;
}

export type Standing = { place: number; reason: WaitReason };

export function createQueueView(): QueueView {
  let standings: ReadonlyMap<string, Standing> = new Map();
  return {
    place: (workload_id) => standings.get(workload_id)?.place ?? null,
    reason: (workload_id) => standings.get(workload_id)?.reason ?? null,
    replace: (latest) => {
      standings = latest;
    },
  };
}
