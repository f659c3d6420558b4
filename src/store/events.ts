/**
 * A workload's timeline, and the one function that moves a workload.
 *
 * Invariants: state, event and revision change together, by compare-and-set on the revision; event
 * numbers have no gap and their times never decrease, whatever the clock does; a note leaves the
 * state as it is; nothing else writes `workloads.state`.
 */
import { formatDuration } from '../core/format.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import { isMetered, nextState, type State, type StateEvent } from '../core/states.ts';
import { closeAllMetered, openInterval, type RunKeys } from './ledger.ts';
import { step_noticed_ms } from './ledger-clock.ts';
import { forgetReplicas, hasSeveral, resetReplicas } from './replicas.ts';
import type { Query, Row, Sql, SqlValue } from './sql.ts';

export type Cause = {
  now: number;
  /** Who or what did it: `user:<name>`, `controller`, `machine:<name>`. */
  actor: string;
  request_id: string | null;
  /** The same instant on the control plane's monotonic clock, for the ledger (ledger-clock.ts). */
  mono?: number;
  /** Which change of the store this is, for those who follow them; none unless given. */
  change?: number;
};

export type WorkloadRow = Row & {
  id: string;
  tenant_id: string;
  creator_id: string;
  name: string;
  kind: string;
  spec: string;
  state: State;
  intent: 'running' | 'stopped' | 'deleted';
  park_cause: string;
  code: string | null;
  details: string;
  revision: number;
  run_epoch: number;
  event_number: number;
  event_at: number;
  attempts: number;
  not_before: number;
  created_at: number;
  state_since: number;
  gpu_class: string;
  gpu_count: number;
  cpu_millis: number;
  memory_bytes: number;
  disk_bytes: number;
  ask: string;
  /** Unused for so long it is stopped; 0: never for that. */
  idle_after_ms: number;
  /** What admission tries of its fallbacks, as text; empty where it has none. */
  fallback: string;
  /** The step that what it claims is of; 0: as asked. */
  fallback_step: number;
  /** 1: it gave its place up to go back to what it asked, and waits no longer for a fallback. */
  fallback_due: number;
  fallback_return: number;
  /** The machine that keeps its disk: it runs nowhere else. */
  home_machine_id: string | null;
  home_region: string;
  /** A machine on which a start failed: the last choice until then. */
  avoid_machine_id: string | null;
  avoid_until: number;
  /** The restore that this one was there for; 0 where it was made since. */
  restored_epoch: number;
  /** How many runs of it are to answer at once; more than 1 for endpoints alone. */
  replicas: number;
  /** How many count against the quota: those that are to go count until they are proven gone. */
  claims: number;
};

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

/** A workload that nobody else changes until this transaction ends. */
export function lockWorkload(sql: Sql, workload_id: string): Promise<WorkloadRow | undefined> {
  return sql.get<WorkloadRow>(`select * from workloads where id = $1 ${sql.forUpdate}`, [
    workload_id,
  ]);
}

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
  if (hasSeveral(moved)) {
    if (move.event === 'parked' || move.event === 'start') await resetReplicas(sql, moved.id, at);
    if (move.event === 'removed') await forgetReplicas(sql, moved.id);
  }
  return measure(sql, row, moved, cause);
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

/** Records a decision that leaves the state as it was, and returns the new row. */
export async function noteWorkload(
  sql: Sql,
  row: WorkloadRow,
  note: { code: ReasonCode; details?: Details; extra?: Record<string, unknown> },
  cause: Cause,
): Promise<WorkloadRow> {
  const number = row.event_number + 1;
  const at = Math.max(cause.now, row.event_at);
  const noted = await sql.get<WorkloadRow>(
    `update workloads set event_number = $1, event_at = $2, revision = revision + 1
     where id = $3 and revision = $4 returning *`,
    [number, at, row.id, row.revision],
  );
  if (noted === undefined) throw new Error(`conflict: workload ${row.id} changed meanwhile`);
  await insertEvent(sql, row.id, number, at, cause, {
    kind: 'note',
    event: null,
    from_state: null,
    to_state: null,
    code: note.code,
    details: JSON.stringify({ ...note.details, ...note.extra }),
  });
  return noted;
}

/** The first event of a timeline: that the workload was asked for. */
export async function insertFirstEvent(sql: Sql, row: WorkloadRow, cause: Cause): Promise<void> {
  await insertEvent(sql, row.id, 1, cause.now, cause, {
    kind: 'state',
    event: 'launch',
    from_state: null,
    to_state: row.state,
    code: 'asked_by_user',
    details: row.details,
  });
}

export type EventRow = Row & {
  workload_id: string;
  number: number;
  at: number;
  kind: 'state' | 'note';
  event: string | null;
  from_state: State | null;
  to_state: State | null;
  code: ReasonCode | null;
  details: string;
  actor: string;
  request_id: string | null;
  change: number;
};

/** A page of a timeline, oldest first, after event number `after`. */
export const listEvents: Query<
  { workload_id: string; after: number; limit: number },
  EventRow[]
> = (sql, args) =>
  sql.all<EventRow>(
    `select * from workload_events where workload_id = $1 and number > $2
       order by number limit $3`,
    [args.workload_id, args.after, args.limit],
  );

async function insertEvent(
  sql: Sql,
  workload_id: string,
  number: number,
  at: number,
  cause: Cause,
  event: Record<'kind' | 'event' | 'from_state' | 'to_state' | 'code' | 'details', SqlValue>,
): Promise<void> {
  await sql.run(
    `insert into workload_events (workload_id, number, at, kind, event, from_state, to_state, code,
       details, actor, request_id, change)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
    [
      workload_id,
      number,
      at,
      event.kind,
      event.event,
      event.from_state,
      event.to_state,
      event.code,
      event.details,
      cause.actor,
      cause.request_id,
      cause.change ?? 0,
    ],
  );
}
