/**
 * What is kept for a while only: forgets it when its time is over.
 *
 * Invariants: bounded work at a time; a failed round is left to the next one.
 */
import { limits } from '../contract/limits.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import type { EinsoraStore } from '../store/transactions.ts';

const every_ms = 10 * 60_000;
const kept_rounds = Math.ceil(limits.idempotency_kept_ms / every_ms) + 1;

export function startHousekeeping(deps: { store: EinsoraStore; clock: Clock; log: Log }) {
  const { store, clock, log } = deps;
  const stopping = new AbortController();

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      await clock.sleep(every_ms, stopping.signal);
      if (stopping.signal.aborted) return;
      try {
        await store.transact('forgetIdempotencyKeys', { kept_rounds });
        await store.transact('forgetRunKeys', {});
        await forgetRequests(store, clock.now() - limits.requests_kept_ms);
      } catch (error) {
        log.warn({ error: describeError(error) }, 'housekeeping failed');
      }
    }
  }

  const running = loop();
  return {
    async stop(): Promise<void> {
      stopping.abort();
      await running;
    },
  };
}

/** In small pieces, so that nobody waits long behind one; what is left is for the next round. */
async function forgetRequests(store: EinsoraStore, before: number): Promise<void> {
  const limit = limits.requests_forgotten_at_once;
  for (let all = 0; all < limits.requests_forgotten_per_round; all += limit) {
    const { forgotten } = await store.transact('forgetRequests', { before, limit });
    if (forgotten < limit) return;
  }
}
