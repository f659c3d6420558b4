/**
 * The queue: what waits, and why. A workload that is valid but finds no room is queued with a
 * reason.
 *
 * Invariants: the first wait is a state change with its event; a later change of reason updates
 * what is shown without flooding the timeline (holders and free amounts change all the time).
 */
import type { Details, ReasonCode } from '../core/reasons.ts';
import { type Cause, moveWorkload, type WorkloadRow } from './events.ts';
import type { Sql } from './sql.ts';

export type QueueArgs = Cause & {
  workload_id: string;
  revision: number;
  code: ReasonCode;
  details: Details;
};

export async function queueWorkload(sql: Sql, args: QueueArgs): Promise<{ queued: number }> {
  const row = await sql.get<WorkloadRow>(
    `select * from workloads where id = $1 and revision = $2 and state in ('pending', 'queued')
       ${sql.forUpdate}`,
    [args.workload_id, args.revision],
  );
  if (row === undefined) return { queued: 0 };
  if (row.state === 'queued' && row.code === args.code) {
    const queued = await sql.run(
      'update workloads set details = $1, revision = revision + 1 where id = $2',
      [JSON.stringify(args.details), row.id],
    );
    return { queued };
  }
  const { code, details } = args;
  await moveWorkload(sql, row, { event: 'queue', code, details }, args);
  return { queued: 1 };
}
