/**
 * Proofs that end while something is held open by them: told to whoever holds it.
 *
 * Invariants: told at most once each, in the turn in which the revocation was recorded; a proof
 * that ends by age is told when it does; a listener that throws does not keep others from hearing.
 */
import type { Clock } from '../../lib/clock.ts';
import type { Principal } from './principal.ts';

/** What ended: one proof, all of a user, or all of a tenant. */
export type Revoked = { proof_id: string } | { user_id: string } | { tenant_id: string };
export type Held = Pick<Principal, 'proof_id' | 'user_id' | 'tenant_id' | 'expires_at'>;

export type Revocations = {
  /** Called after the revocation is durable. */
  tell(what: Revoked): void;
  /** Calls `ended` once when the principal's proof ends. Returns the undoing. */
  watch(principal: Held, ended: () => void): () => void;
  /** Ids of the proofs by which something is held. */
  heldProofs(): string[];
  /** How many are held. */
  watching(): number;
};

/** Timers reach no further than 24 days; what ends later is looked at again then. */
const longest_timer_ms = 24 * 24 * 3600_000;

export function createRevocations(clock: Clock): Revocations {
  const holders = new Set<{ principal: Held; end: () => void }>();

  function watch(principal: Held, ended: () => void): () => void {
    let cancel = () => {};
    const holder = {
      principal,
      end() {
        if (!stop()) return;
        ended();
      },
    };
    function stop(): boolean {
      cancel();
      return holders.delete(holder);
    }
    function setTimer(): void {
      if (principal.expires_at === null) return;
      const left_ms = principal.expires_at - clock.now();
      if (left_ms > longest_timer_ms) cancel = clock.after(longest_timer_ms, setTimer);
      else cancel = clock.after(Math.max(0, left_ms), holder.end);
    }
    holders.add(holder);
    setTimer();
    return () => void stop();
  }

  return {
    watch,
    tell(what) {
      for (const holder of [...holders]) {
        if (!concerns(what, holder.principal)) continue;
        try {
          holder.end();
        } catch {
          // Its own fault: the others must hear all the same.
        }
      }
    },
    heldProofs: () => [...new Set([...holders].map(({ principal }) => principal.proof_id))],
    watching: () => holders.size,
  };
}

function concerns(what: Revoked, principal: Held): boolean {
  if ('proof_id' in what) return what.proof_id === principal.proof_id;
  if ('user_id' in what) return what.user_id === principal.user_id;
  return what.tenant_id === principal.tenant_id;
}
