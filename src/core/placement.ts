/**
 * Where a workload would run, and why nowhere else: a pure decision for admission and for the plan.
 *
 * Invariants: every machine that cannot take it has exactly one refusal, the first that applies in
 * the order region, kind, trust, accelerator, driver, size, reachability, room; the choice among
 * the fitting ones is the one that leaves the least waste, then the lower id.
 */

import { classes } from './catalog.ts';
import { formatMemory } from './format.ts';
import type { Details, ReasonCode } from './reasons.ts';
import { driverIsolation, mayRun, trustLevel } from './trust.ts';
import type { Amounts, MachineDriver, MachineView, Placement, WorkloadSpec } from './workload.ts';

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
  spec: WorkloadSpec,
  tenant_id: string,
  machines: readonly MachineView[],
): PlacementDecision {
  const refusals: Refusal[] = [];
  let best: { placement: Placement; waste: number } | null = null;
  for (const machine of [...machines].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    const verdict = judge(spec, tenant_id, machine);
    if ('code' in verdict) {
      refusals.push({ machine_id: machine.id, machine_name: machine.name, ...verdict });
      continue;
    }
    const waste = leftOver(machine, spec);
    if (best === null || waste < best.waste) {
      best = { placement: placementOn(machine, verdict, spec), waste };
    }
  }
  if (best !== null) return { chosen: best.placement, refusals, code: null };
  const busy = refusals.some((refusal) => refusal.code === 'machine_busy');
  return { chosen: null, refusals, code: busy ? 'all_matching_busy' : 'no_machine_matches' };
}

/** What is not held of a machine. Never negative, even where the owner lowered the offer. */
export function freeOf(machine: MachineView): Amounts {
  return {
    cpu_millis: Math.max(0, machine.offered.cpu_millis - machine.held.cpu_millis),
    memory_bytes: Math.max(0, machine.offered.memory_bytes - machine.held.memory_bytes),
    disk_bytes: Math.max(0, machine.offered.disk_bytes - machine.held.disk_bytes),
  };
}

type Verdict = MachineDriver | { code: ReasonCode; details: Details };

function judge(spec: WorkloadSpec, tenant_id: string, machine: MachineView): Verdict {
  const name = { machine: machine.name };
  const able = machine.drivers.filter((entry) => entry.kinds.includes(spec.kind));
  if (machine.region !== spec.region) return { code: 'no_machine_matches', details: name };
  if (machine.drivers.length === 0) return { code: 'machine_starting', details: name };
  if (able.length === 0) return { code: 'driver_missing', details: { ...name, kind: spec.kind } };
  const trust = trustLevel(tenant_id, machine);
  const trusted = able.filter((entry) => mayRun(trust, entry.driver, machine.sharing));
  if (trusted.length === 0) return { code: 'isolation_not_allowed', details: name };
  if (spec.accelerator !== null && !machine.accelerators.includes(spec.accelerator)) {
    return { code: 'accelerator_missing', details: { ...name, accelerator: spec.accelerator } };
  }
  const ready = trusted.find((entry) => entry.ready);
  if (ready === undefined) {
    const told = trusted.find((entry) => entry.why !== null);
    const why = told?.why ?? 'its driver is not ready';
    // Without a sandbox or a cap nothing runs: those have a sentence and a command of their own.
    const own = told?.why_code;
    const code = own === 'sandbox_missing' || own === 'cap_missing' ? own : 'driver_not_ready';
    return { code, details: { ...name, why } };
  }
  if (!fits(spec, machine.offered)) {
    const details = { ...name, asked: describe(spec), offered: describe(machine.offered) };
    return { code: 'machine_too_small', details };
  }
  if (!machine.online) {
    const since = machine.last_seen_at === null ? 'it was added' : timeOfDay(machine.last_seen_at);
    return { code: 'machine_offline', details: { ...name, since } };
  }
  if (!fits(spec, freeOf(machine))) {
    const details = {
      ...name,
      asked: describe(spec),
      free: describe(freeOf(machine)),
      holders: machine.holders.slice(0, 3).join(', ') || 'others',
    };
    return { code: 'machine_busy', details };
  }
  return ready;
}

function fits(asked: Amounts, room: Amounts): boolean {
  return (
    asked.cpu_millis <= room.cpu_millis &&
    asked.memory_bytes <= room.memory_bytes &&
    asked.disk_bytes <= room.disk_bytes
  );
}

/** How much of the machine stays unused beside this one, as a share: less is better. */
function leftOver(machine: MachineView, spec: WorkloadSpec): number {
  const free = freeOf(machine);
  const share = (left: number, all: number) => (all === 0 ? 0 : left / all);
  return (
    share(free.cpu_millis - spec.cpu_millis, machine.offered.cpu_millis) +
    share(free.memory_bytes - spec.memory_bytes, machine.offered.memory_bytes)
  );
}

function placementOn(machine: MachineView, entry: MachineDriver, spec: WorkloadSpec): Placement {
  return {
    machine_id: machine.id,
    machine_name: machine.name,
    driver: entry.driver,
    isolation: driverIsolation[entry.driver],
    placed_class: spec.gpu_class ?? sizeName(spec),
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
