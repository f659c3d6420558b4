/**
 * Users: found, listed, disabled, given roles.
 *
 * Invariants: nobody changes a user whose role is above their own, nor gives such a role; there is
 * always an operator who can sign in (ADR-0028); who may see a user is decided by `tenant_id`: a
 * user outside of it is not found. What ended for a user ends for each proof of theirs.
 */
import { hasRole, type Role } from '../core/roles.ts';
import { type Action, recordAction } from './activity.ts';
import type { Query, Row, Sql } from './sql.ts';
import { parkAllOf } from './trust-park.ts';

export type UserRow = Row & {
  id: string;
  name: string;
  role: Role;
  tenant_id: string;
  tenant: string;
  has_password: number;
  created_at: number;
  disabled_at: number | null;
  session_used_at: number | null;
  token_used_at: number | null;
};

const columns = `u.id, u.name, u.role, u.tenant_id, t.slug as tenant, u.created_at, u.disabled_at,
  case when u.password is null then 0 else 1 end as has_password,
  (select max(s.last_used_at) from sessions s where s.user_id = u.id) as session_used_at,
  (select max(k.last_used_at) from tokens k where k.user_id = u.id) as token_used_at`;
const joined = 'from users u join tenants t on t.id = u.tenant_id';

/** `tenant_id`: only of this tenant; null for all. */
export type Within = { tenant_id: string | null };

/** By id or name. */
export const findUser: Query<Within & { user: string }, UserRow | undefined> = (sql, args) =>
  sql.get<UserRow>(
    `select ${columns} ${joined} where (u.id = $1 or u.name = $1)
       and (cast($2 as text) is null or u.tenant_id = $2)`,
    [args.user, args.tenant_id],
  );

/** Newest first, those before an id. */
export const listUsers: Query<Within & { before: string | null; limit: number }, UserRow[]> = (
  sql,
  args,
) =>
  sql.all<UserRow>(
    `select ${columns} ${joined} where (cast($1 as text) is null or u.tenant_id = $1)
       and (cast($2 as text) is null or u.id < $2) order by u.id desc limit $3`,
    [args.tenant_id, args.before, args.limit],
  );

export type UserChange = Within & {
  user: string;
  /** The role of who asks: nothing above it is touched. */
  most: Role;
  now: number;
  /** The same instant, for the ledger of what is stopped with it. */
  mono?: number;
  action?: Action;
};
export type UserChangeResult =
  | { ok: true; row: UserRow; changed: number }
  | { ok: false; code: 'not_found' }
  | { ok: false; code: 'role_too_high'; needed: Role }
  | { ok: false; code: 'last_operator'; name: string };

/**
 * Nothing of theirs opens anything from now on; their sessions do not come back, and what they made
 * is stopped.
 */
export async function disableUser(sql: Sql, args: UserChange): Promise<UserChangeResult> {
  const found = await lockUser(sql, args);
  if (!found.ok) return found;
  const { row } = found;
  if (row.disabled_at !== null) return { ok: true, row, changed: 0 };
  if (await isLastOperator(sql, row.id))
    return { ok: false, code: 'last_operator', name: row.name };
  await sql.run('update users set disabled_at = $2 where id = $1', [row.id, args.now]);
  await endSignIns(sql, row.id, args.now);
  const parked = await parkAllOf(sql, { creator_id: row.id }, args);
  await recordAction(sql, args.action, { target: `user:${row.id}`, details: { parked } });
  return { ok: true, row: { ...row, disabled_at: args.now }, changed: 1 };
}

export async function enableUser(sql: Sql, args: UserChange): Promise<UserChangeResult> {
  const found = await lockUser(sql, args);
  if (!found.ok) return found;
  const { row } = found;
  if (row.disabled_at === null) return { ok: true, row, changed: 0 };
  await sql.run('update users set disabled_at = null where id = $1', [row.id]);
  await recordAction(sql, args.action, { target: `user:${row.id}` });
  return { ok: true, row: { ...row, disabled_at: null }, changed: 1 };
}

/** A new role ends the user's sessions: the next sign-in has an id of its own. */
export async function setUserRole(
  sql: Sql,
  args: UserChange & { role: Role },
): Promise<UserChangeResult> {
  const found = await lockUser(sql, args);
  if (!found.ok) return found;
  const { row } = found;
  if (!hasRole(args.most, args.role)) {
    return { ok: false, code: 'role_too_high', needed: args.role };
  }
  if (row.role === args.role) return { ok: true, row, changed: 0 };
  if (await isLastOperator(sql, row.id))
    return { ok: false, code: 'last_operator', name: row.name };
  await sql.run('update users set role = $2 where id = $1', [row.id, args.role]);
  await endSignIns(sql, row.id, args.now);
  const details = { from: row.role, to: args.role };
  await recordAction(sql, args.action, { target: `user:${row.id}`, details });
  return { ok: true, row: { ...row, role: args.role }, changed: 1 };
}

/** Makes a link by which this user sets a password, once. Links made before it are void. */
export async function addResetLink(
  sql: Sql,
  args: UserChange & { maker_id: string; hash: string; expires_at: number },
): Promise<UserChangeResult> {
  const found = await lockUser(sql, args);
  if (!found.ok) return found;
  const { row } = found;
  await sql.run("delete from sign_in_links where user_id = $1 and purpose = 'reset'", [row.id]);
  await sql.run(
    `insert into sign_in_links (hash, user_id, created_at, expires_at, purpose, maker_id)
     values ($1, $2, $3, $4, 'reset', $5)`,
    [args.hash, row.id, args.now, args.expires_at, args.maker_id],
  );
  await recordAction(sql, args.action, { target: `user:${row.id}` });
  return { ok: true, row, changed: 1 };
}

/** Voids the links and sessions of a user, but the one session that is kept; ids of the ended. */
export async function endSignIns(
  sql: Sql,
  user_id: string,
  now: number,
  kept: string | null = null,
): Promise<string[]> {
  await sql.run('delete from sign_in_links where user_id = $1', [user_id]);
  const ended = await sql.all<Row & { id: string }>(
    `update sessions set revoked_at = $2
     where user_id = $1 and revoked_at is null and expires_at > $2 and id <> $3 returning id`,
    [user_id, now, kept ?? ''],
  );
  return ended.map(({ id }) => id);
}

/** May somebody of this role and tenant administer a user of that role and tenant? */
export function mayAdminister(
  who: { role: Role; tenant_id: string },
  whom: { role: Role; tenant_id: string },
): boolean {
  const needed = who.tenant_id === whom.tenant_id ? 'tenant-admin' : 'operator';
  return hasRole(who.role, needed) && hasRole(who.role, whom.role);
}

type Locked = { ok: true; row: UserRow } | Exclude<UserChangeResult, { ok: true }>;

/** The user to change, if it is there for who asks, and not above them. */
async function lockUser(sql: Sql, args: UserChange): Promise<Locked> {
  const row = await findUser(sql, args);
  if (row === undefined) return { ok: false, code: 'not_found' };
  const locked = await sql.get<Row & { role: Role; disabled_at: number | null }>(
    `select role, disabled_at from users where id = $1 ${sql.forUpdate}`,
    [row.id],
  );
  if (locked === undefined) return { ok: false, code: 'not_found' };
  if (!hasRole(args.most, locked.role)) {
    return { ok: false, code: 'role_too_high', needed: locked.role };
  }
  return { ok: true, row: { ...row, ...locked } };
}

/** Would there be no operator who can sign in, without this user? Locks all of them. */
async function isLastOperator(sql: Sql, user_id: string): Promise<boolean> {
  const all = await sql.all<Row & { id: string; disabled_at: number | null; tenant_id: string }>(
    `select id, disabled_at, tenant_id from users where role = 'operator' order by id
     ${sql.forUpdate}`,
  );
  const closed = await sql.all<Row & { id: string }>(
    'select id from tenants where disabled_at is not null',
  );
  const active = all.filter(
    (one) => one.disabled_at === null && !closed.some(({ id }) => id === one.tenant_id),
  );
  return active.length === 1 && active[0]?.id === user_id;
}
