/**
 * How long something lasts, for people.
 */
import { formatDuration } from '../core/format.ts';

const day_ms = 24 * 3600_000;

/** "for 3 days", "for 2h 5m"; "over" where it has ended. */
export function untilText(left_ms: number): string {
  if (left_ms <= 0) return 'over';
  const days = Math.round(left_ms / day_ms);
  if (left_ms >= 2 * day_ms - 60_000) return `for ${days} days`;
  return `for ${formatDuration(Math.max(1000, left_ms))}`;
}
