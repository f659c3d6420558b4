/**
 * That somebody went into a workload: a row of the activity log, and of what they did there none.
 */
import { type Action, recordAction } from './activity.ts';
import type { Sql } from './sql.ts';

export async function noteVisit(
  sql: Sql,
  args: { workload_id: string; action: Action },
): Promise<null> {
  await recordAction(sql, args.action, { target: `workload:${args.workload_id}` });
  return null;
}
