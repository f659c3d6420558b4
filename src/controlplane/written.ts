/**
 * Counts what this control plane writes, so that who waits for a change need not ask the store.
 *
 * Invariants: what admission looks at is counted; what it does not (proofs of running, the activity
 * log, samples, last uses, the gateway's requests) is left out, for it is written all the time.
 */
import type { Changes } from './changes.ts';
import { background, type WriteWatch, watchWrites } from './write-watch.ts';

const beside = new Set([...background, 'startLedgerClock']);

export type Counted = Changes & Pick<WriteWatch, 'written'>;

export function countWrites(changes: Changes): Counted {
  const { store, written } = watchWrites(changes.store, beside);
  return { ...changes, written, store };
}
