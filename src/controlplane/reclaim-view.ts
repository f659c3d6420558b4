/**
 * How a machine is taken back, as the API shows it: of a machine, and of a workload on it.
 *
 * Invariants: who asked is told to the owner's people alone; a workload that may stay is told
 * nothing; how long is left follows the steady clock.
 */
import type { MachineReclaim, WorkloadReclaim } from '../contract/reclaim.ts';
import { isConcerned, type ReclaimInstant } from '../core/reclaim.ts';
import { parseReclaim, whyPhrase } from '../store/preempt.ts';

/** Null where nobody wants the machine back. `is_own`: it is the asking tenant's. */
export function machineReclaim(text: string, is_own: boolean): MachineReclaim | null {
  const reclaim = parseReclaim(text);
  if (reclaim === null) return null;
  const { ask, phase, scope, why, since, due_at } = reclaim;
  const until = ask?.until ?? null;
  const by = is_own ? (ask?.by ?? null) : null;
  if (phase !== 'idle') {
    const stops_at = phase === 'grace' ? due_at : null;
    const facts = { scope, why, why_text: whyPhrase(why), since, starts_at: null, stops_at };
    return { phase, ...facts, until, by };
  }
  if (ask === null) return null;
  const { start } = ask;
  const starts_at = start.when === 'at' || start.when === 'in' ? start.at : null;
  return {
    phase: starts_at === null ? 'armed' : 'planned',
    ...{ scope: ask.scope, why: 'owner_asked', why_text: whyPhrase('owner_asked') },
    ...{ since: ask.asked_at, starts_at, until, by },
    stops_at: starts_at === null ? null : starts_at + ask.grace_ms,
  };
}

/** Null where the workload's machine is not about to be taken back from it. */
export function workloadReclaim(
  run: { machine_reclaim: string; machine_tenant_id: string },
  tenant_id: string,
  at: ReclaimInstant,
): WorkloadReclaim | null {
  const reclaim = parseReclaim(run.machine_reclaim);
  if (reclaim === null) return null;
  const { ask, phase, scope, why, due } = reclaim;
  if (phase === 'grace' && isConcerned(scope, run.machine_tenant_id, tenant_id)) {
    const stops_in_ms = Math.max(0, due - at.steady);
    return { phase, why_text: whyPhrase(why), starts_in_ms: 0, stops_in_ms };
  }
  if (phase !== 'idle' || ask === null) return null;
  if (!isConcerned(ask.scope, run.machine_tenant_id, tenant_id)) return null;
  const { start } = ask;
  if (start.when !== 'at' && start.when !== 'in') return null;
  const left_ms = start.when === 'at' ? start.at - at.now : start.due - at.steady;
  const starts_in_ms = Math.max(0, left_ms);
  const stops_in_ms = starts_in_ms + ask.grace_ms;
  return { phase: 'planned', why_text: whyPhrase('owner_asked'), starts_in_ms, stops_in_ms };
}
