/**
 * An endpoint as the gateway knows it, out of the store's rows: its replicas that answer, or why
 * none does.
 *
 * Invariants: pure; of another tenant's machine a key is told the class, not the name; a replica is
 * one that was proven to answer with a token (`ready_at`), and is the current run of its replica.
 */
import { default_parallel, type EngineName, engineIn } from '../core/engines.ts';
import { fallbackHeader, placedSpec, readTaken } from '../core/fallback.ts';
import { type ImageRuntime, runtimeFor } from '../core/images.ts';
import type { FoundEndpoint, Replica } from '../gateway/endpoint.ts';
import type { TargetRow } from '../store/keys.ts';

/** `rows`: of one endpoint, at least one. */
export function endpointOf(
  rows: readonly [TargetRow, ...TargetRow[]],
  tenant_id: string,
): FoundEndpoint {
  const [first] = rows;
  const { workload_id, name, state, owner_tenant_id } = first;
  const details = { name, state };
  const starts_again = state === 'stopping' && first.intent === 'running';
  if ((state === 'stopped' || state === 'stopping') && !starts_again) {
    return { ok: false, code: 'endpoint_stopped', details };
  }
  if (state === 'failed') return { ok: false, code: 'endpoint_failed', details };
  const replicas = rows.flatMap((row) => replicaOf(row, tenant_id) ?? []);
  if (state !== 'running' || replicas.length === 0) {
    return { ok: false, code: 'not_ready', details };
  }
  const is_apart = rows.some((row) => row.is_apart === 1);
  const endpoint = { workload_id, tenant_id: owner_tenant_id, name, engine: engineOf(first) };
  const { model_rpm: rpm, model_tpm: tpm, model_concurrency: concurrency } = first;
  const limits = { rpm, tpm, concurrency };
  return { ok: true, endpoint: { ...endpoint, is_apart, limits, replicas } };
}

/** Stopped for being idle, and for nothing else. */
export function isIdle({ state, intent, park_cause }: TargetRow): boolean {
  const is_down = state === 'stopped' || state === 'stopping';
  return is_down && intent === 'running' && park_cause === 'idle';
}

/** Of a run, and of what its workload asks. */
type Served = Pick<TargetRow, 'driver' | 'runtime' | 'fallback' | 'spec'>;

export function engineOf(row: Served): EngineName {
  const { driver, runtime, fallback, spec } = row;
  if (runtime !== null) return engineIn(JSON.parse(runtime) as ImageRuntime);
  const { image_id } = placedSpec(spec, fallback ?? '');
  return engineIn(driver === null ? null : runtimeFor('endpoint', image_id, driver));
}

/** Requests that its engine works on at a time. */
export function slotsOf(row: Served): number {
  const { model_params } = placedSpec(row.spec, row.fallback ?? '');
  return model_params.parallel ?? default_parallel[engineOf(row)];
}

function replicaOf(row: TargetRow, tenant_id: string): Replica | null {
  const { workload_id, replica, run_epoch, machine_id, machine_tenant_id } = row;
  if (replica === null || run_epoch === null || machine_id === null) return null;
  const is_own = machine_tenant_id === tenant_id;
  return {
    run: { workload_id, replica, run_epoch },
    machine_id,
    machine_name: is_own ? row.machine_name : null,
    placed_class: row.placed_class ?? '',
    region: row.region ?? '',
    fallback: fallbackHeader(readTaken(row.fallback ?? ''), is_own),
    slots: slotsOf(row),
  };
}
