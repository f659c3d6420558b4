/**
 * Trust as the API shows it: how a place stands to whoever asks, and what its host could see.
 */
import type { Plan } from '../contract/workloads.ts';
import { hostSees, tierOf, trustLevel } from '../core/trust.ts';
import type { MachineView, Placement } from '../core/workload.ts';

/** A decided place, with its tier for the tenant that asks. */
export function placedView(
  chosen: Placement | null,
  tenant_id: string,
  machines: readonly MachineView[],
): Plan['chosen'] {
  if (chosen === null) return null;
  const machine = machines.find(({ id }) => id === chosen.machine_id);
  if (machine === undefined) throw new Error(`${chosen.machine_id} is none of those looked at`);
  // How it is run and what it weighs there is for the machine and for fair share.
  const { runtime: _, weight_millis: __, ...shown } = chosen;
  return { ...shown, isolation_tier: tierOf(trustLevel(tenant_id, machine)) };
}

export function hostSeesIn(chosen: Placement | null): string | null {
  return chosen === null ? null : hostSees(chosen.driver, chosen.as);
}
