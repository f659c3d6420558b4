/**
 * A workload's timeline: what moved it (moves.ts) and what was noted.
 *
 * Invariants: event numbers have no gap and their times never decrease, whatever the clock does; a
 * note leaves the state as it is.
 */
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { State } from '../core/states.ts';
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

/** A workload that nobody else changes until this transaction ends. */
export function lockWorkload(sql: Sql, workload_id: string): Promise<WorkloadRow | undefined> {
  return sql.get<WorkloadRow>(`select * from workloads where id = $1 ${sql.forUpdate}`, [
    workload_id,
  ]);
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

export async function insertEvent(
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
