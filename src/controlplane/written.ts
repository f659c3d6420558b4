/**
 * Counts what this control plane writes, so that who waits for a change need not ask the store.
 *
 * Invariants: what admission looks at is counted; what it does not (proofs of running, the activity
 * log, samples, last uses, the gateway's requests) is left out, for it is written all the time.
 */
import type { Changes } from './changes.ts';

const beside = new Set([
  'closeRequestJournal',
  'forgetRequests',
  'openRequestJournal',
  'proveRunning',
  'recordNotes',
  'recordRequests',
  'recordSamples',
  'saveUses',
  'sealActivity',
  'startLedgerClock',
  'touchSession',
  'touchToken',
]);

export type Counted = Changes & {
  /** Another number after each write that may matter. */
  written(): number;
};

export function countWrites(changes: Changes): Counted {
  const { store } = changes;
  let written = 0;

  async function transact(name: never, args: never): Promise<never> {
    try {
      return (await store.transact(name, args)) as never;
    } finally {
      // Also one that failed: where that is unknown, it may have happened.
      if (!beside.has(name)) written += 1;
    }
  }

  return { ...changes, written: () => written, store: { ...store, transact } };
}
