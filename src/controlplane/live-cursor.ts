/**
 * The ids of live events: a place in the order of all changes.
 */
import type { ChangeCursor } from '../store/changes.ts';

/** Before everything from this change on, and after all that is below it. */
export function startAt(change: number): ChangeCursor {
  // Nothing comes before the empty text, whatever the order of letters in a database.
  return { change, workload_id: '', number: 0 };
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
  const match = /^(\d{1,15})\.([0-9a-z]{26})?\.(\d{1,15})$/.exec(text);
  if (match === null) return null;
  const [, change, workload_id = '', number] = match;
  return { change: Number(change), workload_id, number: Number(number) };
}
