/**
 * Desired state: what a machine should be running, parking or removing, worked out from the store
 * on every sync (ADR-0016).
 *
 * Invariants: a pure function of the rows: the same rows give the same bytes, in the same order; a
 * run that ended is never asked to run again (a run is one attempt).
 */
import type { DesiredRun } from '../contract/sync.ts';
import type { WorkloadSpec } from './workload.ts';

export type DesiredSource = {
  workload_id: string;
  replica: number;
  run_epoch: number;
  driver: string;
  wanted: 'run' | 'park' | 'remove';
  ended_at: number | null;
  name: string;
  spec: string;
};

export function desiredRuns(rows: readonly DesiredSource[]): DesiredRun[] {
  return rows.map((row) => {
    const action = row.wanted === 'run' && row.ended_at !== null ? 'park' : row.wanted;
    const { workload_id, replica, run_epoch, driver } = row;
    return { workload_id, replica, run_epoch, action, driver, spec: specOf(row, action) };
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
