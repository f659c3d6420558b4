/**
 * Machines as placement and the API see them: rows, holds, and what was last heard.
 */
import type { Presence } from '../backends/agent/presence.ts';
import { type Inventory, inventorySchema, type Machine } from '../contract/machines.ts';
import { type DriverName, driverIsolation } from '../core/trust.ts';
import type { MachineView } from '../core/workload.ts';
import { listHolders, listMachines, type MachineWithHolds } from '../store/machines.ts';
import type { EinsoraStore } from '../store/transactions.ts';

/** Every machine of a region (null: of all regions), ready for placement. */
export async function machineViews(
  store: EinsoraStore,
  presence: Presence,
  region: string | null,
): Promise<MachineView[]> {
  const rows = await store.read(listMachines, { region });
  const holders = await store.read(listHolders, {});
  return rows.map((row) => {
    const inventory = inventoryOf(row);
    return {
      id: row.id,
      name: row.name,
      region: row.region,
      owner_tenant_id: row.tenant_id,
      invited_tenant_ids: [],
      sharing: row.sharing,
      online: presence.isOnline(row.id),
      last_seen_at: presence.lastHeardAt(row.id) ?? row.hello_at,
      accelerators: inventory?.accelerators ?? [],
      drivers: (inventory?.drivers ?? []).filter(isKnownDriver).map((entry) => ({
        driver: entry.driver as DriverName,
        ready: entry.ready,
        why: entry.why,
        why_code: entry.why_code,
        kinds: entry.kinds,
      })),
      ...amountsOf(row),
      holders: holders.filter((held) => held.machine_id === row.id).map((held) => held.name),
    };
  });
}

/** The machines that a tenant may see, with what is held by whom among its own workloads. */
export async function machineList(
  store: EinsoraStore,
  presence: Presence,
  tenant_id: string,
): Promise<Machine[]> {
  const rows = await store.read(listMachines, { region: null });
  const holders = await store.read(listHolders, {});
  const mine = rows.filter((row) => row.tenant_id === tenant_id || row.sharing === 'community');
  return mine.map((row) => ({
    id: row.id,
    name: row.name,
    region: row.region,
    owner: row.owner,
    sharing: row.sharing,
    online: presence.isOnline(row.id),
    last_seen_at: presence.lastHeardAt(row.id) ?? row.hello_at,
    ...amountsOf(row),
    workloads: holders
      .filter((held) => held.machine_id === row.id && held.tenant_id === tenant_id)
      .map((held) => held.name),
    inventory: row.tenant_id === tenant_id ? inventoryOf(row) : null,
  }));
}

function inventoryOf(row: MachineWithHolds): Inventory | null {
  if (row.inventory === null) return null;
  const parsed = inventorySchema.safeParse(JSON.parse(row.inventory));
  return parsed.success ? parsed.data : null;
}

function isKnownDriver(entry: { driver: string }): boolean {
  return Object.hasOwn(driverIsolation, entry.driver);
}

function amountsOf(row: MachineWithHolds) {
  return {
    offered: {
      cpu_millis: row.cpu_millis,
      memory_bytes: row.memory_bytes,
      disk_bytes: row.disk_bytes,
    },
    held: {
      cpu_millis: row.held_cpu_millis,
      memory_bytes: row.held_memory_bytes,
      disk_bytes: row.held_disk_bytes,
    },
  };
}
