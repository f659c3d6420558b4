/**
 * Programs beside runs and files of runs, as the activity log knows them: which program, or which
 * file was changed; never arguments, output or content.
 */
import { type Action, recordAction } from './activity.ts';
import type { Sql } from './sql.ts';

/** Before the program starts: there is none without its row. */
export async function recordExec(
  sql: Sql,
  args: { workload_id: string; program: string; action?: Action },
): Promise<void> {
  const target = `workload:${args.workload_id}`;
  await recordAction(sql, args.action, { target, details: { program: args.program } });
}

/** Before a file is changed. */
export async function recordFileChange(
  sql: Sql,
  args: { workload_id: string; path: string; action?: Action },
): Promise<void> {
  const target = `workload:${args.workload_id}`;
  await recordAction(sql, args.action, { target, details: { path: args.path } });
}
