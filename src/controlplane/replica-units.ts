/**
 * Replicas that admission decides on by themselves: those that wait beside others, and those whose
 * machine is silent for longer than patience lasts (ADR-0062, ADR-0063).
 *
 * Invariants: where more than half of the machines are silent at once the fault is taken to be
 * ours, and nothing is replaced; what is silent is told by what was received, on the monotonic
 * clock, and a control plane that has just begun gives each machine its patience anew.
 */
import type { Presence } from '../backends/agent/presence.ts';
import { limits } from '../contract/limits.ts';
import { askText } from '../core/ask.ts';
import { stepSpec } from '../core/fallback.ts';
import { readSpec } from '../core/workload.ts';
import type { ReplicaUnit } from '../store/place-replica.ts';
import type { WaitingFields } from '../store/queue.ts';
import {
  listMachineIds,
  listSilentReplicas,
  listWaitingReplicas,
  machinesOfReplicas,
  type Whose,
} from '../store/replica-queue.ts';
import type { EinsoraStore } from '../store/transactions.ts';

/** What of a waiting row is of one replica alone. */
export type OneReplica = {
  replica: number;
  unit: ReplicaUnit;
  /** Machines where others of it are: one of the rest is better. */
  apart: Set<string>;
};
export type UnitRow = WaitingFields & { one: OneReplica };

export type ReplicaUnits = {
  read(now: number): Promise<UnitRow[]>;
  /** Another text whenever another machine is silent, of those known at the last reading. */
  silence(): string;
};

/** At one pass; the next goes on with the rest. */
const units_limit = 1000;
/** How long it is taken for known which machines there are: none is silent sooner. */
const known_ms = 30_000;

type Deps = { store: EinsoraStore; presence: Pick<Presence, 'silenceMs' | 'lastHeardAt'> };

export function createReplicaUnits({ store, presence }: Deps): ReplicaUnits {
  let machine_ids: string[] = [];
  let known_at = Number.NEGATIVE_INFINITY;
  const silent = () => {
    const ids = machine_ids.filter((id) => presence.silenceMs(id) >= limits.machine_silent_ms);
    return ids.length * 2 > machine_ids.length ? [] : ids;
  };
  return {
    async read(now) {
      if (Math.abs(now - known_at) >= known_ms) {
        machine_ids = await store.read(listMachineIds, {});
        known_at = now;
      }
      const waiting = await store.read(listWaitingReplicas, { now, limit: units_limit });
      const quiet = silent().slice(0, limits.silent_machines_at_once);
      const unheard = await store.read(listSilentReplicas, {
        machine_ids: quiet,
        limit: units_limit,
      });
      if (waiting.length + unheard.length === 0) return [];
      const apart = await placesOf(store, [...waiting, ...unheard]);
      const beside = (id: string) => apart.get(id) ?? new Set<string>();
      return [
        ...waiting.map((row) => ({
          ...rowOf(row, { code: row.code, revision: row.revision, since: row.since }),
          one: {
            replica: row.replica,
            unit: { why: 'waiting' as const, revision: row.revision },
            apart: beside(row.workload_id),
          },
        })),
        ...unheard.map((row) => ({
          ...rowOf(row, { code: null, revision: 0, since: now }),
          one: {
            replica: row.replica,
            unit: {
              ...{ why: 'silent' as const, run_epoch: row.run_epoch, machine: row.machine_name },
              since: sinceOf(presence.lastHeardAt(row.machine_id)),
            },
            apart: beside(row.workload_id),
          },
        })),
      ];
    },
    silence: () => silent().join(' '),
  };
}

/** As what waits for its first run stands in the queue. */
function rowOf(
  row: Whose,
  own: { code: string | null; revision: number; since: number },
): WaitingFields {
  const { workload_id: id, tenant_id, creator_id, created_at } = row;
  const asked = readSpec(row.spec);
  // As the others of it: what was asked, or what stands in for that.
  const spec = row.fallback_step === 0 ? asked : (stepSpec(asked, row.fallback_step) ?? asked);
  return {
    ...{ id, tenant_id, creator_id, created_at, state: 'queued', ask: askText(spec) },
    ...{ code: own.code, revision: own.revision, state_since: own.since },
    ...{ fallback: '', fallback_due: 0 },
  };
}

async function placesOf(
  store: EinsoraStore,
  rows: readonly { workload_id: string }[],
): Promise<Map<string, Set<string>>> {
  const places = new Map<string, Set<string>>();
  const ids = [...new Set(rows.map((row) => row.workload_id))];
  for (let from = 0; from < ids.length; from += limits.page_rows) {
    const workload_ids = ids.slice(from, from + limits.page_rows);
    for (const one of await store.read(machinesOfReplicas, { workload_ids })) {
      const known = places.get(one.workload_id) ?? new Set();
      places.set(one.workload_id, known.add(one.machine_id));
    }
  }
  return places;
}

function sinceOf(at: number | null): string {
  return at === null ? 'before this control plane began' : new Date(at).toISOString().slice(11, 16);
}
