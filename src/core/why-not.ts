/**
 * Why a machine does not take a workload, with figures, and why a workload waits that none takes.
 *
 * Invariants: pure; what is said names a machine that the tenant may know of, and nobody else's
 * workloads; why something waits is the refusal that came closest, and `no_machine_matches` is said
 * only where waiting changes nothing.
 */
import type { Ask } from './ask.ts';
import { builtin_catalog, type Catalog } from './catalog.ts';
import { deviceDetails, whyNoneUsable } from './devices.ts';
import { formatBytes, formatDuration, formatMemory } from './format.ts';
import { guardDetails } from './guarded.ts';
import { defaultImage, type RunForm, runtimesOf } from './images.ts';
import type { Details, ReasonCode } from './reasons.ts';
import { freeOf } from './room.ts';
import { acceleratorsOf, rankOf } from './suitable.ts';
import { mayRun, trustLevel } from './trust.ts';
import type { Amounts, MachineView } from './workload.ts';

/** How many of the machines that a tenant may know of said what. */
export type RefusalCounts = ReadonlyMap<ReasonCode, number>;

/** The refusals that more than one machine may share, closest to a yes first. */
const closest: readonly [readonly ReasonCode[], ReasonCode][] = [
  [['machine_busy', 'gpus_busy'], 'all_matching_busy'],
  [['reserved_for_head'], 'all_matching_reserved'],
  [['machine_reclaimed'], 'all_matching_reclaimed'],
  [['machine_guarded', 'machine_low'], 'all_matching_guarded'],
  [['machine_draining'], 'all_matching_draining'],
  [['machine_offline'], 'all_matching_offline'],
  [['refused_by_machine'], 'all_matching_refuse'],
  [['driver_not_ready', 'sandbox_missing', 'cap_missing'], 'no_driver_ready'],
  [['isolation_not_allowed'], 'no_machine_trusted'],
];

/**
 * Why a workload waits that every machine refused, by the refusal that came closest: one that has
 * no room now says more than one that could never take it. Without any, there is no machine that
 * the tenant may know of.
 */
export function waitCode(refusals: RefusalCounts): ReasonCode {
  for (const [codes, waits] of closest) {
    if (codes.some((code) => refusals.has(code))) return waits;
  }
  if (refusals.size === 0) return 'no_machine_shared';
  const is_all_elsewhere = refusals.size === 1 && refusals.has('other_region');
  return is_all_elsewhere ? 'no_machine_in_region' : 'no_machine_matches';
}

/** What the sentence of `waitCode` is filled with: ` (3 machines: 2 busy, 1 offline)`. */
export function waitDetails(refusals: RefusalCounts, ask: Ask): Details {
  const machines = [...refusals.values()].reduce((sum, count) => sum + count, 0);
  const parts = [...refusals]
    .map(([code, count]) => ({ text: phrases[code] ?? 'not fit for it', count }))
    .sort((a, b) => b.count - a.count || (a.text < b.text ? -1 : 1))
    .map(({ text, count }) => `${count} ${text}`);
  const counts = `: ${parts.join(', ')}`;
  return { machines, counts: machines === 0 ? '' : counts, region: ask.region };
}

export function countRefusals(codes: Iterable<ReasonCode>): Map<ReasonCode, number> {
  const counts = new Map<ReasonCode, number>();
  for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
  return counts;
}

/** What a refusal is where many are counted. */
const phrases: Partial<Record<ReasonCode, string>> = {
  machine_busy: 'busy',
  gpus_busy: 'with busy GPUs',
  reserved_for_head: 'kept free for what waited longer',
  machine_reclaimed: 'taken back by its owner',
  machine_guarded: 'needed by its owner',
  machine_low: 'low on memory or disk',
  machine_draining: 'being drained',
  machine_offline: 'offline',
  machine_starting: 'just starting',
  refused_by_machine: 'refused by its own policy',
  driver_not_ready: 'not ready',
  sandbox_missing: 'without a sandbox',
  cap_missing: 'without a cap on memory',
  isolation_not_allowed: 'with weak isolation only',
  other_region: 'in another region',
  class_not_in_region: 'where the class is not offered',
  machine_not_asked: 'not asked for',
  driver_missing: 'without a driver for it',
  accelerator_missing: 'without the accelerator',
  image_form_missing: 'that cannot run the image',
  cpu_short: 'with too few CPUs',
  memory_short: 'with too little memory',
  disk_short: 'with too little disk',
  gpus_unusable: 'with GPUs that are not well or in use',
  too_few_gpus: 'with too few GPUs',
  gpus_too_small: 'with smaller GPUs',
  gpus_of_other_model: 'with other GPUs',
  gpus_only_together: 'with GPUs given all at once',
};

/** The details of a refusal, for its sentence. */
export function refusalDetails(
  code: ReasonCode,
  ask: Ask,
  tenant_id: string,
  machine: MachineView,
  catalog: Catalog = builtin_catalog,
): Details {
  const name = { machine: machine.name };
  switch (code) {
    case 'driver_missing':
      return { ...name, kind: ask.kind };
    case 'accelerator_missing':
      return { ...name, accelerator: neededAccelerators(ask, catalog) };
    case 'image_form_missing':
      return { ...name, image: imageName(ask), needs: neededForms(ask, catalog) };
    case 'cap_missing': {
      // The driver's own finding begins with what the sentence says already.
      const why = whyNotReady(ask, tenant_id, machine, catalog);
      return { ...name, why: why.replace(/^memory cannot be capped: /, '') };
    }
    case 'sandbox_missing':
    case 'driver_not_ready':
      return { ...name, why: whyNotReady(ask, tenant_id, machine, catalog) };
    case 'isolation_not_allowed':
      return { ...name, drivers: weakDrivers(ask, machine, catalog) };
    case 'machine_not_asked':
      return { ...name, asked: ask.machine?.name ?? '' };
    case 'other_region':
      return { ...name, region: machine.region, asked: ask.region };
    case 'class_not_in_region':
      return { ...name, class: ask.gpu_class, region: ask.region };
    case 'gpus_unusable': {
      // It may name what the owner runs there.
      const is_owner = trustLevel(tenant_id, machine) === 'owner';
      const why = is_owner ? whyNoneUsable(machine.devices ?? []) : null;
      return { ...name, why: (why ?? 'its owner can see why').replace(/\.$/, '') };
    }
    case 'refused_by_machine':
    case 'machine_guarded':
    case 'machine_low':
      return guardDetails(code, ask, tenant_id, trustLevel(tenant_id, machine), machine);
    default:
      return { ...name, ...figures(code, ask, machine) };
  }
}

function figures(code: ReasonCode, ask: Ask, machine: MachineView): Details {
  switch (code) {
    case 'cpu_short':
      return amountDetails(ask, machine, 'cpu_millis');
    case 'memory_short':
      return amountDetails(ask, machine, 'memory_bytes');
    case 'disk_short':
      return amountDetails(ask, machine, 'disk_bytes');
    case 'machine_offline':
    case 'home_offline': {
      const at = machine.last_seen_at;
      return { since: at === null ? 'it was added' : timeOfDay(at) };
    }
    case 'machine_busy':
    case 'home_busy':
      return {
        ...roomDetails(ask, machine),
        holders: machine.holders.slice(0, 3).join(', ') || 'others',
      };
    case 'machine_reclaimed': {
      const { since = 0, until = null } = machine.reclaim ?? {};
      const end = until === null ? '' : `, until ${timeOfDay(until)}`;
      return { since: timeOfDay(since), until: end };
    }
    case 'reserved_for_head': {
      const { reserved_for: head } = machine;
      const waited = head === undefined ? 'long' : formatDuration(head.waited_ms);
      return { ...roomDetails(ask, machine), class: head?.gpu_class ?? 'another class', waited };
    }
    case 'gpus_busy':
    case 'too_few_gpus':
    case 'gpus_too_small':
    case 'gpus_of_other_model':
    case 'gpus_only_together':
      return deviceDetails(ask, null, machine.devices ?? []);
    default:
      return {};
  }
}

/** Of one amount: what was asked, what is free of what the machine offers. */
function amountDetails(ask: Amounts, machine: MachineView, name: keyof Amounts): Details {
  const text = (amount: number) => amountText(name, amount);
  const { offered } = machine;
  const free = freeOf(machine);
  return { asked: text(ask[name]), free: text(free[name]), offered: text(offered[name]) };
}

/** What was asked and what is free, of CPU and memory, and of the disk where that is short. */
function roomDetails(ask: Amounts, machine: MachineView): Details {
  const free = freeOf(machine);
  const with_disk = ask.disk_bytes > free.disk_bytes;
  const text = (amounts: Amounts) => describe(amounts, with_disk);
  return { asked: text(ask), free: text(free), offered: text(machine.offered) };
}

function describe(amounts: Amounts, with_disk: boolean): string {
  const cpu = amountText('cpu_millis', amounts.cpu_millis);
  const memory = formatMemory(amounts.memory_bytes);
  if (!with_disk) return `${cpu} and ${memory}`;
  return `${cpu}, ${memory} and ${amountText('disk_bytes', amounts.disk_bytes)}`;
}

function amountText(name: keyof Amounts, amount: number): string {
  if (name === 'cpu_millis') return `${amount / 1000} CPU`;
  return name === 'memory_bytes' ? `${formatMemory(amount)}` : `${formatBytes(amount)} of disk`;
}

function whyNotReady(ask: Ask, tenant_id: string, machine: MachineView, catalog: Catalog): string {
  const trust = trustLevel(tenant_id, machine);
  const runtimes = runtimesOf(ask.kind, ask.image_id, catalog.images);
  const told = machine.drivers.find(
    (entry) =>
      entry.why !== null &&
      entry.kinds.includes(ask.kind) &&
      rankOf(runtimes, ask, entry.driver, machine.accelerators) !== null &&
      mayRun(trust, entry.driver, machine.sharing, entry.as),
  );
  return told?.why ?? 'its driver is not ready';
}

/** The drivers there that could run it and may not. */
function weakDrivers(ask: Ask, machine: MachineView, catalog: Catalog): string {
  const runtimes = runtimesOf(ask.kind, ask.image_id, catalog.images);
  const able = machine.drivers.filter(
    ({ driver, kinds }) =>
      kinds.includes(ask.kind) && rankOf(runtimes, ask, driver, machine.accelerators) !== null,
  );
  return able.map(({ driver, as }) => as ?? driver).join(' or ') || 'its drivers';
}

function neededAccelerators(ask: Ask, catalog: Catalog): string {
  const runtimes = runtimesOf(ask.kind, ask.image_id, catalog.images);
  return acceleratorsOf(runtimes, ask).join(' or ');
}

function imageName({ kind, image_id }: Ask): string {
  return image_id ?? defaultImage(kind) ?? `of a ${kind}`;
}

function neededForms(ask: Ask, catalog: Catalog): string {
  const runtimes = runtimesOf(ask.kind, ask.image_id, catalog.images).filter(
    ({ accelerator }) => ask.accelerator === null || accelerator === ask.accelerator,
  );
  return [...new Set(runtimes.map(({ form }) => form_words[form]))].join(' or ') || 'another one';
}

const form_words: Readonly<Record<RunForm, string>> = {
  native: "a driver for the machine's own programs",
  container: 'a container engine such as Docker',
  machine: 'a driver for virtual machines',
};

function timeOfDay(at: number): string {
  return new Date(at).toISOString().slice(11, 16);
}
