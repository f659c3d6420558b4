/**
 * Taking the replicas of an endpoint off one machine while others of it go on elsewhere: its owner
 * takes the machine back, or they may not run there any more (ADR-0062).
 *
 * Invariants: what is the last of its workload is not taken away here but stopped with it; what is
 * taken away is measured no longer, holds its machine until it is proven gone, and is then placed
 * elsewhere; no attempt is counted.
 */
import { eventOf, type ReplicaNote } from '../core/replicas.ts';
import { type Cause, noteWorkload, type WorkloadRow } from './events.ts';
import { closeMetered } from './ledger.ts';
import { moveWorkload } from './moves.ts';
import { hasSeveral, siblingsOf } from './replicas.ts';
import { type RunRow, wantRun } from './runs.ts';
import type { Row, Sql } from './sql.ts';

/** False where nothing of it would be left: then nothing was changed. */
export async function takeAway(
  sql: Sql,
  row: WorkloadRow,
  machine_id: string,
  cause: Cause,
  /** What the timeline says of it; else that it may not run there any more. */
  note?: ReplicaNote,
): Promise<boolean> {
  if (!hasSeveral(row) || (row.state !== 'provisioning' && row.state !== 'running')) return false;
  const runs = await sql.all<RunRow>(
    `select * from runs where workload_id = $1 and replica < $2 and superseded_at is null
       and ended_at is null and wanted = 'run' order by replica`,
    [row.id, row.replicas],
  );
  const there = runs.filter((run) => run.machine_id === machine_id);
  if (there.length === runs.length) return false;
  const machine = await sql.get<Row & { name: string }>('select name from machines where id = $1', [
    machine_id,
  ]);
  const name = machine?.name ?? machine_id;
  await sql.run('update machines set generation = generation + 1 where id = $1', [machine_id]);
  const told = (replica: number): ReplicaNote => ({
    ...(note ?? { code: 'replica_taken_away' }),
    details: { ...note?.details, replica, machine: name },
  });
  let now = row;
  for (const run of there) {
    await wantRun(sql, run, 'park');
    await closeMetered(sql, run, cause);
    now = await noteWorkload(sql, now, told(run.replica), cause);
  }
  const event = eventOf(now.state, await siblingsOf(sql, now, -1));
  if (event !== null) {
    await moveWorkload(sql, now, { event, ...told(there[0]?.replica ?? 0) }, cause);
  }
  return true;
}
