/**
 * Where a workload would run, and why nowhere else: a pure decision for admission and for the plan.
 *
 * Invariants: a machine that a tenant may not know of is neither chosen, counted nor named; every
 * other that cannot take it has exactly one refusal, the first that applies in the order region,
 * kind, image and accelerator, trust, driver, size, reachability, room; the choice among the
 * fitting ones is the one that leaves the least waste, then the lower id.
 */

import type { Ask } from './ask.ts';
import { classes } from './catalog.ts';
import { formatMemory } from './format.ts';
import { defaultImage, type ImageRuntime, type RunForm, runsForm, runtimesOf } from './images.ts';
import type { Details, ReasonCode } from './reasons.ts';
import { type DriverName, driverIsolation, mayRun, maySee, trustLevel } from './trust.ts';
import type { Amounts, MachineDriver, MachineView, Placement } from './workload.ts';

export type Refusal = {
  machine_id: string;
  machine_name: string;
  code: ReasonCode;
  details: Details;
};

export type PlacementDecision = {
  chosen: Placement | null;
  refusals: Refusal[];
  /** Why it waits, where nothing was chosen. */
  code: ReasonCode | null;
};

/** Decides for one workload of a tenant over a snapshot of the machines. */
export function place(
  ask: Ask,
  tenant_id: string,
  machines: readonly MachineView[],
): PlacementDecision {
  const refusals: Refusal[] = [];
  let best: { placement: Placement; waste: number } | null = null;
  const known = machines.filter((machine) => maySee(trustLevel(tenant_id, machine), machine));
  for (const machine of known.sort((a, b) => (a.id < b.id ? -1 : 1))) {
    const driver = suitable(ask, tenant_id, machine);
    const code =
      typeof driver === 'string' ? driver : hasRoom(ask, machine) ? null : 'machine_busy';
    if (code !== null) {
      const details = refusalDetails(code, ask, tenant_id, machine);
      refusals.push({ machine_id: machine.id, machine_name: machine.name, code, details });
      continue;
    }
    const waste = leftOver(machine, ask);
    if (typeof driver !== 'string' && (best === null || waste < best.waste)) {
      best = { placement: placementOn(machine, driver, ask), waste };
    }
  }
  if (best !== null) return { chosen: best.placement, refusals, code: null };
  return { chosen: null, refusals, code: waitCode(new Set(refusals.map(({ code }) => code))) };
}

/**
 * Why a workload waits that every machine refused, by the refusal that came closest: one that has
 * no room now says more than one that could never take it. Without any, there is no machine that
 * the tenant may know of.
 */
export function waitCode(refusals: ReadonlySet<ReasonCode>): ReasonCode {
  if (refusals.has('machine_busy')) return 'all_matching_busy';
  if (refusals.has('machine_offline')) return 'all_matching_offline';
  return refusals.size === 0 ? 'no_machine_shared' : 'no_machine_matches';
}

/** What is neither held nor reserved. Never negative, even where the owner lowered the offer. */
export function freeOf({ offered, held, reserved }: MachineView): Amounts {
  const free = (name: keyof Amounts) => Math.max(0, offered[name] - held[name] - reserved[name]);
  return {
    cpu_millis: free('cpu_millis'),
    memory_bytes: free('memory_bytes'),
    disk_bytes: free('disk_bytes'),
  };
}

export function hasRoom(ask: Amounts, { offered, held, reserved }: MachineView): boolean {
  const fits = (name: keyof Amounts) =>
    ask[name] <= Math.max(0, offered[name] - held[name] - reserved[name]);
  return fits('cpu_millis') && fits('memory_bytes') && fits('disk_bytes');
}

/** The driver that would run it, or why this machine could not take it even if nothing ran. */
export function suitable(
  ask: Ask,
  tenant_id: string,
  machine: MachineView,
): MachineDriver | ReasonCode {
  if (machine.region !== ask.region) return 'no_machine_matches';
  if (machine.drivers.length === 0) return 'machine_starting';
  const trust = trustLevel(tenant_id, machine);
  const runtimes = runtimesOf(ask.kind, ask.image_id);
  let able = false;
  let formed = false;
  let trusted: MachineDriver | null = null;
  let ready: MachineDriver | null = null;
  let best = Number.POSITIVE_INFINITY;
  for (const entry of machine.drivers) {
    if (!entry.kinds.includes(ask.kind)) continue;
    able = true;
    const rank = rankOf(runtimes, ask, entry.driver, machine.accelerators);
    if (rank === null) continue;
    formed = true;
    if (!mayRun(trust, entry.driver, machine.sharing)) continue;
    if (trusted === null || (trusted.why === null && entry.why !== null)) trusted = entry;
    if (!entry.ready || rank >= best) continue;
    [ready, best] = [entry, rank];
  }
  if (!able) return 'driver_missing';
  if (!formed) {
    const accelerators = acceleratorsOf(runtimes, ask);
    const has_one = accelerators.some((one) => hasAccelerator(machine.accelerators, one));
    return has_one ? 'image_form_missing' : 'accelerator_missing';
  }
  if (trusted === null) return 'isolation_not_allowed';
  if (ready === null) {
    // Without a sandbox or a cap nothing runs: those have a sentence and a command of their own.
    const own = trusted.why_code;
    return own === 'sandbox_missing' || own === 'cap_missing' ? own : 'driver_not_ready';
  }
  const { offered } = machine;
  const is_large =
    ask.cpu_millis <= offered.cpu_millis &&
    ask.memory_bytes <= offered.memory_bytes &&
    ask.disk_bytes <= offered.disk_bytes;
  if (!is_large) return 'machine_too_small';
  return machine.online ? ready : 'machine_offline';
}

/** How well a driver runs the image there, 0 best; null where it cannot. */
function rankOf(
  runtimes: readonly ImageRuntime[],
  ask: Ask,
  driver: DriverName,
  accelerators: readonly string[],
): number | null {
  const rank = runtimes.findIndex(
    (one) =>
      runsForm(driver, one.form) &&
      (ask.accelerator === null || one.accelerator === ask.accelerator) &&
      hasAccelerator(accelerators, one.accelerator),
  );
  return rank === -1 ? null : rank;
}

function hasAccelerator(accelerators: readonly string[], wanted: string): boolean {
  return wanted === 'cpu' || accelerators.includes(wanted);
}

/** What the image could run on, of what was asked for. */
function acceleratorsOf(runtimes: readonly ImageRuntime[], ask: Ask): string[] {
  if (ask.accelerator !== null) return [ask.accelerator];
  return [...new Set(runtimes.map((one) => one.accelerator))];
}

/** The details of a refusal, for its sentence. */
export function refusalDetails(
  code: ReasonCode,
  ask: Ask,
  tenant_id: string,
  machine: MachineView,
): Details {
  const name = { machine: machine.name };
  switch (code) {
    case 'driver_missing':
      return { ...name, kind: ask.kind };
    case 'accelerator_missing':
      return { ...name, accelerator: neededAccelerators(ask) };
    case 'image_form_missing':
      return { ...name, image: imageName(ask), needs: neededForms(ask) };
    case 'cap_missing': {
      // The driver's own finding begins with what the sentence says already.
      const why = whyNotReady(ask, tenant_id, machine);
      return { ...name, why: why.replace(/^memory cannot be capped: /, '') };
    }
    case 'sandbox_missing':
    case 'driver_not_ready':
      return { ...name, why: whyNotReady(ask, tenant_id, machine) };
    case 'machine_too_small':
      return { ...name, asked: describe(ask), offered: describe(machine.offered) };
    case 'machine_offline': {
      const at = machine.last_seen_at;
      return { ...name, since: at === null ? 'it was added' : timeOfDay(at) };
    }
    case 'machine_busy':
      return {
        ...name,
        asked: describe(ask),
        free: describe(freeOf(machine)),
        holders: machine.holders.slice(0, 3).join(', ') || 'others',
      };
    default:
      return name;
  }
}

function whyNotReady(ask: Ask, tenant_id: string, machine: MachineView): string {
  const trust = trustLevel(tenant_id, machine);
  const runtimes = runtimesOf(ask.kind, ask.image_id);
  const told = machine.drivers.find(
    (entry) =>
      entry.why !== null &&
      entry.kinds.includes(ask.kind) &&
      rankOf(runtimes, ask, entry.driver, machine.accelerators) !== null &&
      mayRun(trust, entry.driver, machine.sharing),
  );
  return told?.why ?? 'its driver is not ready';
}

function neededAccelerators(ask: Ask): string {
  return acceleratorsOf(runtimesOf(ask.kind, ask.image_id), ask).join(' or ');
}

function imageName({ kind, image_id }: Ask): string {
  return image_id ?? defaultImage(kind) ?? `of a ${kind}`;
}

function neededForms(ask: Ask): string {
  const runtimes = runtimesOf(ask.kind, ask.image_id).filter(
    ({ accelerator }) => ask.accelerator === null || accelerator === ask.accelerator,
  );
  return [...new Set(runtimes.map(({ form }) => form_words[form]))].join(' or ') || 'another one';
}

const form_words: Readonly<Record<RunForm, string>> = {
  native: "a driver for the machine's own programs",
  container: 'a container engine such as Docker',
  machine: 'a driver for virtual machines',
};

/** How much of the machine stays unused beside this one, as a share: less is better. */
export function leftOver({ offered, held, reserved }: MachineView, ask: Amounts): number {
  const share = (name: 'cpu_millis' | 'memory_bytes') =>
    offered[name] === 0
      ? 0
      : (Math.max(0, offered[name] - held[name] - reserved[name]) - ask[name]) / offered[name];
  return share('cpu_millis') + share('memory_bytes');
}

export function placementOn(machine: MachineView, entry: MachineDriver, ask: Ask): Placement {
  return {
    machine_id: machine.id,
    machine_name: machine.name,
    driver: entry.driver,
    isolation: driverIsolation[entry.driver],
    placed_class: ask.gpu_class ?? sizeName(ask),
  };
}

/** The class with exactly these amounts, or a plain description. */
export function sizeName(amounts: Amounts): string {
  const exact = classes.find(
    (entry) =>
      entry.cpu_millis === amounts.cpu_millis && entry.memory_bytes === amounts.memory_bytes,
  );
  return exact?.name ?? describe(amounts);
}

function describe(amounts: Amounts): string {
  return `${amounts.cpu_millis / 1000} CPU and ${formatMemory(amounts.memory_bytes)}`;
}

function timeOfDay(at: number): string {
  return new Date(at).toISOString().slice(11, 16);
}
