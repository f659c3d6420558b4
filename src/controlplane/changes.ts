/**
 * Numbers every transaction of this control plane, so that what they wrote can be read in order and
 * without a gap: the timeline's rows carry the number (`workload_events.change`).
 *
 * Invariants: numbers rise in the order in which transactions are begun and go on after a restart;
 * below `settledBelow` nothing is on its way any more, whatever the engine commits first
 * (ADR-0037).
 */
import { lastChange } from '../store/changes.ts';
import { StoreError } from '../store/sql.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type Settled = 'done' | 'failed' | 'unknown';

export type Changes = {
  /** The store, through which all writes must go. */
  store: EinsoraStore;
  settledBelow(): number;
  /** Calls `fn` after each transaction that ended; `unknown` where it may have happened or not. */
  onSettled(fn: (outcome: Settled) => void): void;
};

export async function numberChanges(store: EinsoraStore): Promise<Changes> {
  let next = (await store.read(lastChange, {})) + 1;
  // In the order of the numbers, for a set keeps the order in which it was filled.
  const under_way = new Set<number>();
  const listeners: ((outcome: Settled) => void)[] = [];

  async function transact(name: never, args: never): Promise<never> {
    const change = next;
    next += 1;
    under_way.add(change);
    let outcome: Settled = 'failed';
    try {
      const result = await store.transact(name, { ...(args as object), change } as never);
      outcome = 'done';
      return result as never;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'outcome_unknown') outcome = 'unknown';
      throw error;
    } finally {
      under_way.delete(change);
      for (const listener of listeners) listener(outcome);
    }
  }

  return {
    store: {
      transact,
      read: store.read,
      failed: store.failed,
      close: () => store.close(),
    },
    settledBelow() {
      const [first] = under_way;
      return first ?? next;
    },
    onSettled: (fn) => void listeners.push(fn),
  };
}
