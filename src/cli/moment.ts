/**
 * Moments on the command line: a day, a time, or how long ago.
 */
import { usageError } from './cli-error.ts';

const unit_ms = { s: 1000, m: 60_000, h: 3600_000, d: 24 * 3600_000 } as const;

/**
 * Milliseconds since 1970 of `2026-01-31`, `2026-01-31T12:00`, `…:00Z` (UTC unless it says another
 * zone), or of 30s, 10m, 2h, 7d ago.
 */
export function momentOf(text: string, now: number): number {
  const ago = /^(\d+)([smhd])$/.exec(text);
  if (ago) return Math.max(0, now - Number(ago[1]) * unit_ms[ago[2] as keyof typeof unit_ms]);
  const date = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[+-]\d\d:\d\d)?)?$/;
  const match = date.exec(text);
  const moment = match ? Date.parse(`${match[1]}T${match[2] ?? '00:00'}${match[3] ?? 'Z'}`) : NaN;
  if (Number.isNaN(moment)) {
    throw usageError(`${text} is no moment: give one such as 2026-01-31, 2026-01-31T12:00 or 7d`);
  }
  return Math.max(0, moment);
}

/** `2026-01-31 12:00:05`, in UTC. */
export function momentText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
}

/**
 * A moment to come: `18:00` by this computer's clock (tomorrow where that is over), in 30m, 2h, 7d,
 * or a whole one as above.
 */
export function momentAhead(text: string, now: number): number {
  const clock = /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(text);
  if (clock) {
    const moment = new Date(now);
    moment.setHours(Number(clock[1]), Number(clock[2]), 0, 0);
    if (moment.getTime() <= now) moment.setDate(moment.getDate() + 1);
    return moment.getTime();
  }
  const ahead = /^(\d+)([smhd])$/.exec(text);
  if (ahead) return now + Number(ahead[1]) * unit_ms[ahead[2] as keyof typeof unit_ms];
  return momentOf(text, now);
}
