/**
 * What of a request decides where it may run: workloads that ask the same are decided together.
 *
 * Invariants: two specs with the same ask and tenant fit on the same machines; the text is
 * canonical, so equal asks have equal texts.
 */
import { findClass } from './catalog.ts';
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
>;

/** The ask of a spec as text: what the store keeps beside the spec. */
export function askText(spec: Ask): string {
  const { kind, image_id, region, accelerator, gpu_class, gpu_count } = spec;
  const { cpu_millis, memory_bytes, disk_bytes } = spec;
  return JSON.stringify({
    ...{ kind, region, accelerator, gpu_class, gpu_count },
    ...{ cpu_millis, memory_bytes, disk_bytes },
    // As in rows that were written before images were.
    ...(image_id === null ? {} : { image_id }),
  });
}

/** Of an ask's text, or of a whole spec's (rows that were written before asks were kept). */
export function parseAsk(text: string): Ask {
  const ask = JSON.parse(text) as Omit<Ask, 'image_id'> & Partial<Ask>;
  return { ...ask, image_id: ask.image_id ?? null };
}

/** What a second of it weighs in fair share: its class's weight, else its cores. */
export function weightOf(ask: Pick<Ask, 'gpu_class' | 'cpu_millis'>): number {
  const entry = ask.gpu_class === null ? null : findClass(ask.gpu_class);
  return entry?.weight ?? Math.max(0.001, ask.cpu_millis / 1000);
}

/** Which queue it stands in: the head of each may reserve a machine. */
export function classKey(ask: Ask): string {
  return ask.gpu_class ?? `${ask.kind} ${ask.cpu_millis} ${ask.memory_bytes}`;
}
