/**
 * Where a gateway request leads: keys and endpoints, read from the store for the gateway.
 *
 * Invariants: both are remembered only until something is written that may concern them (ADR-0068);
 * what a machine was last heard of is asked at each request.
 */
import type { Presence } from '../backends/agent/presence.ts';
import { limits } from '../contract/limits.ts';
import { sentenceOf } from '../core/reasons.ts';
import type { Endpoint, FoundEndpoint, Soon } from '../gateway/endpoint.ts';
import type { GatewayKey } from '../gateway/key.ts';
import type { Waiting } from '../gateway/stop.ts';
import type { Clock } from '../lib/clock.ts';
import { listAliases } from '../store/aliases.ts';
import { findOpenEndpoint } from '../store/endpoint-guests.ts';
import { findAlias } from '../store/endpoint-names.ts';
import {
  findTarget,
  findTargets,
  findTargetsNamed,
  listAnswering,
  type TargetRow,
} from '../store/keys.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { endpointOf, isIdle } from './endpoints.ts';
import { readGatewayKey } from './gateway-keys.ts';
import { createWakeLimit } from './wake-limit.ts';
import type { Waker } from './waker.ts';
import { createMemory, type WriteWatch } from './write-watch.ts';

const listed_models = 500;

export type TargetDeps = {
  store: EinsoraStore;
  /** Of what is read here; null always: nothing is remembered. */
  asOf: WriteWatch['asOf'];
  /** Null: what is idle stays so. */
  waker: Waker | null;
  /** A machine that is not heard of is passed over where another one is. */
  presence: Pick<Presence, 'isOnline'>;
  clock: Pick<Clock, 'monotonic'>;
};

export type Targets = {
  /** The stored key of a digest, usable or not. */
  findKey(hash: string): Soon<GatewayKey | null>;
  /**
   * Where a model's name leads for this key; one that is being woken is waited for, at the latest
   * until it is stopped.
   */
  findEndpoint(key: GatewayKey, model: string, stop: Waiting): Promise<FoundEndpoint>;
  /** The endpoints this key may use; `created_at` in milliseconds since 1970. */
  listModels(key: GatewayKey): Promise<{ id: string; created_at: number }[]>;
};

/** What a name led to, and the row that says why where it leads to no replica. */
type Looked = { row: TargetRow; found: FoundEndpoint } | null;

export function createTargets(deps: TargetDeps): Targets {
  const { store, asOf, waker, presence } = deps;
  const wakes = createWakeLimit(deps.clock);
  const keys = createMemory<GatewayKey | null>(asOf, limits.keys_remembered);
  const names = createMemory<Looked>(asOf, limits.routes_remembered);

  const look = (key: GatewayKey, model: string): Soon<Looked> =>
    names.get(
      `${key.tenant_id} ${key.workload_ids?.join() ?? ''} ${model}`,
      async () => {
        const [first, ...rest] = await rowsFor(store, key, model);
        if (first === undefined) return null;
        return { row: first, found: endpointOf([first, ...rest], key.tenant_id) };
      },
      () => true,
    );
  /** Of several machines those that are heard of; where none is, all may be. */
  const heard = (endpoint: Endpoint): Endpoint => {
    const replicas = endpoint.replicas.filter(({ machine_id }) => presence.isOnline(machine_id));
    const is_all = replicas.length === 0 || replicas.length === endpoint.replicas.length;
    return is_all ? endpoint : { ...endpoint, replicas };
  };

  return {
    findKey: (hash) =>
      keys.get(
        hash,
        () => readGatewayKey(store, hash),
        (key) => key !== null,
      ),

    async findEndpoint(key, model, stop) {
      const looked = await look(key, model);
      if (looked === null) return { ok: false, code: 'not_found', details: { name: model } };
      const { row, found } = looked;
      if (found.ok) return { ok: true, endpoint: heard(found.endpoint) };
      // A guest is told that it does not answer, and never wakes or moves anything (ADR-0058).
      const is_guest = row.owner_tenant_id !== key.tenant_id;
      if (is_guest) return notReady(model, row.state);
      // Who is gone already, or only looks, wakes nothing.
      if (waker === null || stop.reason() !== null) return found;
      if (!waker.isWaking(row.workload_id) && isIdle(row)) {
        const refused = await wake(waker, row, wakes.take(key.id));
        if (refused !== null) return refused;
      }
      if (!waker.isWaking(row.workload_id)) return found;
      await waker.settled(row.workload_id, stop);
      const after = await look(key, model);
      const woken = after === null ? found : after.found;
      if (woken.ok || woken.code !== 'not_ready') return woken;
      return { ...woken, code: 'endpoint_waking' };
    },

    async listModels({ tenant_id, workload_ids }) {
      if (workload_ids === null) {
        const rows = await store.read(listAnswering, { tenant_id, limit: listed_models });
        return withAliases(store, rows);
      }
      const lists = await Promise.all(workload_ids.map((id) => modelOf(store, tenant_id, id)));
      return lists.flat();
    },
  };
}

/** How a key of the tenant calls an endpoint; nothing where it may not use it now. */
async function modelOf(
  store: EinsoraStore,
  tenant_id: string,
  workload_id: string,
): Promise<{ id: string; created_at: number }[]> {
  const row = await store.read(findTarget, { workload_id });
  if (row === undefined) return [];
  const { owner_tenant_id } = row;
  if (owner_tenant_id === tenant_id) return withAliases(store, [row]);
  const open = await store.read(findOpenEndpoint, { tenant_id, workload_id });
  if (open === undefined) return [];
  const rows = await openRows(store, tenant_id, workload_id, open.model);
  return rows.length === 0 ? [] : [{ id: open.model, created_at: open.created_at }];
}

/** By each of their names. */
async function withAliases(
  store: EinsoraStore,
  rows: readonly TargetRow[],
): Promise<{ id: string; created_at: number }[]> {
  const workload_ids = rows.map(({ workload_id }) => workload_id);
  const aliases = await store.read(listAliases, { workload_ids });
  return rows.flatMap(({ workload_id, name, created_at }) => {
    const own = aliases.filter((one) => one.workload_id === workload_id);
    return [name, ...own.map((one) => one.name)].map((id) => ({ id, created_at }));
  });
}

/**
 * Where a key leads under that name, or that alias. To an endpoint of another tenant only as long
 * as it is open to the key's, and only on machines that are shared with it.
 */
async function rowsFor(store: EinsoraStore, key: GatewayKey, model: string): Promise<TargetRow[]> {
  const { tenant_id, workload_ids } = key;
  if (workload_ids === null) {
    const rows = await store.read(findTargetsNamed, { tenant_id, name: model });
    if (rows.length > 0) return rows;
  }
  for (const workload_id of workload_ids ?? []) {
    const rows = await openRows(store, tenant_id, workload_id, model);
    if (rows.length > 0) return rows;
  }
  const alias = await store.read(findAlias, { tenant_id, name: model });
  if (alias === undefined) return [];
  const { workload_id } = alias;
  const may = workload_ids === null || workload_ids.includes(workload_id);
  return may ? store.read(findTargets, { workload_id }) : [];
}

/** One for each replica that answers, one without a run where none does; none: another's. */
async function openRows(
  store: EinsoraStore,
  tenant_id: string,
  workload_id: string,
  model: string,
): Promise<TargetRow[]> {
  const rows = await store.read(findTargets, { workload_id });
  const [first] = rows;
  if (first === undefined) return [];
  if (first.owner_tenant_id === tenant_id) return first.name === model ? rows : [];
  const open = await store.read(findOpenEndpoint, { tenant_id, workload_id });
  if (open?.model !== model) return [];
  const { machine_ids } = open;
  return rows.filter((row) => row.machine_id === null || machine_ids.includes(row.machine_id));
}

function notReady(name: string, state: string): FoundEndpoint {
  return { ok: false, code: 'not_ready', details: { name, state } };
}

/** Why it cannot be woken; null where it is on its way. */
async function wake(
  waker: Waker,
  row: TargetRow,
  retry_after_ms: number | null,
): Promise<FoundEndpoint | null> {
  if (retry_after_ms !== null) {
    return { ok: false, code: 'wakes_limited', details: { name: row.name, retry_after_ms } };
  }
  const woken = await waker.wake(row.workload_id, 'a request came');
  if (woken.outcome !== 'quota_exceeded') return null;
  const why = sentenceOf('quota_exceeded', woken.details);
  const details = { name: row.name, state: row.state, why };
  return { ok: false, code: 'endpoint_waking', details };
}
