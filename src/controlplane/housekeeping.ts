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
