/**
 * Where a gateway request leads: keys and endpoints, read from the store for the gateway. A key of
 * endpoints opens those; a key of a run all of its tenant (ADR-0051).
 */

import type { Presence } from '../backends/agent/presence.ts';
import { fallbackHeader, readTaken } from '../core/fallback.ts';
import { sentenceOf } from '../core/reasons.ts';
import { no_request_limits, requestLimitsOf } from '../core/request-limits.ts';
import type { GatewayKey } from '../gateway/key.ts';
import { createLeastBusy } from '../gateway/least-busy.ts';
import type { GatewayTarget } from '../gateway/target.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { type Random, systemRandom } from '../lib/random.ts';
import { findOpenEndpoint } from '../store/endpoint-guests.ts';
import {
  findKey,
  findTarget,
  findTargets,
  findTargetsNamed,
  listAnswering,
  type TargetRow,
} from '../store/keys.ts';
import { findRunKey } from '../store/run-keys.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { Waker } from './waker.ts';

const listed_models = 500;

export type TargetDeps = {
  /** A machine that is not heard of is passed over where another one is. */
  presence: Pick<Presence, 'isOnline'>;
  random: Random;
  clock: Pick<Clock, 'monotonic'>;
};

const alone: TargetDeps = {
  ...{ presence: { isOnline: () => true }, random: systemRandom, clock: systemClock },
};

/** Without a waker what is idle stays so. */
export function createTargets(
  store: EinsoraStore,
  waker: Waker | null = null,
  { presence, random, clock }: TargetDeps = alone,
) {
  const load = createLeastBusy(random, clock);
  const choose = (rows: readonly TargetRow[]): TargetRow | undefined => {
    const ready = rows.flatMap((row) => {
      const { replica, run_epoch, machine_id } = row;
      if (replica === null || run_epoch === null || machine_id === null) return [];
      return [{ row, machine_id, workload_id: row.workload_id, replica, run_epoch }];
    });
    const heard = ready.filter(({ machine_id }) => presence.isOnline(machine_id));
    return load.choose(heard.length > 0 ? heard : ready)?.row ?? rows[0];
  };
  const rowOf = async (key: GatewayKey, name: string) => choose(await rowsFor(store, key, name));
  return {
    busy: load.begin,
    unreachable: load.unreachable,

    async findKey(hash: string): Promise<GatewayKey | null> {
      const key = await store.read(findKey, { hash });
      if (key !== undefined) {
        const { id, tenant_id, user_id, workload_id, more, expires_at, revoked_at } = key;
        return {
          ...{ id, tenant_id, user_id, expires_at, revoked_at },
          workload_ids: [workload_id, ...(more?.split(' ') ?? [])],
          ...{ limits: requestLimitsOf(key), user_limits: userLimitsOf(key) },
        };
      }
      const of_run = await store.read(findRunKey, { hash });
      if (of_run === undefined) return null;
      const { tenant_id, user_id, workload_id } = of_run;
      // Both moments are of the run: a row that is found works.
      return {
        ...{ id: workload_id, tenant_id, user_id, workload_ids: null },
        ...{ expires_at: null, revoked_at: null },
        ...{ limits: no_request_limits, user_limits: userLimitsOf(of_run) },
      };
    },

    async findTarget(key: GatewayKey, model: string, signal: AbortSignal): Promise<GatewayTarget> {
      const row = await rowOf(key, model);
      if (row === undefined) return { ok: false, code: 'not_found', details: { name: model } };
      if (row.owner_tenant_id !== key.tenant_id) return guestTarget(row, key, model);
      const found = targetOf(row, key);
      if (found.ok || waker === null) return found;
      const refused = isIdle(row) ? await wake(waker, row) : null;
      if (refused !== null) return refused;
      if (!waker.isWaking(row.workload_id)) return found;
      await waker.settled(row.workload_id, signal);
      const after = await rowOf(key, model);
      const woken = after === undefined ? found : targetOf(after, key);
      const is_waiting = !woken.ok && woken.code === 'not_ready';
      return is_waiting ? { ...woken, code: 'endpoint_waking' } : woken;
    },

    async listModels(key: GatewayKey): Promise<{ id: string; created_at: number }[]> {
      const { tenant_id, workload_ids } = key;
      if (workload_ids === null) {
        const rows = await store.read(listAnswering, { tenant_id, limit: listed_models });
        return rows.map(({ name, created_at }) => ({ id: name, created_at }));
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
  const { name, created_at, owner_tenant_id } = row;
  if (owner_tenant_id === tenant_id) return [{ id: name, created_at }];
  const open = await store.read(findOpenEndpoint, { tenant_id, workload_id });
  if (open === undefined) return [];
  const rows = await openRows(store, tenant_id, workload_id, open.model);
  return rows.length === 0 ? [] : [{ id: open.model, created_at: open.created_at }];
}

function userLimitsOf(row: {
  user_rpm: number | null;
  user_tpm: number | null;
  user_concurrency: number | null;
}) {
  return { rpm: row.user_rpm, tpm: row.user_tpm, concurrency: row.user_concurrency };
}

/** A guest is told that it does not answer, and never wakes or moves anything (ADR-0058). */
function guestTarget(row: TargetRow, key: GatewayKey, model: string): GatewayTarget {
  const found = targetOf(row, key);
  if (found.ok) return found;
  return { ok: false, code: 'not_ready', details: { name: model, state: row.state } };
}

/**
 * Where a key leads under that name. To an endpoint of another tenant only as long as it is open to
 * the key's, and only on machines that are shared with it: looked up at each request.
 */
async function rowsFor(store: EinsoraStore, key: GatewayKey, model: string): Promise<TargetRow[]> {
  const { tenant_id, workload_ids } = key;
  if (workload_ids === null) return store.read(findTargetsNamed, { tenant_id, name: model });
  for (const workload_id of workload_ids) {
    const rows = await openRows(store, tenant_id, workload_id, model);
    if (rows.length > 0) return rows;
  }
  return [];
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

/** Stopped for being idle, and for nothing else. */
function isIdle({ state, intent, park_cause }: TargetRow): boolean {
  const is_down = state === 'stopped' || state === 'stopping';
  return is_down && intent === 'running' && park_cause === 'idle';
}

/** Why it cannot be woken; null where it is on its way. */
async function wake(waker: Waker, row: TargetRow): Promise<GatewayTarget | null> {
  const woken = await waker.wake(row.workload_id, 'a request came');
  if (woken.outcome !== 'quota_exceeded') return null;
  const why = sentenceOf('quota_exceeded', woken.details);
  const details = { name: row.name, state: row.state, why };
  return { ok: false, code: 'endpoint_waking', details };
}

function targetOf(row: TargetRow, key: GatewayKey): GatewayTarget {
  const details = { name: row.name, state: row.state };
  const starts_again = row.state === 'stopping' && row.intent === 'running';
  if ((row.state === 'stopped' || row.state === 'stopping') && !starts_again) {
    return { ok: false, code: 'endpoint_stopped', details };
  }
  if (row.state === 'failed') return { ok: false, code: 'endpoint_failed', details };
  const { replica, run_epoch, machine_id } = row;
  if (row.state !== 'running' || replica === null || run_epoch === null || machine_id === null) {
    return { ok: false, code: 'not_ready', details };
  }
  return {
    ok: true,
    run: { workload_id: row.workload_id, replica, run_epoch },
    machine_id,
    // Of another tenant's machine a key is told the class, not the name.
    machine_name: row.machine_tenant_id === key.tenant_id ? row.machine_name : null,
    placed_class: row.placed_class ?? '',
    is_apart: row.is_apart === 1,
    fallback: fallbackHeader(
      readTaken(row.fallback ?? ''),
      row.machine_tenant_id === key.tenant_id,
    ),
    name: row.name,
  };
}
