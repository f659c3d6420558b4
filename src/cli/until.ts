/**
 * How long something lasts, for people.
 */
import { formatDuration } from '../core/format.ts';

const hour_ms = 3600_000;
const day_ms = 24 * hour_ms;

/** "for 3 days", "for 12 hours", "for 2h 5m"; "over" where it has ended. */
export function untilText(left_ms: number): string {
  if (left_ms <= 0) return 'over';
  const days = Math.round(left_ms / day_ms);
  if (left_ms >= 2 * day_ms - 60_000) return `for ${days} days`;
  const hours = Math.round(left_ms / hour_ms);
  const is_whole = Math.abs(left_ms - hours * hour_ms) < 60_000;
  if (hours >= 2 && is_whole) return `for ${hours} hours`;
  return `for ${formatDuration(Math.max(1000, left_ms))}`;
}
