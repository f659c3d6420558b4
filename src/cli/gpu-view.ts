/**
 * GPUs of a workload in words: what was asked for, what it has, and who shares it.
 */
import type { Plan, ShownSpec, Workload } from '../contract/workloads.ts';
import { formatMemory } from '../core/format.ts';
import { oneLine } from './output.ts';

/** `2, each l40s with 43.2 GiB or more`; null where none was asked for. */
export function gpusAsked(asked: ShownSpec): string | null {
  const { gpu_count, gpu_memory_bytes, gpu_model, share_device } = asked;
  if (gpu_count === 0) return null;
  const memory = gpu_memory_bytes === 0 ? null : `${formatMemory(gpu_memory_bytes)} or more`;
  const each = [gpu_model, memory].filter((part) => part !== null).join(' with ');
  const what = each === '' ? '' : `, ${gpu_count === 1 ? '' : 'each '}${each}`;
  const shared = share_device ? ', shared with workloads of yours that say so too' : '';
  return `${gpu_count}${what}${shared}`;
}

/** The GPUs that it has, by UUID; null where it has none. */
export function gpusHeld({ gpus }: Pick<Workload, 'gpus'>): string | null {
  if (gpus.length === 0) return null;
  return gpus
    .map(({ uuid, shared_with }) => {
      const others = shared_with.map(oneLine).join(', ');
      return others === '' ? uuid : `${uuid} (shared with ${others})`;
    })
    .join(', ');
}

/** The GPUs that a plan chose; null where it chose none. */
export function gpusChosen({ chosen, shares_with }: Plan): string | null {
  const uuids = chosen?.devices ?? [];
  if (uuids.length === 0) return null;
  const others = shares_with.map(oneLine).join(', ');
  return `${uuids.join(', ')}${others === '' ? '' : ` (shared with ${others})`}`;
}
