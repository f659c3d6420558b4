/**
 * The functions that move workloads: nothing else writes `workloads.state`.
 *
 * Invariants: state, event and revision change together; who was slower than another moves nothing.
 */
import { formatDuration } from '../core/format.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import { isMetered, nextState, type State, type StateEvent } from '../core/states.ts';
import { type Cause, insertEvent, noteWorkload, type WorkloadRow } from './events.ts';
import { closeAllMetered, openInterval, type RunKeys } from './ledger.ts';
import { step_noticed_ms } from './ledger-clock.ts';
import { forgetReplicas, hasSeveral, resetReplicas } from './replicas.ts';
import type { Row, Sql } from './sql.ts';

export type Move = {
  event: StateEvent;
  code: ReasonCode | null;
  details?: Details;
  /** More for the timeline than the reason needs: stages, exit, the last lines of output. */
  extra?: Record<string, unknown>;
  set?: Partial<{
    intent: 'running' | 'stopped' | 'deleted';
    park_cause: string;
    run_epoch: number;
    attempts: number;
    not_before: number;
  }>;
};

/** Those after which replicas begin anew, or are no more. */
const of_replicas: ReadonlySet<StateEvent> = new Set(['parked', 'start', 'removed']);

/**
 * Moves a workload and returns its new row, or null where the table of states refuses the event.
 * Throws on a lost compare-and-set, which rolls back the whole transaction.
 */
export async function moveWorkload(
  sql: Sql,
  row: WorkloadRow,
  move: Move,
  cause: Cause,
): Promise<WorkloadRow | null> {
  const to = nextState(row.state, move.event);
  if (to === null) return null;
  const at = Math.max(cause.now, row.event_at);
  const number = row.event_number + 1;
  const details = JSON.stringify(move.details ?? {});
  const set = { park_cause: row.park_cause, intent: row.intent, ...move.set };
  const moved = await sql.get<WorkloadRow>(
    `update workloads set state = $1, intent = $2, park_cause = $3, code = $4, details = $5,
       revision = revision + 1, run_epoch = $6, event_number = $7, attempts = $8, not_before = $9,
       state_since = $13, event_at = $10
     where id = $11 and revision = $12 returning *`,
    [
      to,
      set.intent,
      set.park_cause,
      move.code,
      details,
      set.run_epoch ?? row.run_epoch,
      number,
      set.attempts ?? row.attempts,
      set.not_before ?? row.not_before,
      at,
      row.id,
      row.revision,
      to === row.state ? row.state_since : at,
    ],
  );
  if (moved === undefined) throw new Error(`conflict: workload ${row.id} changed meanwhile`);
  await insertEvent(sql, row.id, number, at, cause, {
    kind: 'state',
    event: move.event,
    from_state: row.state,
    to_state: to,
    code: move.code,
    details: JSON.stringify({ ...move.details, ...move.extra }),
  });
  if (hasSeveral(moved) && of_replicas.has(move.event)) {
    if (move.event === 'removed') await forgetReplicas(sql, moved.id);
    else await resetReplicas(sql, moved.id, at);
  }
  return measure(sql, row, moved, cause);
}

/** Of a move of many for one reason. */
export type Together = Pick<Move, 'event' | 'code'> & { details: Details };

/**
 * Moves many that are in one state, which the caller has locked, in two statements: for a move that
 * changes nothing else. Throws where it would begin or end what is metered or what replicas wait
 * for, and where one is in that state no more, which rolls back the whole transaction.
 */
export async function moveTogether(
  sql: Sql,
  ids: readonly string[],
  from: State,
  { event, code, details }: Together,
  cause: Cause,
): Promise<void> {
  const to = nextState(from, event);
  if (to === null || isMetered(from) || isMetered(to) || of_replicas.has(event)) {
    throw new Error(`workloads are not moved together from ${from} by ${event}`);
  }
  const text = JSON.stringify(details);
  const later = 'case when event_at > $1 then event_at else cast($1 as bigint) end';
  const moved = await sql.run(
    `update workloads set event_at = ${later}, state = $2, code = $3, details = $4,
       revision = revision + 1, event_number = event_number + 1
       ${to === from ? '' : `, state_since = ${later}`}
     where state = $5 and id ${sql.in(ids, 6)}`,
    [cause.now, to, code, text, from, ...ids],
  );
  if (moved !== ids.length) throw new Error('conflict: workloads changed meanwhile');
  await sql.run(
    `insert into workload_events (workload_id, number, at, kind, event, from_state, to_state, code,
       details, actor, request_id, change)
     select id, event_number, event_at, 'state', $1, $2, $3, $4, $5, $6, $7, cast($8 as bigint)
     from workloads where id ${sql.in(ids, 9)}`,
    [event, from, to, code, text, cause.actor, cause.request_id, cause.change ?? 0, ...ids],
  );
}

/** The ledger's part of a move (ADR-0029): metered is what happens between two of them. */
async function measure(
  sql: Sql,
  before: WorkloadRow,
  moved: WorkloadRow,
  cause: Cause,
): Promise<WorkloadRow> {
  if (!isMetered(before.state) && isMetered(moved.state)) {
    for (const run of await readyRuns(sql, moved)) {
      await openInterval(sql, 'metered', run, moved, moved.event_at, cause);
    }
  }
  if (!isMetered(before.state) || isMetered(moved.state)) return moved;
  const { stepped_ms } = await closeAllMetered(sql, moved.id, cause);
  if (Math.abs(stepped_ms) <= step_noticed_ms) return moved;
  const details = { moved: `${stepped_ms < 0 ? '-' : '+'}${formatDuration(Math.abs(stepped_ms))}` };
  return noteWorkload(sql, moved, { code: 'clock_stepped', details }, cause);
}

/** What answers of it: a run of each replica that is wanted and ready. */
function readyRuns(sql: Sql, { id, replicas }: WorkloadRow): Promise<(Row & RunKeys)[]> {
  return sql.all<Row & RunKeys>(
    `select workload_id, replica, run_epoch from runs
     where workload_id = $1 and replica < $2 and superseded_at is null and ended_at is null
       and ready_at is not null and wanted = 'run' order by replica`,
    [id, replicas],
  );
}
