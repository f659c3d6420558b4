/**
 * Whether a machine could take a workload at all, whatever is busy, and by which of its drivers:
 * pure, for admission and for the plan.
 *
 * Invariants: one answer for each machine, the first that applies in the order region, home, asked
 * machine, kind, image and accelerator, trust, the machine's own policy, driver, size, whether it
 * is drained or taken back, reachability. What is free is decided elsewhere (placement.ts).
 */
import { type Ask, onlyMachine } from './ask.ts';
import { builtin_catalog, type Catalog, findClass } from './catalog.ts';
import { deviceRefusal, whyNoneUsable } from './devices.ts';
import { guardRefusal, ruleAgainst } from './guarded.ts';
import { type ImageRuntime, runsForm, runtimesOf } from './images.ts';
import type { ReasonCode } from './reasons.ts';
import { isConcerned } from './reclaim.ts';
import { type DriverName, mayRun, trustLevel } from './trust.ts';
import type { Amounts, MachineDriver, MachineView } from './workload.ts';

/** The driver that would run it, or why this machine could not take it even if nothing ran. */
export function suitable(
  ask: Ask,
  tenant_id: string,
  machine: MachineView,
  catalog: Catalog = builtin_catalog,
): MachineDriver | ReasonCode {
  const elsewhere = notHere(ask, machine, catalog);
  if (elsewhere !== null) return elsewhere;
  if (machine.drivers.length === 0) return 'machine_starting';
  const trust = trustLevel(tenant_id, machine);
  const runtimes = runtimesOf(ask.kind, ask.image_id, catalog.images);
  let able = false;
  let formed = false;
  let allowed = false;
  let trusted: MachineDriver | null = null;
  let ready: MachineDriver | null = null;
  let best = Number.POSITIVE_INFINITY;
  for (const entry of machine.drivers) {
    if (!entry.kinds.includes(ask.kind)) continue;
    able = true;
    const rank = rankOf(runtimes, ask, entry.driver, machine.accelerators);
    if (rank === null) continue;
    formed = true;
    if (!mayRun(trust, entry.driver, machine.sharing, entry.as)) continue;
    allowed = true;
    if (ruleAgainst(ask, tenant_id, trust, machine, entry.driver) !== null) continue;
    if (trusted === null || (trusted.why === null && entry.why !== null)) trusted = entry;
    if (!entry.ready || rank >= best) continue;
    [ready, best] = [entry, rank];
  }
  if (!able) return 'driver_missing';
  if (!formed) {
    const accelerators = acceleratorsOf(runtimes, ask);
    const has_one = accelerators.some((one) => hasAccelerator(machine.accelerators, one));
    if (has_one) return 'image_form_missing';
    const has_gpus = ask.gpu_count > 0 && whyNoneUsable(machine.devices ?? []) !== null;
    return has_gpus ? 'gpus_unusable' : 'accelerator_missing';
  }
  if (trusted === null) return allowed ? 'refused_by_machine' : 'isolation_not_allowed';
  if (ready === null) {
    // Without a sandbox or a cap nothing runs: those have a sentence and a command of their own.
    const own = trusted.why_code;
    return own === 'sandbox_missing' || own === 'cap_missing' ? own : 'driver_not_ready';
  }
  return unfit(ask, tenant_id, machine, ready) ?? ready;
}

/** Why it may not be looked at: what was asked, or where its disk is, is elsewhere. */
function notHere(ask: Ask, machine: MachineView, catalog: Catalog): ReasonCode | null {
  const { home_machine_id: home } = ask;
  // Where it first ran decides for good, by a fallback to another region or machine as well.
  if (home) return home === machine.id ? null : 'home_elsewhere';
  if (machine.region !== ask.region) return 'other_region';
  // Its home is its only candidate, also where a fallback led there from the one it asked for.
  const asked = home ? null : onlyMachine(ask);
  if (asked !== null && asked !== machine.id) return 'machine_not_asked';
  const regions = ask.gpu_class === null ? null : findClass(ask.gpu_class, catalog)?.regions;
  return regions && !regions.includes(ask.region) ? 'class_not_in_region' : null;
}

/** Why a machine whose driver would do cannot take it, now or ever; null where it can. */
function unfit(
  ask: Ask,
  tenant_id: string,
  machine: MachineView,
  { driver }: MachineDriver,
): ReasonCode | null {
  const short = (name: keyof Amounts) => ask[name] > machine.offered[name];
  if (short('cpu_millis')) return 'cpu_short';
  if (short('memory_bytes')) return 'memory_short';
  if (short('disk_bytes')) return 'disk_short';
  const refused = deviceRefusal(ask, driver, machine.devices ?? []);
  if (refused !== null) return refused;
  if (machine.drained) return 'machine_draining';
  const { reclaim, owner_tenant_id } = machine;
  if (reclaim && isConcerned(reclaim.scope, owner_tenant_id, tenant_id)) return 'machine_reclaimed';
  if (!machine.online) return ask.home_machine_id ? 'home_offline' : 'machine_offline';
  return guardRefusal(trustLevel(tenant_id, machine), machine);
}

/** How well a driver runs the image there, 0 best; null where it cannot. */
export function rankOf(
  runtimes: readonly ImageRuntime[],
  ask: Ask,
  driver: DriverName,
  accelerators: readonly string[],
): number | null {
  const rank = runtimes.findIndex(
    (one) =>
      runsForm(driver, one.form) &&
      (ask.accelerator === null || one.accelerator === ask.accelerator) &&
      // Who asked for no GPU is given none, and so runs nothing that needs one (ADR-0052).
      (one.accelerator !== 'nvidia' || ask.gpu_count > 0) &&
      hasAccelerator(accelerators, one.accelerator),
  );
  return rank === -1 ? null : rank;
}

export function hasAccelerator(accelerators: readonly string[], wanted: string): boolean {
  return wanted === 'cpu' || accelerators.includes(wanted);
}

/** What the image could run on, of what was asked for. */
export function acceleratorsOf(runtimes: readonly ImageRuntime[], ask: Ask): string[] {
  if (ask.accelerator !== null) return [ask.accelerator];
  return [...new Set(runtimes.map((one) => one.accelerator))];
}
