/**
 * Fallbacks, and room that could be made, in words.
 */
import type { Plan, Workload } from '../contract/workloads.ts';
import { formatDuration } from '../core/format.ts';
import { oneLine } from './output.ts';

type Asked = Pick<Workload, 'fallback' | 'fallback_after' | 'fallback_return'>;

/** `class:l40s-48gb, then cpu, after 10m 0s of waiting`; null where it has none. */
export function fallbackText({ fallback, fallback_after, fallback_return }: Asked): string | null {
  if (fallback.length === 0) return null;
  const steps = fallback.map(oneLine).join(', then ');
  const wait = fallback_after === 0 ? 'at once' : `after ${formatDuration(fallback_after)}`;
  const back = fallback_return ? ', and back once what it asked is free' : '';
  return `${steps}: ${wait}${fallback_after === 0 ? '' : ' of waiting'}${back}`;
}

/** What its run stands in for. */
export function takenText({ fallback_taken: taken }: Workload): string | null {
  if (taken === null) return null;
  const { step, of, to, asked, waited_ms } = taken;
  const waited = formatDuration(waited_ms);
  return `asked ${oneLine(asked)}, waited ${waited}, placed by fallback ${step} of ${of} (${oneLine(to)})`;
}

/** With what its run has, where that stands in for what was asked. */
export function asPlaced(workload: Workload): Workload {
  const { fallback_taken: taken } = workload;
  if (taken === null) return workload;
  const { accelerator, gpu_count, cpu_millis, memory_bytes, model } = taken;
  return { ...workload, accelerator, gpu_count, cpu_millis, memory_bytes, model };
}

/** Its class, marked where that is not what was asked for. */
export function classText(workload: Workload): string {
  const { placement, gpu_class, fallback_taken } = workload;
  const placed = placement?.placed_class ?? gpu_class ?? '';
  return fallback_taken === null ? placed : `${placed} (fallback)`;
}

/** `chat (idle 12m 0s), embed (idle 1h 3m)`; null where none would do. */
export function roomText(room: Workload['make_room']): string | null {
  if (room === null || room.length === 0) return null;
  return room
    .map(({ name, idle_ms }) => `${oneLine(name)} (idle ${formatDuration(idle_ms)})`)
    .join(', ');
}

/** Of a plan: where its fallbacks would lead, and whose room could be made. */
export function fallbackRows(plan: Plan): string[][] {
  return plan.fallbacks.map(({ step, chosen, reason }) => {
    const where =
      chosen === null
        ? oneLine(reason?.message ?? 'nowhere now')
        : `would be on ${oneLine(chosen.machine_name)} as ${oneLine(chosen.placed_class)}`;
    return [oneLine(step), where];
  });
}

/** The heading of those rows. */
export function fallbackHeading({ asked }: Plan): string {
  const { fallback_after: after } = asked;
  return after === 0
    ? 'Where that is not free, it falls back at once to the first of:'
    : `After ${formatDuration(after)} of waiting it falls back to the first of:`;
}
