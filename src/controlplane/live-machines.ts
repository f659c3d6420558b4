/**
 * Which machines of which tenants are heard of: looked at each second while somebody listens, for
 * that a machine falls silent is nothing that anybody says.
 *
 * Invariants: a tenant hears of the machines that it may know of, and of no other; the first look
 * for a tenant tells all of them.
 */
import type { Presence } from '../backends/agent/presence.ts';
import type { LiveMachine } from '../contract/events.ts';
import type { Clock } from '../lib/clock.ts';
import { listMachines } from '../store/machines.ts';
import type { EinsoraStore } from '../store/transactions.ts';

export type MachineWatch = {
  /** What changed since the last look. Looks at most once a second. */
  look(tenants: ReadonlySet<string>): Promise<{ tenant_id: string; data: LiveMachine }[]>;
  /** As of the last look. */
  known(tenant_id: string): LiveMachine[];
};

type Deps = { store: EinsoraStore; presence: Presence; clock: Clock };
type Known = Pick<LiveMachine, 'machine_id' | 'name' | 'revision'> & { hello_at: number | null };

const look_ms = 1000;
/** Machines are added seldom; who is heard of is known without the store. */
const list_ms = 5000;
const page_rows = 200;

export function createMachineWatch({ store, presence, clock }: Deps): MachineWatch {
  let looked_at = Number.NEGATIVE_INFINITY;
  const lists = new Map<string, { at: number; machines: Known[] }>();
  const told = new Map<string, Map<string, LiveMachine>>();

  async function list(tenant_id: string): Promise<Known[]> {
    const before = lists.get(tenant_id);
    if (before !== undefined && clock.monotonic() - before.at < list_ms) return before.machines;
    const machines: Known[] = [];
    for (let after = ''; ; after = machines.at(-1)?.machine_id ?? '') {
      const rows = await store.read(listMachines, { after, limit: page_rows, tenant_id });
      for (const { id, name, hello_at, inventory_revision: revision } of rows) {
        machines.push({ machine_id: id, name, hello_at, revision });
      }
      if (rows.length < page_rows) break;
    }
    lists.set(tenant_id, { at: clock.monotonic(), machines });
    return machines;
  }

  return {
    async look(tenants) {
      if (clock.monotonic() - looked_at < look_ms) return [];
      looked_at = clock.monotonic();
      for (const tenant_id of [...told.keys()]) {
        if (tenants.has(tenant_id)) continue;
        told.delete(tenant_id);
        lists.delete(tenant_id);
      }
      const news: { tenant_id: string; data: LiveMachine }[] = [];
      for (const tenant_id of tenants) {
        const before = told.get(tenant_id);
        const latest = new Map<string, LiveMachine>();
        for (const { machine_id, name, hello_at, revision } of await list(tenant_id)) {
          const last_seen_at = presence.lastHeardAt(machine_id) ?? hello_at;
          const online = presence.isOnline(machine_id);
          const data = { machine_id, name, online, last_seen_at, revision };
          latest.set(machine_id, data);
          const earlier = before?.get(machine_id);
          const is_news =
            earlier?.online !== online || earlier.name !== name || earlier.revision !== revision;
          if (is_news) news.push({ tenant_id, data });
        }
        told.set(tenant_id, latest);
      }
      return news;
    },
    known: (tenant_id) => [...(told.get(tenant_id)?.values() ?? [])],
  };
}
