/**
 * Where a workload would run, and why nowhere else: a pure decision for admission and for the plan.
 *
 * Invariants: a machine that a tenant may not know of is neither chosen, counted nor named; every
 * other that cannot take it has exactly one refusal, the first that applies in the order region,
 * kind, image and accelerator, trust, driver, size, reachability, room; the choice among the
 * fitting ones is the one that leaves the least waste, then the lower id.
 */

import { type Ask, onlyMachine, weightOf } from './ask.ts';
import { builtin_catalog, type Catalog } from './catalog.ts';
import { formatMemory } from './format.ts';
import { type ImageRuntime, runsForm, runtimesOf } from './images.ts';
import type { Details, ReasonCode } from './reasons.ts';
import { devicesFor, leftOver, roomRefusal } from './room.ts';
import { hasAccelerator, suitable } from './suitable.ts';
import { type DriverName, isolationOf, maySee, trustLevel } from './trust.ts';
import { countRefusals, refusalDetails, waitCode, waitDetails } from './why-not.ts';
import type { Amounts, MachineDriver, MachineView, Placement } from './workload.ts';

export type Refusal = {
  machine_id: string;
  machine_name: string;
  /** Where one would do, and something else is in the way. */
  driver: DriverName | null;
  code: ReasonCode;
  details: Details;
};

export type PlacementDecision = {
  chosen: Placement | null;
  refusals: Refusal[];
  /** Where it would fit too, and something else was better. */
  others: Placement[];
  /** Why it waits, where nothing was chosen. */
  code: ReasonCode | null;
  details: Details;
};

/** Decides for one workload of a tenant, and of who made it, over a snapshot of the machines. */
export function place(
  ask: Ask,
  tenant_id: string,
  machines: readonly MachineView[],
  creator_id = '',
  catalog: Catalog = builtin_catalog,
): PlacementDecision {
  const by = ({ driver }: MachineDriver) => ({ driver, creator_id });
  const refusals: Refusal[] = [];
  const fitting: { placement: Placement; waste: number }[] = [];
  const known = machines.filter((machine) => maySee(trustLevel(tenant_id, machine), machine));
  for (const machine of known.sort((a, b) => (a.id < b.id ? -1 : 1))) {
    const entry = suitable(ask, tenant_id, machine, catalog);
    const code = typeof entry === 'string' ? entry : roomRefusal(ask, machine, by(entry));
    if (code !== null) {
      const details = refusalDetails(code, ask, tenant_id, machine, catalog);
      const driver = typeof entry === 'string' ? null : entry.driver;
      refusals.push({ machine_id: machine.id, machine_name: machine.name, driver, code, details });
    } else if (typeof entry !== 'string') {
      const placement = placementOn(machine, entry, ask, creator_id, catalog);
      fitting.push({ placement, waste: leftOver(machine, ask, by(entry)) });
    }
  }
  // Stable: of equal waste the lower id stays before.
  const [best, ...others] = fitting.sort((a, b) => a.waste - b.waste).map((one) => one.placement);
  if (best !== undefined) return { chosen: best, refusals, others, code: null, details: {} };
  return { chosen: null, refusals, others: [], ...whyWaits(ask, refusals) };
}

/** Why one waits whose only machine is none that its tenant may know of. */
export function whyGone({ home_machine_id, machine }: Ask): Pick<Refusal, 'code' | 'details'> {
  if (home_machine_id) return { code: 'home_removed', details: {} };
  return { code: 'asked_machine_gone', details: { machine: machine?.name ?? '' } };
}

function whyWaits(ask: Ask, refusals: readonly Refusal[]) {
  const asked = onlyMachine(ask);
  if (asked !== null) {
    const found = refusals.find(({ machine_id }) => machine_id === asked);
    const { code, details } = found ?? whyGone(ask);
    return { code, details };
  }
  const [only] = refusals;
  // Where there is only one machine, its own refusal says more than "no machine matches".
  if (only !== undefined && refusals.length === 1)
    return { code: only.code, details: only.details };
  const counts = countRefusals(refusals.map(({ code }) => code));
  return { code: waitCode(counts), details: waitDetails(counts, ask) };
}

export function placementOn(
  machine: MachineView,
  entry: MachineDriver,
  ask: Ask,
  creator_id = '',
  catalog: Catalog = builtin_catalog,
): Placement {
  const devices = devicesFor(ask, machine, { driver: entry.driver, creator_id }) ?? [];
  return {
    machine_id: machine.id,
    machine_name: machine.name,
    driver: entry.driver,
    ...(entry.as ? { as: entry.as } : {}),
    isolation: isolationOf(entry.driver, entry.as),
    placed_class: ask.gpu_class ?? sizeName(ask, catalog),
    ...(devices.length === 0 ? {} : { devices: devices.map(({ uuid }) => uuid) }),
    ...facts(machine, entry, ask, catalog),
  };
}

/** What the run keeps of the catalog as it is now. */
function facts(machine: MachineView, { driver }: MachineDriver, ask: Ask, catalog: Catalog) {
  const weight_millis = Math.round(weightOf(ask, catalog) * 1000);
  const { image_id } = ask;
  if (image_id === null || !catalog.images.own.has(image_id)) return { weight_millis };
  const runtime = runtimesOf(ask.kind, image_id, catalog.images).find(
    (one: ImageRuntime) =>
      runsForm(driver, one.form) &&
      (ask.accelerator === null || one.accelerator === ask.accelerator) &&
      hasAccelerator(machine.accelerators, one.accelerator),
  );
  return runtime === undefined ? { weight_millis } : { weight_millis, runtime };
}

/** The class with exactly these amounts, or a plain description. */
export function sizeName(amounts: Amounts, { classes }: Catalog = builtin_catalog): string {
  const exact = classes.find(
    (entry) =>
      entry.cpu_millis === amounts.cpu_millis && entry.memory_bytes === amounts.memory_bytes,
  );
  const { cpu_millis, memory_bytes } = amounts;
  return exact?.name ?? `${cpu_millis / 1000} CPU and ${formatMemory(memory_bytes)}`;
}
