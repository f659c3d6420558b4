/**
 * The engines that serve models: what each is called where one is spoken to, and how many requests
 * it works on at a time where nobody said.
 */
import type { ImageRuntime } from './images.ts';

export const engine_names = ['llama-server', 'vllm'] as const;
export type EngineName = (typeof engine_names)[number];

export const default_parallel: Readonly<Record<EngineName, number>> = {
  /** Two, so that a probe is answered while someone's long answer is on its way. */
  'llama-server': 2,
  vllm: 16,
};

/** Of a run in this image form; null: in none that is known, as most are. */
export function engineIn(runtime: Pick<ImageRuntime, 'engine'> | null): EngineName {
  return runtime?.engine ?? 'llama-server';
}
