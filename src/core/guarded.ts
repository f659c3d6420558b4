/**
 * What a machine's guard and its own policy file say to placement.
 *
 * Invariants: pure; the policy of the machine concerns guests alone; the guard's word is for now,
 * the policy's for good: who is refused by policy is not asked to wait for better times.
 */
import type { Ask } from './ask.ts';
import { guardedAgainst, guardPhrase } from './guard.ts';
import type { Details, ReasonCode } from './reasons.ts';
import { brokenRule } from './refusals.ts';
import type { DriverName, TrustLevel } from './trust.ts';
import type { MachineView } from './workload.ts';

/** The rule of the machine's policy that forbids it to this driver; null where none does. */
export function ruleAgainst(
  ask: Ask,
  tenant_id: string,
  trust: TrustLevel,
  machine: MachineView,
  driver: DriverName | null,
): string | null {
  const { refuses = null, slugs } = machine;
  if (refuses === null || trust === 'owner') return null;
  return brokenRule(refuses, ask, slugs?.get(tenant_id) ?? null, driver);
}

/** Why it takes nothing new of this tenant just now; null where it does. */
export function guardRefusal(
  trust: TrustLevel,
  { guard = null }: MachineView,
): 'machine_guarded' | 'machine_low' | null {
  if (guard === null || guardedAgainst(guard, trust === 'owner') === null) return null;
  return trust === 'owner' ? 'machine_low' : 'machine_guarded';
}

/** What fills the sentence of such a refusal in. */
export function guardDetails(
  code: ReasonCode,
  ask: Ask,
  tenant_id: string,
  trust: TrustLevel,
  machine: MachineView,
): Details {
  if (code === 'refused_by_machine') {
    const drivers = machine.drivers.map(({ driver }) => driver);
    const rules = [null, ...drivers].map((one) => ruleAgainst(ask, tenant_id, trust, machine, one));
    return { machine: machine.name, rule: rules.find((one) => one !== null) ?? 'guests' };
  }
  const why = machine.guard ? guardedAgainst(machine.guard, trust === 'owner') : null;
  return { machine: machine.name, why: why === null ? '' : guardPhrase(why) };
}
