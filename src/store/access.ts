/**
 * Access to the sites of workloads: tickets, the access sessions they become, and what a session
 * leads to now.
 *
 * Invariants: only hashes are stored; a ticket becomes a session at most once, by one conditional
 * UPDATE, and only while its proof works and its run is the workload's running one; a session is of
 * one host, one workload and one run, and is no proof by itself: the session or token that it comes
 * from must still work (ADR-0044).
 */
import { limits } from '../contract/limits.ts';
import type { Kind } from '../core/workload.ts';
import { type Action, recordAction } from './activity.ts';
import type { Query, Row, Sql } from './sql.ts';

export type NewTicket = {
  hash: string;
  workload_id: string;
  run_epoch: number;
  host: string;
  user_id: string;
  proof_id: string;
  now: number;
  expires_at: number;
  action?: Action;
};

/** `ok` is 0 where the user has asked for too many of late. */
export async function addAccessTicket(sql: Sql, args: NewTicket): Promise<{ ok: number }> {
  await sql.run('delete from access_tickets where expires_at < $1', [args.now]);
  await sql.get(`select id from users where id = $1 ${sql.forUpdate}`, [args.user_id]);
  const recent = await sql.get<Row & { count: number }>(
    `select cast(count(*) as bigint) as count from access_tickets
     where user_id = $1 and created_at > $2`,
    [args.user_id, args.now - limits.access_ticket_ms],
  );
  if ((recent?.count ?? 0) >= limits.access_tickets_per_minute) return { ok: 0 };
  await sql.run(
    `insert into access_tickets (hash, workload_id, run_epoch, host, user_id, proof_id, created_at,
       expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      ...[args.hash, args.workload_id, args.run_epoch, args.host],
      ...[args.user_id, args.proof_id, args.now, args.expires_at],
    ],
  );
  await recordAction(sql, args.action, { target: `workload:${args.workload_id}` });
  return { ok: 1 };
}

/**
 * The session or token that access comes from still works, and its user may still open workloads.
 * `now` and `idle` are the numbers of parameters.
 */
const isProven = (table: string, now: string, idle: string) => `(
  exists (select 1 from sessions p join users u on u.id = p.user_id and u.disabled_at is null
    join tenants t on t.id = u.tenant_id and t.disabled_at is null
    where p.id = ${table}.proof_id and p.user_id = ${table}.user_id and p.revoked_at is null
      and u.role <> 'viewer' and p.expires_at > ${now} and p.last_used_at > ${idle})
  or exists (select 1 from tokens p join users u on u.id = p.user_id and u.disabled_at is null
    join tenants t on t.id = u.tenant_id and t.disabled_at is null
    where p.id = ${table}.proof_id and p.user_id = ${table}.user_id and p.revoked_at is null
      and u.role <> 'viewer' and (p.role is null or p.role <> 'viewer')
      and (p.expires_at is null or p.expires_at > ${now})))`;

export type RedeemArgs = {
  hash: string;
  host: string;
  session_id: string;
  session_hash: string;
  now: number;
  /** Sessions that were not used since are over. */
  idle_before: number;
  expires_at: number;
};

/** Exchanges a ticket for an access session of its host; null where it opens nothing. */
export async function redeemAccessTicket(
  sql: Sql,
  args: RedeemArgs,
): Promise<{ workload_id: string } | null> {
  const ticket = await sql.get<
    Row & { workload_id: string; run_epoch: number; user_id: string; proof_id: string }
  >(
    `update access_tickets set used_at = $2
     where hash = $1 and used_at is null and expires_at > $2 and host = $3
       and exists (select 1 from workloads w where w.id = access_tickets.workload_id
         and w.state = 'running' and w.run_epoch = access_tickets.run_epoch)
       and ${isProven('access_tickets', '$2', '$4')}
     returning workload_id, run_epoch, user_id, proof_id`,
    [args.hash, args.now, args.host, args.idle_before],
  );
  if (ticket === undefined) return null;
  const { workload_id, run_epoch, user_id, proof_id } = ticket;
  await sql.run('delete from access_sessions where expires_at < $1', [args.now]);
  await sql.run(
    `delete from access_sessions where id in (select id from access_sessions where user_id = $1
       order by created_at desc, id desc limit 1000 offset $2)`,
    [user_id, limits.access_sessions_per_user - 1],
  );
  await sql.run(
    `insert into access_sessions (id, hash, workload_id, run_epoch, host, user_id, proof_id,
       created_at, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      ...[args.session_id, args.session_hash, workload_id, run_epoch, args.host],
      ...[user_id, proof_id, args.now, args.expires_at],
    ],
  );
  return { workload_id };
}

/**
 * Lets an access session follow its workload to the run that runs now: what a page that waited for
 * a start asks for. `ok` is 0 where nothing of it works any more.
 */
export async function renewAccessSession(
  sql: Sql,
  args: { hash: string; host: string; run_epoch: number; now: number; idle_before: number },
): Promise<{ ok: number }> {
  const ok = await sql.run(
    `update access_sessions set run_epoch = $4
     where hash = $1 and host = $3 and expires_at > $2 and run_epoch <= $4
       and exists (select 1 from workloads w where w.id = access_sessions.workload_id
         and w.state = 'running' and w.run_epoch = $4)
       and ${isProven('access_sessions', '$2', '$5')}`,
    [args.hash, args.now, args.host, args.run_epoch, args.idle_before],
  );
  return { ok };
}

/** Is there such a ticket at all? Asked before a write is spent on what a stranger sent. */
export const isTicketKnown: Query<{ hash: string }, boolean> = async (sql, { hash }) =>
  (await sql.get('select hash from access_tickets where hash = $1', [hash])) !== undefined;

export type AccessRow = Row & {
  id: string;
  workload_id: string;
  /** Of the run it was given for. */
  run_epoch: number;
  user_id: string;
  tenant_id: string;
  proof_id: string;
  expires_at: number;
  name: string;
  kind: Kind;
  state: string;
  /** Of the run that runs now; all null where none does. */
  replica: number | null;
  current_epoch: number | null;
  machine_id: string | null;
};

/** An access session of this host that its parent still proves, with where its workload is. */
export const findAccess: Query<
  { hash: string; host: string; now: number; idle_before: number },
  AccessRow | undefined
> = (sql, args) =>
  sql.get<AccessRow>(
    `select a.id, a.workload_id, a.run_epoch, a.user_id, w.tenant_id, a.proof_id, a.expires_at,
       w.name, w.kind, w.state, r.replica, r.run_epoch as current_epoch, r.machine_id
     from access_sessions a
       join workloads w on w.id = a.workload_id
       join users x on x.id = a.user_id and x.tenant_id = w.tenant_id
       left join runs r on r.workload_id = w.id and r.run_epoch = w.run_epoch
         and r.ended_at is null and r.ready_at is not null and w.state = 'running'
     where a.hash = $1 and a.expires_at > $2 and a.host = $3
       and ${isProven('a', '$2', '$4')}`,
    [args.hash, args.now, args.host, args.idle_before],
  );

export type RunNow = Row & { id: string; state: string; run_epoch: number };

/** What some workloads are at now, for each of their replicas. At most 250 ids at a time. */
export const runsNow: Query<{ ids: string[] }, RunNow[]> = async (sql, { ids }) =>
  ids.length === 0
    ? []
    : sql.all<RunNow>(
        `select w.id, w.state, r.run_epoch from workloads w
           join runs r on r.workload_id = w.id and r.superseded_at is null
         where w.id ${sql.in(ids, 1)}`,
        ids,
      );
