/**
 * The key by which a run calls the gateway: derived, and made known before it is handed out.
 *
 * Invariants: the store has the hash alone; asking again writes nothing.
 */
import type { RunKey } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import { digest, type Secret } from '../lib/secret.ts';
import { hasRunKey } from '../store/run-keys.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { RunTokens } from './run-tokens.ts';

export type RunKeysDeps = {
  store: EinsoraStore;
  clock: Pick<Clock, 'now'>;
  runTokens: Pick<RunTokens, 'gatewayKey'>;
};

/** Null where the run has ended meanwhile. */
export function createRunKeys({ store, clock, runTokens }: RunKeysDeps) {
  return async ({ workload_id, replica, run_epoch }: RunKey): Promise<Secret | null> => {
    const run = { workload_id, replica, run_epoch };
    const key = runTokens.gatewayKey(run);
    const hash = digest(key.reveal());
    if ((await store.read(hasRunKey, { hash })) !== undefined) return key;
    const { kept } = await store.transact('keepRunKey', { ...run, hash, now: clock.now() });
    return kept > 0 ? key : null;
  };
}
