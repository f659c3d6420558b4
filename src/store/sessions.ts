/**
 * Sessions of browsers: opened, listed, ended.
 *
 * Invariants: only the hash of a cookie is stored; every sign-in has a new id; a user has a bounded
 * number of them: the one not used for longest makes room.
 */
import { type Action, type Attempt, actionBy, recordAction } from './activity.ts';
import { isStillProven, type Proven } from './passwords.ts';
import type { Query, Row, Sql } from './sql.ts';
import { endSignIns } from './users.ts';

export type SessionRow = Row & {
  id: string;
  user_id: string;
  user_name: string;
  client: string;
  signed_in_by: 'link' | 'password';
  created_at: number;
  last_used_at: number;
  expires_at: number;
};

const columns = `s.id, s.user_id, u.name as user_name, s.client, s.signed_in_by, s.created_at,
  s.last_used_at, s.expires_at`;
const joined = 'from sessions s join users u on u.id = s.user_id';

/** Those of a user that work, newest first. */
export const listSessions: Query<
  { user_id: string; now: number; idle_before: number; before: string | null; limit: number },
  SessionRow[]
> = (sql, args) =>
  sql.all<SessionRow>(
    `select ${columns} ${joined}
     where s.user_id = $1 and s.revoked_at is null and s.expires_at > $2 and s.last_used_at > $3
       and (cast($4 as text) is null or s.id < $4) order by s.id desc limit $5`,
    [args.user_id, args.now, args.idle_before, args.before, args.limit],
  );

export const findSession: Query<{ id: string }, SessionRow | undefined> = (sql, args) =>
  sql.get<SessionRow>(`select ${columns} ${joined} where s.id = $1`, [args.id]);

export type NewSession = {
  id: string;
  user_id: string;
  hash: string;
  client: string;
  signed_in_by: 'link' | 'password';
  now: number;
  expires_at: number;
  /** Sessions that a user may have. */
  most: number;
};

/** A session for who gave name and password; `ok` is 0 where the password was changed meanwhile. */
export async function signInByPassword(
  sql: Sql,
  args: NewSession & Proven & { attempt?: Attempt },
): Promise<{ ok: number }> {
  if (!(await isStillProven(sql, args))) return { ok: 0 };
  await insertSession(sql, args);
  const action = actionBy(args.attempt, { ...args, proof_id: args.id });
  await recordAction(sql, action, { target: `session:${args.id}` });
  return { ok: 1 };
}

export async function insertSession(sql: Sql, args: NewSession): Promise<void> {
  await sql.run('delete from sessions where expires_at < $1', [args.now]);
  await sql.run(
    `delete from sessions where id in (select id from sessions where user_id = $1
       order by last_used_at desc, id desc limit 1000 offset $2)`,
    [args.user_id, args.most - 1],
  );
  await sql.run(
    `insert into sessions (id, user_id, hash, created_at, last_used_at, expires_at, client,
       signed_in_by)
     values ($1, $2, $3, $4, $4, $5, $6, $7)`,
    [args.id, args.user_id, args.hash, args.now, args.expires_at, args.client, args.signed_in_by],
  );
}

/** `found` is 1 where the user has such a session, ended before or not. */
export async function revokeSession(
  sql: Sql,
  args: { id: string; user_id: string; now: number; action?: Action },
): Promise<{ found: number }> {
  const changed = await sql.run(
    'update sessions set revoked_at = $3 where id = $1 and user_id = $2 and revoked_at is null',
    [args.id, args.user_id, args.now],
  );
  if (changed > 0) {
    await recordAction(sql, args.action, { target: `session:${args.id}` });
    return { found: 1 };
  }
  const known = await sql.get('select id from sessions where id = $1 and user_id = $2', [
    args.id,
    args.user_id,
  ]);
  return { found: known === undefined ? 0 : 1 };
}

/** Ends all sessions of a user but one, and the unused links; gives the ids of what it ended. */
export async function revokeSessions(
  sql: Sql,
  args: { user_id: string; kept: string | null; now: number; action?: Action },
): Promise<{ ids: string[] }> {
  const ids = await endSignIns(sql, args.user_id, args.now, args.kept);
  if (ids.length > 0) {
    const details = { sessions: ids.length };
    await recordAction(sql, args.action, { target: `user:${args.user_id}`, details });
  }
  return { ids };
}
