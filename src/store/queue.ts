/**
 * The queue: what waits, and why. A workload that is valid but finds no room is queued with a
 * reason.
 *
 * Invariants: the first wait, and each wait for another reason, is an event of the timeline; what
 * changes within a reason (who holds a machine, how much is free) is told by the controller and
 * never written; one that changed meanwhile is passed over, the others are queued.
 */
import { back_off_limit_ms } from '../core/judge.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { Cause, WorkloadRow } from './events.ts';
import { moveTogether } from './moves.ts';
import type { Query, Row, Sql } from './sql.ts';

export type QueueArgs = Cause & {
  /** At most 100. */
  members: { workload_id: string; revision: number }[];
  code: ReasonCode;
  details: Details;
};

export async function queueWorkloads(sql: Sql, args: QueueArgs): Promise<{ queued: number }> {
  const { members, code, details } = args;
  if (members.length === 0) return { queued: 0 };
  const asked = new Map(members.map(({ workload_id, revision }) => [workload_id, revision]));
  const ids = [...asked.keys()];
  // By id, so that two that queue the same never wait for each other.
  const rows = await sql.all<Pick<WorkloadRow, 'id' | 'state' | 'code' | 'revision'> & Row>(
    `select id, state, code, revision from workloads
     where state in ('pending', 'queued') and id ${sql.in(ids, 1)} order by id ${sql.forUpdate}`,
    ids,
  );
  const due = rows.filter(
    (row) => row.revision === asked.get(row.id) && (row.state === 'pending' || row.code !== code),
  );
  for (const from of ['pending', 'queued'] as const) {
    const some = due.filter(({ state }) => state === from).map(({ id }) => id);
    const move = { event: 'queue', code, details } as const;
    if (some.length > 0) await moveTogether(sql, some, from, move, args);
  }
  return { queued: due.length };
}

export type WaitingRow = Row & WaitingFields;

export type WaitingFields = {
  id: string;
  tenant_id: string;
  creator_id: string;
  state: 'pending' | 'queued';
  /** What it asks, as text; of rows from before this was kept, the whole spec. */
  ask: string;
  code: string | null;
  revision: number;
  created_at: number;
  state_since: number;
  /** What is tried after a wait (core/fallback.ts); empty where it has no fallbacks. */
  fallback: string;
  /** 1: it need not wait for them. */
  fallback_due: number;
  /** A machine on which a start failed, and until when it is the last choice. */
  avoid_machine_id?: string | null;
  avoid_until?: number;
};

/** What waits after an id, up to another one. */
export type WaitingRange = { now: number; after: string; upto: string };

/**
 * A page of what may be placed now, by id, and which version of it: out of an index alone, so that
 * ten thousand are looked through in a moment.
 */
export const listWaiting: Query<
  WaitingRange & { limit: number },
  (Row & { id: string; revision: number })[]
> = (sql, { now, after, upto, limit }) =>
  sql.all(
    `select id, revision from workloads
     where state in ('pending', 'queued') and id > $2 and id <= $5
       and (not_before <= $1 or not_before > $4)
     order by id limit $3`,
    [now, after, limit, now + back_off_limit_ms, upto],
  );

/**
 * The ids of a range, each with its revision behind it, in one text: a fifth of what the rows cost.
 * Equal texts are equal ranges, for ids are equally long; the order is the index's, and where an
 * engine takes another way only a range is looked at that did not change.
 */
export const waitingText: Query<WaitingRange, string> = async (sql, { now, after, upto }) => {
  const row = await sql.get<Row & { first: string | null; rest: string | null }>(
    `select min(id) as first, string_agg(cast(revision as text), id) as rest from workloads
     where state in ('pending', 'queued') and id > $2 and id <= $4
       and (not_before <= $1 or not_before > $3)`,
    [now, after, now + back_off_limit_ms, upto],
  );
  return `${row?.first ?? ''}${row?.rest ?? ''}`;
};

/** Some of what waits, in full. The limit changes nothing: what is known to be few is read at once. */
export const readWaiting: Query<{ ids: string[] }, WaitingRow[]> = async (sql, args) =>
  args.ids.length === 0
    ? []
    : sql.all(
        `select id, tenant_id, creator_id, state, case when ask = '' then spec else ask end as ask,
           code, revision, created_at, state_since, fallback, fallback_due,
           avoid_machine_id, avoid_until from workloads
         where state in ('pending', 'queued') and id ${sql.in(args.ids, 1)}
         limit $${args.ids.length + 1}`,
        [...args.ids, args.ids.length],
      );

/**
 * When the next workload or replica that backs off may be decided, or null. What is further away
 * than any back-off lasts was reckoned before the wall clock stepped back: it waits no longer.
 */
export const nextAttempt: Query<{ now: number }, number | null> = async (sql, args) => {
  const row = await sql.get<Row & { at: number | null }>(
    `select min(soon.at) as at from
       (select min(not_before) as at from workloads
          where state in ('pending', 'queued') and not_before > $1 and not_before <= $2
        union all select min(not_before) as at from replicas
          where state = 'waiting' and not_before > $1 and not_before <= $2) soon`,
    [args.now, args.now + back_off_limit_ms],
  );
  return row?.at ?? null;
};

/**
 * A text that is another one whenever something that admission looks at was added, moved or taken
 * away: what waits, what is held, what machines offer, what the catalog says. A row for each: to
 * join them takes longer than to read them, and to look for the last takes longer than an index
 * has it.
 */
export const queueFingerprint: Query<{ now: number }, string> = async (sql, args) => {
  const facts = await sql.all<Row & { part: number }>(
    `select 1 as part, count(*) as many,
         (select id from workloads where state in ('pending', 'queued')
          order by id desc limit 1) as last,
         cast(coalesce(sum(revision), 0) as bigint) as one,
         count(*) filter (where not_before > $1 and not_before <= $2) as other
       from workloads where state in ('pending', 'queued')
     union all select 2, count(*), null,
         cast(coalesce(sum(inventory_revision), 0) as bigint),
         cast(coalesce(sum(generation), 0) as bigint) from machines
     union all select 3, count(*), null, 0, 0 from holds where released_at is null
     union all select 4, count(*), null, cast(coalesce(sum(revision), 0) as bigint), 0
       from replicas where state = 'waiting' and (not_before <= $1 or not_before > $2)
     union all select 5, 0, max(value), 0, 0 from meta where key = 'catalog_revision'
     limit 5`,
    [args.now, args.now + back_off_limit_ms],
  );
  return JSON.stringify(facts.toSorted((a, b) => a.part - b.part));
};
