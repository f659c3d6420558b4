/**
 * Desired state: what a machine should be running, parking or removing, worked out from the store
 * on every sync (ADR-0016).
 *
 * Invariants: a pure function of the rows: the same rows give the same bytes, in the same order; a
 * run that ended is never asked to run again (a run is one attempt); what may not run on the
 * machine (any more) is parked, whatever is wanted of it.
 */
import type { DesiredRun } from '../contract/sync.ts';
import { type DriverName, mayRun, type Sharing, trustLevel } from './trust.ts';
import type { WorkloadSpec } from './workload.ts';

export type DesiredSource = {
  workload_id: string;
  replica: number;
  run_epoch: number;
  driver: DriverName;
  wanted: 'run' | 'park' | 'remove';
  /** When it was last reported from the machine. */
  proven_at: number | null;
  ended_at: number | null;
  name: string;
  spec: string;
  /** Whose it is, whose the machine is, and with whom that is shared. */
  tenant_id: string;
  owner_tenant_id: string;
  sharing: Sharing;
};

export function desiredRuns(rows: readonly DesiredSource[]): DesiredRun[] {
  return rows.map((row) => {
    const { workload_id, replica, run_epoch, driver } = row;
    const { owner_tenant_id } = row;
    const trust = trustLevel(row.tenant_id, { owner_tenant_id, invited_tenant_ids: [] });
    const is_over = row.ended_at !== null || !mayRun(trust, driver, row.sharing);
    const action = row.wanted === 'run' && is_over ? 'park' : row.wanted;
    const begun = row.proven_at !== null;
    const spec = specOf(row, action);
    const over = row.ended_at !== null;
    return { workload_id, replica, run_epoch, action, begun, over, trust, driver, spec };
  });
}

function specOf(row: DesiredSource, action: DesiredRun['action']): DesiredRun['spec'] {
  if (action !== 'run') return null;
  const spec = JSON.parse(row.spec) as WorkloadSpec;
  if (spec.kind !== 'endpoint' || spec.model === null) return null;
  return {
    kind: 'endpoint',
    name: row.name,
    model: spec.model,
    context_length: spec.model_params.context_length ?? null,
    parallel: spec.model_params.parallel ?? null,
    cpu_millis: spec.cpu_millis,
    memory_bytes: spec.memory_bytes,
  };
}
