/**
 * Samples that nobody took, folded into fewer, each of which stands for more time.
 *
 * Invariants: the time that they stand for stays whole; of what was used the most is kept, so that
 * no use is averaged away; what could not be measured in any part of it is not known of all of it.
 */
import type { Kept } from './sampler.ts';

/** Folds the older half by twos: what is new stays as fine as it was. */
export function foldSamples(kept: readonly Kept[]): Kept[] {
  const older = kept.length - (kept.length % 2);
  const middle = Math.floor(older / 4) * 2;
  const folded: Kept[] = [];
  for (let at = 0; at + 1 < middle; at += 2) {
    const [one, other] = [kept[at], kept[at + 1]];
    if (one !== undefined && other !== undefined) folded.push(fold(one, other));
  }
  return [...folded, ...kept.slice(middle)];
}

function fold(one: Kept, other: Kept): Kept {
  const used = usedOf(one.used, other.used);
  return {
    ...other,
    span_ms: one.span_ms + other.span_ms,
    cpu_millis: most(one.cpu_millis, other.cpu_millis),
    memory_bytes: most(one.memory_bytes, other.memory_bytes),
    gpus: gpusOf(one, other),
    ...(used === undefined ? {} : { used }),
  };
}

function most(one: number | null, other: number | null): number | null {
  return one === null || other === null ? null : Math.max(one, other);
}

function usedOf(one: Kept['used'], other: Kept['used']): Kept['used'] {
  if (one === undefined || other === undefined) return other;
  if (one === true || other === true) return true;
  return one === null || other === null ? null : false;
}

function gpusOf(one: Kept, other: Kept): Kept['gpus'] {
  if (one.gpus === null || other.gpus === null) return null;
  return other.gpus.map((gpu) => {
    const before = one.gpus?.find(({ uuid }) => uuid === gpu.uuid);
    if (before === undefined) return { ...gpu, busy_percent: null };
    return {
      uuid: gpu.uuid,
      busy_percent: most(before.busy_percent, gpu.busy_percent),
      memory_bytes: most(before.memory_bytes, gpu.memory_bytes),
    };
  });
}
