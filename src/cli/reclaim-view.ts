/**
 * That a machine is taken back, in words: of the machine, and of a workload on it.
 */
import type { MachineReclaim } from '../contract/reclaim.ts';
import type { Workload } from '../contract/workloads.ts';
import { formatDuration } from '../core/format.ts';

/** "taken back in 4m 12s, until 22:00 UTC". */
export function reclaimText(reclaim: MachineReclaim, now: number): string {
  const { phase, starts_at, stops_at, until, since } = reclaim;
  const left = (at: number | null) => formatDuration(Math.max(0, (at ?? now) - now));
  const end = until === null ? '' : `, until ${momentOf(until)}`;
  switch (phase) {
    case 'planned':
      return `taken back at ${momentOf(starts_at ?? now)}, in ${left(starts_at)}${end}`;
    case 'armed':
      return `taken back whenever its owner uses it${end}`;
    case 'grace':
      return `taken back in ${left(stops_at)}: ${reclaim.why_text}${end}`;
    case 'held':
      return `taken back since ${momentOf(since)}: ${reclaim.why_text}${end}`;
  }
}

/** One or two words beside "online". */
export function reclaimMark(reclaim: MachineReclaim | null, now: number): string {
  if (reclaim === null || reclaim.phase === 'armed') return '';
  if (reclaim.phase === 'held') return ', taken back';
  const at = reclaim.phase === 'grace' ? reclaim.stops_at : reclaim.starts_at;
  return `, taken back in ${formatDuration(Math.max(0, (at ?? now) - now))}`;
}

/** Null where its machine stays. */
export function reclaimNote({ reclaim }: Workload): string | null {
  if (reclaim === null) return null;
  const { phase, starts_in_ms, stops_in_ms, why_text } = reclaim;
  const left = formatDuration(phase === 'planned' ? starts_in_ms : stops_in_ms);
  const what = phase === 'planned' ? 'taken back' : 'stopped: taken back';
  return `will be ${what} by the machine's owner in ${left} (${why_text})`;
}

/** "2026-01-31 18:00 UTC" */
function momentOf(at: number): string {
  const text = new Date(at).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 16)} UTC`;
}
