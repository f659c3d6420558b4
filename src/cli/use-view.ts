/**
 * What a workload uses and how long nobody used it, in words and in columns.
 *
 * Invariants: what was not measured is a dash, never a zero.
 */
import type { WorkloadUse } from '../contract/stats.ts';
import type { Workload } from '../contract/workloads.ts';
import { formatAgo, formatBytes, formatDuration, formatMemory } from '../core/format.ts';
import { asPlaced } from './fallback-view.ts';
import { stateText } from './workload-name.ts';

export const use_headings = [
  'NAME',
  'KIND',
  'STATE',
  'CPU',
  'MEMORY',
  'DISK',
  'GPU',
  'LAST USE',
  'IDLE STOP',
];
/** From here on columns are figures. */
export const first_figure = 3;

export function useRow(workload: Workload, now: number): string[] {
  const { use, memory_bytes, idle_policy } = asPlaced(workload);
  const head = [workload.name, workload.kind, stateText(workload, now)];
  if (use === null) {
    return [...head, '', '', '', '', '', idle_policy === null ? '' : 'set'];
  }
  return [
    ...head,
    cpuText(use.cpu_millis),
    use.memory_bytes === null ? '' : memoryText(use.memory_bytes, memory_bytes),
    use.disk_bytes === null ? '' : formatBytes(use.disk_bytes),
    gpuText(use),
    lastUseText(use, now) ?? '',
    countdownText(workload) ?? '',
  ];
}

/** As `top` counts: 100 % is one core. */
function cpuText(cpu_millis: number | null): string {
  if (cpu_millis === null) return '';
  const percent = cpu_millis / 10;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)}%`;
}

function memoryText(used: number, cap: number): string {
  const share = cap === 0 ? '' : ` (${Math.round((used / cap) * 100)}%)`;
  return `${formatMemory(used)} of ${formatMemory(cap)}${share}`;
}

function gpuText({ gpu_percent, gpu_memory_bytes }: WorkloadUse): string {
  const busy = gpu_percent === null ? [] : [`${Math.round(gpu_percent)}%`];
  const memory = gpu_memory_bytes === null ? [] : [formatMemory(gpu_memory_bytes)];
  return [...busy, ...memory].join(', ');
}

/** Null where nothing is known of it. */
export function lastUseText({ used_at, busy_with }: WorkloadUse, now: number): string | null {
  if (used_at === null) return null;
  const is_now = busy_with !== null && busy_with !== 'unmeasured' && now - used_at < 30_000;
  return is_now ? 'now' : formatAgo(Math.max(0, now - used_at));
}

/** `in 1h 52m`; null where it is not to be stopped for being idle. */
export function countdownText({ use }: Workload): string | null {
  if (use === null || use.idle_left_ms === null) return null;
  if (use.busy_with === 'unmeasured') return 'cannot tell';
  return `in ${formatDuration(use.idle_left_ms)}`;
}

/** One line for `show`; null where there is nothing to say. */
export function useLine(workload: Workload): string | null {
  const { use, memory_bytes, cpu_millis } = asPlaced(workload);
  if (use === null || use.at === null) return null;
  const gpu = gpuText(use);
  const parts = [
    use.cpu_millis === null ? null : `${cpuText(use.cpu_millis)} of ${cpu_millis / 10}% CPU`,
    use.memory_bytes === null ? null : `${memoryText(use.memory_bytes, memory_bytes)} of memory`,
    use.disk_bytes === null ? null : `${formatBytes(use.disk_bytes)} on disk`,
    gpu === '' ? null : `GPU ${gpu}`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join(', ');
}
