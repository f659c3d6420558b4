/**
 * Making room: which idle endpoints of one's own to stop, so that what waits fits (ADR-0059).
 *
 * Invariants: pure; only what is given as idle is chosen, as few as possible, on one machine, and
 * of as few the longest unused; null where stopping all of them would not do.
 */
import type { Ask } from './ask.ts';
import type { Catalog } from './catalog.ts';
import { place } from './placement.ts';
import type { MachineView } from './workload.ts';

/** An endpoint that nobody uses, and what its runs hold. */
export type Idler = {
  workload_id: string;
  name: string;
  run_epoch: number;
  idle_ms: number;
  holds: Held[];
};

/** `device` is a GPU; empty for the amounts of a run. */
export type Held = {
  machine_id: string;
  device: string;
  cpu_millis: number;
  memory_bytes: number;
  disk_bytes: number;
};

export type Wanted = { ask: Ask; tenant_id: string; creator_id: string; catalog: Catalog };

/** More than this is not looked at: it would be no small change any more. */
const idlers_limit = 20;
const machines_limit = 50;

export function chooseToStop(
  wanted: Wanted,
  machines: readonly MachineView[],
  idlers: readonly Idler[],
): Idler[] | null {
  const longest = [...idlers].sort((a, b) => b.idle_ms - a.idle_ms);
  let fewest: Idler[] | null = null;
  const touched = machines.filter((one) => longest.some((idler) => holdsOn(idler, one.id)));
  for (const machine of touched.slice(0, machines_limit)) {
    const here = longest.filter((idler) => holdsOn(idler, machine.id)).slice(0, idlers_limit);
    const fits = (stopped: readonly Idler[]) => fitsWithout(wanted, machine, stopped);
    const found = fewestOf(here, fits);
    if (found !== null && (fewest === null || found.length < fewest.length)) fewest = found;
  }
  return fewest;
}

type Fits = (stopped: readonly Idler[]) => boolean;

/** One, else two, else as many of the longest unused as it takes, without those it does not. */
function fewestOf(idlers: readonly Idler[], fits: Fits): Idler[] | null {
  if (!fits(idlers)) return null;
  const one = idlers.find((idler) => fits([idler]));
  if (one !== undefined) return [one];
  for (const [index, first] of idlers.entries()) {
    const second = idlers.slice(index + 1).find((idler) => fits([first, idler]));
    if (second !== undefined) return [first, second];
  }
  let kept = [...idlers];
  for (const idler of idlers.toReversed()) {
    const without = kept.filter((other) => other !== idler);
    if (fits(without)) kept = without;
  }
  return kept;
}

function holdsOn({ holds }: Idler, machine_id: string): boolean {
  return holds.some((hold) => hold.machine_id === machine_id);
}

function fitsWithout(wanted: Wanted, machine: MachineView, stopped: readonly Idler[]): boolean {
  const freed = stopped.flatMap(({ holds }) =>
    holds.filter((one) => one.machine_id === machine.id),
  );
  const { ask, tenant_id, creator_id, catalog } = wanted;
  return place(ask, tenant_id, [without(machine, freed)], creator_id, catalog).chosen !== null;
}

function without(machine: MachineView, freed: readonly Held[]): MachineView {
  const held = { ...machine.held };
  for (const hold of freed) {
    held.cpu_millis -= hold.cpu_millis;
    held.memory_bytes -= hold.memory_bytes;
    held.disk_bytes -= hold.disk_bytes;
  }
  const devices = (machine.devices ?? []).map((device) => {
    const count = freed.filter((hold) => hold.device === device.uuid).length;
    if (count === 0 || device.held === null) return device;
    const left = device.held.count - count;
    return { ...device, held: left > 0 ? { ...device.held, count: left } : null };
  });
  return { ...machine, held, devices };
}
