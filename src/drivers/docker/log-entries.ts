/**
 * Entries of a container's log, and which of them are new since the last look.
 *
 * Invariants: pure; an entry is recognised by its moment (nanoseconds, as the engine wrote it) and
 * its place among those of the same moment, in the order of the log: two streams write at once, so
 * moments may go back a little. What was lost in between is told, never glossed over.
 */
import type { Frame } from './frames.ts';

export type LogEntry = { at: string; payload: Buffer };

/** How far a log was read: the last entry's moment, and how many of that moment were read. */
export type LogMark = { at: string; same: number };

export function entryOf({ payload }: Frame): LogEntry {
  const space = payload.indexOf(0x20);
  const at = space > 0 && space <= 40 ? payload.toString('latin1', 0, space) : '';
  // Without a moment it is passed on as it came.
  if (!/^\d{4}-\d\d-\d\dT/.test(at)) return { at: '', payload };
  return { at, payload: payload.subarray(space + 1) };
}

export function advance(mark: LogMark | null, { at }: LogEntry): LogMark {
  return mark?.at === at ? { at, same: mark.same + 1 } : { at, same: 1 };
}

/** How many of `entries` come up to and with the marked one; null where it is not among them. */
export function countSeen(entries: readonly LogEntry[], mark: LogMark): number | null {
  let same = 0;
  for (const [index, { at }] of entries.entries()) {
    if (at !== mark.at) continue;
    same += 1;
    if (same === mark.same) return index + 1;
  }
  return null;
}

/**
 * The engine's `since`: a little before the mark, for what was written in another order than it
 * was stamped.
 */
export function sinceOf({ at }: LogMark): string {
  const match = /^(.*T[\d:]+)(?:\.(\d+))?(Z|[+-][\d:]+)$/.exec(at);
  const seconds = Date.parse(`${match?.[1]}${match?.[3]}`) / 1000;
  const nanos = Number((match?.[2] ?? '').padEnd(9, '0').slice(0, 9));
  const overlap_nanos = 100_000_000;
  const early = nanos < overlap_nanos;
  const whole = early ? seconds - 1 : seconds;
  const rest = early ? nanos + 1_000_000_000 - overlap_nanos : nanos - overlap_nanos;
  return `${whole}.${String(rest).padStart(9, '0')}`;
}
