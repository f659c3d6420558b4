/**
 * Fallbacks as the API shows them: what a run stands in for, and where each step would lead now.
 */
import type { Taken } from '../contract/fallback.ts';
import type { Plan } from '../contract/workloads.ts';
import { builtin_catalog, type Catalog } from '../core/catalog.ts';
import { parseStep, readTaken, stepSpec } from '../core/fallback.ts';
import { place } from '../core/placement.ts';
import { fixOf, sentenceOf } from '../core/reasons.ts';
import type { MachineView, WorkloadSpec } from '../core/workload.ts';
import { placedView } from './trust-views.ts';

export function takenView(text: string | undefined, spec: WorkloadSpec): Taken | null {
  const taken = readTaken(text);
  if (taken === null) return null;
  const { step, of, to, asked, placed, waited_ms } = taken;
  const { accelerator, gpu_count, cpu_millis, memory_bytes, model } = { ...spec, ...taken.set };
  return {
    ...{ step, of, to, asked, placed, waited_ms },
    ...{ accelerator, gpu_count, cpu_millis, memory_bytes, model },
  };
}

/** What admission has no part in (another replica) is left out. */
export function fallbackViews(
  spec: WorkloadSpec,
  tenant_id: string,
  machines: readonly MachineView[],
  creator_id = '',
  catalog: Catalog = builtin_catalog,
): Plan['fallbacks'] {
  return spec.fallback.flatMap(({ step }, index) => {
    const changed = parseStep(step)?.sort === 'replica' ? null : stepSpec(spec, index + 1);
    if (changed === null) return [];
    const decision = place(changed, tenant_id, machines, creator_id, catalog);
    const { chosen, code } = decision;
    const details = { ...decision.details, name: spec.name };
    const why = code && { code, message: sentenceOf(code, details), fix: fixOf(code, details) };
    return [{ step, chosen: placedView(chosen, tenant_id, machines), reason: why }];
  });
}
