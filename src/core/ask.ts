/**
 * What of a request decides where it may run: workloads that ask the same are decided together.
 *
 * Invariants: two specs with the same ask and tenant fit on the same machines; the text is
 * canonical, so equal asks have equal texts.
 */
import { builtin_catalog, findClass } from './catalog.ts';
import type { WorkloadSpec } from './workload.ts';

export type Ask = Pick<
  WorkloadSpec,
  | 'kind'
  | 'image_id'
  | 'region'
  | 'accelerator'
  | 'gpu_class'
  | 'gpu_count'
  | 'cpu_millis'
  | 'memory_bytes'
  | 'disk_bytes'
> &
  Partial<Pick<WorkloadSpec, 'machine' | 'gpu_memory_bytes' | 'gpu_model' | 'share_device'>> & {
    /** The machine that keeps its disk: its only candidate. None before it was placed. */
    home_machine_id?: string | null;
  };

/** The ask of a spec as text: what the store keeps beside the spec. */
export function askText(spec: Ask): string {
  const { kind, image_id, region, accelerator, gpu_class, gpu_count, machine } = spec;
  const { cpu_millis, memory_bytes, disk_bytes, home_machine_id } = spec;
  return JSON.stringify({
    ...{ kind, region, accelerator, gpu_class, gpu_count },
    ...{ cpu_millis, memory_bytes, disk_bytes },
    // As in rows that were written before images were.
    ...(image_id === null ? {} : { image_id }),
    ...(machine ? { machine } : {}),
    ...(spec.gpu_memory_bytes ? { gpu_memory_bytes: spec.gpu_memory_bytes } : {}),
    ...(spec.gpu_model ? { gpu_model: spec.gpu_model } : {}),
    ...(spec.share_device ? { share_device: true } : {}),
    ...(home_machine_id ? { home_machine_id } : {}),
  });
}

/** Of an ask's text, or of a whole spec's (rows that were written before asks were kept). */
export function parseAsk(text: string): Ask {
  const ask = JSON.parse(text) as Omit<Ask, 'image_id'> & Partial<Ask>;
  return { ...ask, image_id: ask.image_id ?? null };
}

/** What a second of it weighs in fair share: its class's weight for each device, else its cores. */
export function weightOf(
  ask: Pick<Ask, 'gpu_class' | 'cpu_millis' | 'gpu_count'>,
  catalog = builtin_catalog,
): number {
  const entry = ask.gpu_class === null ? null : findClass(ask.gpu_class, catalog);
  if (entry === null) return Math.max(0.001, ask.cpu_millis / 1000);
  return entry.weight * Math.max(1, ask.gpu_count);
}

/**
 * Which queue it stands in: the head of each may reserve a machine. What has a home waits for that
 * alone, so it holds nobody up who could go elsewhere.
 */
export function classKey(ask: Ask): string {
  const name = ask.gpu_class ?? `${ask.kind} ${ask.cpu_millis} ${ask.memory_bytes}`;
  const only = onlyMachine(ask);
  return only === null ? name : `${name} at ${only}`;
}

/** The one machine that may take it: its home, or the one that it asks for. */
export function onlyMachine({ home_machine_id, machine }: Ask): string | null {
  return (home_machine_id || null) ?? machine?.id ?? null;
}

/** Whether its first placement is its home: what has a disk stays where that is. */
export function hasHome({ kind, disk_bytes }: Pick<Ask, 'kind' | 'disk_bytes'>): boolean {
  return kind !== 'endpoint' && disk_bytes > 0;
}
