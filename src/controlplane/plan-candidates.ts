/**
 * Every machine that a tenant may know of, as a plan shows it: by which driver it would run, what
 * the host could see of it, or why not.
 */
import type { Plan } from '../contract/workloads.ts';
import type { PlacementDecision } from '../core/placement.ts';
import { fixOf, sentenceOf } from '../core/reasons.ts';
import { hostSees } from '../core/trust.ts';
import type { MachineView, Placement } from '../core/workload.ts';
import type { QueueView } from './queue-view.ts';

/** The chosen one first, then those that would do too, then those that would not. */
export function candidatesOf(decision: PlacementDecision): Plan['candidates'] {
  const { chosen, others, refusals } = decision;
  return [
    ...(chosen === null ? [] : [fitting(chosen, 'chosen' as const)]),
    ...others.map((placement) => fitting(placement, 'fits' as const)),
    ...refusals.map(({ machine_name, driver, code, details }) => ({
      ...{ machine_name, answer: 'no' as const, driver, isolation: null, host_sees: null },
      reason: { code, message: sentenceOf(code, details), fix: fixOf(code, details) },
    })),
  ];
}

function fitting(placement: Placement, answer: 'chosen' | 'fits'): Plan['candidates'][number] {
  const { machine_name, driver, as, isolation } = placement;
  const host_sees = hostSees(driver, as);
  return { machine_name, answer, driver: as ?? driver, isolation, host_sees, reason: null };
}

/** The machines with what the last pass keeps free on them for who has waited long. */
export function withReservations(
  machines: readonly MachineView[],
  queue: Pick<QueueView, 'reserved'>,
): MachineView[] {
  return machines.map((machine) => {
    const kept = queue.reserved(machine.id);
    if (kept === null) return machine;
    const { amounts, head, devices } = kept;
    const own = machine.devices?.map((one) => ({ ...one, reserved: devices.has(one.uuid) }));
    return {
      ...{ ...machine, reserved: amounts },
      ...(head === undefined ? {} : { reserved_for: head }),
      ...(own === undefined ? {} : { devices: own }),
    };
  });
}
