/**
 * Desired state: what a machine should be running, parking or removing, worked out from the store
 * on every sync (ADR-0016).
 *
 * Invariants: a pure function of the rows: the same rows give the same bytes, in the same order; a
 * run that ended is never asked to run again (a run is one attempt); what may not run on the
 * machine (any more) is parked, whatever is wanted of it.
 */
import type { DesiredRun, RunTarget } from '../contract/sync.ts';
import { placedSpec } from './fallback.ts';
import { defaultImage, type ImageRuntime } from './images.ts';
import { type DriverName, mayRun, type Sharing, trustLevel } from './trust.ts';
import { readSpec } from './workload.ts';

export type DesiredSource = {
  workload_id: string;
  replica: number;
  run_epoch: number;
  driver: DriverName;
  /** Whose row of the trust matrix it took, of a made-up machine. */
  driver_as: DriverName | null;
  wanted: 'run' | 'park' | 'remove';
  /** Of the workload: what it keeps goes only where it is to be deleted. */
  intent: 'running' | 'stopped' | 'deleted';
  /** When it was last reported from the machine. */
  proven_at: number | null;
  ended_at: number | null;
  name: string;
  spec: string;
  /** How its image is run, where an operator wrote that. */
  runtime?: string | null;
  /** What the run stands in for, as JSON; empty or left out: it is as asked. */
  fallback?: string;
  /** Whose it is, whose the machine is, and with whom that is shared. */
  tenant_id: string;
  owner_tenant_id: string;
  sharing: Sharing;
  /** The slug of the workload's tenant; left out: not known. */
  tenant?: string;
  /** 1 where the workload's tenant is invited to the machine. */
  is_guest: number;
  /** The GPUs that the run holds, with commas between. */
  gpu_uuids: string;
};

/** `dev`: made-up machines may take another driver's row of the trust matrix. */
export function desiredRuns(rows: readonly DesiredSource[], dev = false): DesiredRun[] {
  return rows.map((row) => {
    const { workload_id, replica, run_epoch, driver } = row;
    const { owner_tenant_id, sharing } = row;
    const invited_tenant_ids = row.is_guest === 1 ? [row.tenant_id] : [];
    const trust = trustLevel(row.tenant_id, { owner_tenant_id, invited_tenant_ids });
    const may = mayRun(trust, driver, sharing, dev ? row.driver_as : null);
    const is_over = row.ended_at !== null || !may;
    const action = row.wanted === 'run' && is_over ? 'park' : row.wanted;
    const begun = row.proven_at !== null;
    const spec = specOf(row, action);
    const over = row.ended_at !== null;
    const erase = action === 'remove' && row.intent === 'deleted' && keepsSomething(row);
    // The machine's owner runs their own: only of others does a policy there ask who they are.
    const who = trust === 'owner' || row.tenant === undefined ? {} : { tenant: row.tenant };
    const facts = { ...who, action, begun, over, erase, trust, sharing, driver };
    return { workload_id, replica, run_epoch, ...facts, spec, secrets: null };
  });
}

/** An endpoint keeps nothing: its model is the machine's. */
function keepsSomething({ spec }: DesiredSource): boolean {
  return readSpec(spec).kind !== 'endpoint';
}

function specOf(row: DesiredSource, action: DesiredRun['action']): RunTarget | null {
  if (action !== 'run') return null;
  // What stands in for what was asked, where a fallback was taken (ADR-0059).
  const spec = placedSpec(row.spec, row.fallback);
  const { kind, image_id, accelerator, cpu_millis, memory_bytes, disk_bytes } = spec;
  const gpu_uuids = row.gpu_uuids === '' ? {} : { gpu_uuids: row.gpu_uuids.split(',') };
  const runtime = row.runtime ? { runtime: JSON.parse(row.runtime) as ImageRuntime } : {};
  const sizes = { cpu_millis, memory_bytes, ...gpu_uuids, ...runtime };
  if (kind === 'notebook' || kind === 'instance') {
    const image = image_id ?? defaultImage(kind) ?? '';
    const { command, env } = spec;
    return {
      ...{ kind, name: row.name, image_id: image, accelerator, command, env },
      ...{ ...sizes, disk_bytes },
    };
  }
  if (kind !== 'endpoint' || spec.model === null) return null;
  const { context_length = null, parallel = null } = spec.model_params;
  return {
    ...{ kind, name: row.name, image_id, accelerator, model: spec.model },
    ...(spec.share_device ? { shares_gpu: true } : {}),
    ...{ context_length, parallel, ...sizes },
  };
}
