/**
 * Machines as placement and the API see them: rows, holds, and what was last heard.
 *
 * Invariants: a tenant sees its own machines and those that are shared with it, and of what holds
 * them only its own workloads' names; an inventory is parsed once for each time it was written.
 */
import type { Presence } from '../backends/agent/presence.ts';
import { type Inventory, inventorySchema, type Machine } from '../contract/machines.ts';
import type { DeviceView } from '../core/devices.ts';
import { healthyAccelerators } from '../core/gpus.ts';
import { viewOf as reclaimViewOf } from '../core/reclaim.ts';
import { type DriverName, driverIsolation } from '../core/trust.ts';
import type { MachineDriver, MachineView } from '../core/workload.ts';
import type { Slices } from '../lib/slices.ts';
import {
  capsOf,
  listHolders,
  listMachines,
  type MachineWithHolds,
  readInventories,
} from '../store/machines.ts';
import { parseReclaim } from '../store/preempt.ts';
import { slugsNamed } from '../store/tenant-slugs.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import {
  type DeviceFacts,
  deviceFacts,
  deviceViews,
  heldDevicesOf,
  readHeld,
} from './device-views.ts';
import { machineReclaim } from './reclaim-view.ts';

export type MachineViews = {
  /** Every machine, for the controller; nobody's workloads are named. */
  all(slices: Slices): Promise<MachineView[]>;
  /** Those that a tenant may know of, for its plan, with its own workloads that hold them. */
  forPlan(tenant_id: string): Promise<MachineView[]>;
  list(tenant_id: string): Promise<Machine[]>;
  /** Names of a tenant's workloads that hold something of a machine. */
  holders(tenant_id: string, machine_id: string, of_gpus?: boolean): Promise<string[]>;
};

/** Few enough that reading a page, inventories and all, is one short slice. */
const page_rows = 50;

type Known = {
  revision: number;
  inventory: Inventory | null;
  drivers: MachineDriver[];
  devices: DeviceFacts[];
};
type Deps = {
  store: EinsoraStore;
  presence: Presence;
  /** Made-up machines may take another driver's row of the trust matrix (ADR-0057). */
  dev?: boolean;
};
type Found = {
  row: MachineWithHolds;
  known: Known;
  devices: DeviceView[];
  /** Of tenants that its own policy names. */
  slugs?: ReadonlyMap<string, string>;
};

export function createMachineViews({ store, presence, dev = false }: Deps): MachineViews {
  const known = new Map<string, Known>();

  async function found(tenant_id: string | null, slices: Slices | null): Promise<Found[]> {
    const all: Found[] = [];
    for (let after = ''; ; ) {
      const rows = await store.read(listMachines, { after, tenant_id, limit: page_rows });
      await learn(rows);
      const with_devices = rows.filter((row) => (known.get(row.id)?.devices.length ?? 0) > 0);
      const held = await readHeld(
        store,
        with_devices.map((row) => row.id),
      );
      for (const row of rows) {
        const own = known.get(row.id) ?? nothingKnown;
        const devices = deviceViews(own.devices, held.get(row.id) ?? [], tenant_id);
        all.push({ row, known: own, devices });
      }
      if (slices?.isOver()) await slices.rest();
      const last = rows.at(-1);
      if (rows.length < page_rows || last === undefined) return withSlugs(store, all);
      after = last.id;
    }
  }

  async function learn(rows: MachineWithHolds[]): Promise<void> {
    const news = rows.filter((row) => known.get(row.id)?.revision !== row.inventory_revision);
    if (news.length === 0) return;
    const read = await store.read(readInventories, { ids: news.map((row) => row.id) });
    const texts = new Map(read.map((row) => [row.id, row.inventory]));
    for (const row of news) {
      const inventory = parseInventory(texts.get(row.id) ?? null);
      const drivers = driversOf(inventory, dev);
      const devices = deviceFacts(inventory?.gpus ?? []);
      known.set(row.id, { revision: row.inventory_revision, inventory, drivers, devices });
    }
  }

  return {
    all: async (slices) => viewsOf(await found(null, slices), presence, slices),
    async forPlan(tenant_id) {
      const holders = await holdersBy(store, tenant_id);
      const all = await found(tenant_id, null);
      return all.map((one) => viewOf(one, presence, holders.get(one.row.id) ?? []));
    },
    async list(tenant_id) {
      const holders = await holdersBy(store, tenant_id);
      const all = await found(tenant_id, null);
      return all.map(({ row, known: { inventory }, devices }) => ({
        id: row.id,
        name: row.name,
        region: row.region,
        owner: row.owner,
        ...standingOf(row, tenant_id),
        online: presence.isOnline(row.id),
        last_seen_at: presence.lastHeardAt(row.id) ?? row.hello_at,
        ...amountsOf(row),
        workloads: holders.get(row.id) ?? [],
        ...guardShown(presence, row.id),
        reclaim: machineReclaim(row.reclaim, row.tenant_id === tenant_id),
        ...(row.tenant_id === tenant_id ? { held_gpus: heldDevicesOf(devices) } : {}),
        inventory: row.tenant_id === tenant_id ? inventory : null,
      }));
    },
    holders: async (tenant_id, machine_id, of_gpus) =>
      (await holdersBy(store, tenant_id, of_gpus)).get(machine_id) ?? [],
  };
}

/** Rules of machines name tenants by slugs, placement knows them by ids. */
async function withSlugs(store: EinsoraStore, all: Found[]): Promise<Found[]> {
  const named = (one: Found) => one.known.inventory?.refuses?.tenants ?? [];
  const slugs = all.flatMap(named);
  if (slugs.length === 0) return all;
  const byId = await store.read(slugsNamed, { slugs });
  return all.map((one) => (named(one).length === 0 ? one : { ...one, slugs: byId }));
}

async function holdersBy(
  store: EinsoraStore,
  tenant_id: string,
  of_gpus = false,
): Promise<Map<string, string[]>> {
  const byMachine = new Map<string, string[]>();
  for (const { machine_id, name } of await store.read(listHolders, { tenant_id, of_gpus })) {
    const names = byMachine.get(machine_id);
    if (names === undefined) byMachine.set(machine_id, [name]);
    else names.push(name);
  }
  return byMachine;
}

/** With whom it is shared, and what its owner said of it: the owner's people alone see all of that. */
function standingOf(row: MachineWithHolds, tenant_id: string) {
  const { sharing, drained_at, guests } = row;
  const is_yours = row.tenant_id === tenant_id;
  const invited = is_yours ? guests.map(({ slug }) => slug) : null;
  return { sharing, drained_at, is_yours, invited, caps: is_yours ? capsOf(row) : null };
}

const nothingKnown: Known = { revision: 0, inventory: null, drivers: [], devices: [] };

async function viewsOf(all: Found[], presence: Presence, slices: Slices): Promise<MachineView[]> {
  const views: MachineView[] = [];
  for (const one of all) {
    views.push(viewOf(one, presence, []));
    if (slices.tick()) await slices.rest();
  }
  return views;
}

function viewOf(
  { row, known: { inventory, drivers }, devices, slugs }: Found,
  presence: Presence,
  holders: string[],
): MachineView {
  return {
    id: row.id,
    name: row.name,
    region: row.region,
    owner_tenant_id: row.tenant_id,
    invited_tenant_ids: row.guests.map((guest) => guest.tenant_id),
    sharing: row.sharing,
    online: presence.isOnline(row.id),
    last_seen_at: presence.lastHeardAt(row.id) ?? row.hello_at,
    drained: row.drained_at !== null,
    accelerators: inventory === null ? [] : healthyAccelerators(inventory),
    devices,
    drivers,
    refuses: inventory?.refuses ?? null,
    ...(slugs === undefined ? {} : { slugs }),
    guard: presence.guard(row.id),
    reclaim: reclaimViewOf(parseReclaim(row.reclaim)),
    ...amountsOf(row),
    reserved: { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0 },
    holders,
  };
}

function guardShown(presence: Presence, machine_id: string): Pick<Machine, 'guard'> {
  const said = presence.guard(machine_id);
  if (said === null) return {};
  const { level, why, own_why } = said;
  return { guard: { level, why, own_why } };
}

function parseInventory(text: string | null): Inventory | null {
  if (text === null) return null;
  const parsed = inventorySchema.safeParse(JSON.parse(text));
  return parsed.success ? parsed.data : null;
}

function driversOf(inventory: Inventory | null, dev: boolean): MachineDriver[] {
  return (inventory?.drivers ?? [])
    .filter((entry) => Object.hasOwn(driverIsolation, entry.driver))
    .map((entry) => ({
      driver: entry.driver as DriverName,
      ready: entry.ready,
      why: entry.why,
      why_code: entry.why_code,
      kinds: entry.kinds,
      as: dev ? asOf(entry.driver, entry.as) : null,
    }));
}

/** Only sim may be as another; what is no driver's name is none. */
function asOf(driver: string, as: string | undefined): DriverName | null {
  if (driver !== 'sim' || as === undefined) return null;
  return Object.hasOwn(driverIsolation, as) ? (as as DriverName) : null;
}

function amountsOf(row: MachineWithHolds) {
  return {
    offered: {
      cpu_millis: row.cpu_millis,
      memory_bytes: row.memory_bytes,
      disk_bytes: row.disk_bytes,
    },
    held: row.held,
  };
}
