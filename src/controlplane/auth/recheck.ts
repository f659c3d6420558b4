/**
 * Looks at the store for proofs that ended elsewhere: revoked through another control plane of the
 * same deployment, or not used for too long. What this one revokes is told at once without it.
 *
 * Invariants: nothing is read where nothing is held; a failed round is left to the next one.
 */
import { limits } from '../../contract/limits.ts';
import type { Clock } from '../../lib/clock.ts';
import { describeError, type Log } from '../../lib/log.ts';
import { workingProofs } from '../../store/accounts.ts';
import type { EinsoraStore } from '../../store/transactions.ts';
import type { Revocations } from './revocations.ts';

const every_ms = 4000;
const at_a_time = 250;

type Deps = { store: EinsoraStore; clock: Clock; revocations: Revocations };

export function startRecheck(deps: Deps & { log: Log }): { stop(): Promise<void> } {
  const { clock, log } = deps;
  const stopping = new AbortController();

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      await clock.sleep(every_ms, stopping.signal);
      if (stopping.signal.aborted) return;
      try {
        await recheck(deps);
      } catch (error) {
        log.warn({ error: describeError(error) }, 'proofs were not looked at');
      }
    }
  }

  const running = loop();
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

/** One round: tells of every held proof that does not work any more. */
export async function recheck({ store, clock, revocations }: Deps): Promise<void> {
  const held = revocations.heldProofs();
  for (let from = 0; from < held.length; from += at_a_time) {
    const ids = held.slice(from, from + at_a_time);
    const now = clock.now();
    const idle_before = now - limits.session_idle_ms;
    const working = await store.read(workingProofs, { ids, now, idle_before });
    const good = new Set(working.map(({ id }) => id));
    for (const id of ids) if (!good.has(id)) revocations.tell({ proof_id: id });
  }
}
