/**
 * Keys as the gateway knows them, out of the store. A key of endpoints opens those; a key of a run
 * all of its tenant (ADR-0051).
 */
import { no_request_limits, requestLimitsOf } from '../core/request-limits.ts';
import type { GatewayKey } from '../gateway/key.ts';
import { findKey } from '../store/keys.ts';
import { findRunKey } from '../store/run-keys.ts';
import type { EinsoraStore } from '../store/transactions.ts';

/** Usable or not; null where there is none of that digest. */
export async function readGatewayKey(
  store: EinsoraStore,
  hash: string,
): Promise<GatewayKey | null> {
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
}

function userLimitsOf(row: {
  user_rpm: number | null;
  user_tpm: number | null;
  user_concurrency: number | null;
}) {
  return { rpm: row.user_rpm, tpm: row.user_tpm, concurrency: row.user_concurrency };
}
