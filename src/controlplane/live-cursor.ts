/**
 * The ids of live events: a place in the order of all changes.
 */
import type { ChangeCursor } from '../store/changes.ts';

/** Later than any id of a workload. */
const last_id = '~';

/** Before everything from this change on. */
export function startAt(change: number): ChangeCursor {
  return lastOf(change);
}

/** After all that is below this change. */
export function lastOf(below: number): ChangeCursor {
  return { change: below - 1, workload_id: last_id, number: 0 };
}

export function isAfter(a: ChangeCursor, b: ChangeCursor): boolean {
  if (a.change !== b.change) return a.change > b.change;
  if (a.workload_id !== b.workload_id) return a.workload_id > b.workload_id;
  return a.number > b.number;
}

export function cursorText({ change, workload_id, number }: ChangeCursor): string {
  return `${change}.${workload_id}.${number}`;
}

/** Null for what is no id of ours. */
export function readCursor(text: string): ChangeCursor | null {
  const match = /^(\d{1,15})\.([0-9a-z]{26}|~)\.(\d{1,15})$/.exec(text);
  if (!match?.[1] || !match[2] || !match[3]) return null;
  return { change: Number(match[1]), workload_id: match[2], number: Number(match[3]) };
}
