/**
 * Rows of the activity log that stand beside no effect: reads, and writes that were refused.
 *
 * Invariants: many at a time, and never more than were asked for: a row that is there already (a
 * repeat after an unknown outcome) is left as it is.
 */
import type { Details } from '../core/reasons.ts';
import { type Action, insertActivity } from './activity.ts';
import type { Sql } from './sql.ts';

export type Note = {
  action: Action;
  target: string | null;
  /** `done` of a read; the code of a refusal. */
  outcome: string;
  details: Details;
};

export async function recordNotes(sql: Sql, args: { notes: Note[] }): Promise<{ added: number }> {
  let added = 0;
  for (const note of args.notes) added += await insertActivity(sql, note);
  return { added };
}
