/**
 * Accounts: tenants, users, and the ways they prove themselves (sessions, API tokens, one-time
 * links).
 *
 * Invariants: only hashes are stored; a one-time link is used by one conditional UPDATE, so
 * sixty-four browsers at once give one session; a revoked, expired or disabled proof finds nobody.
 */
import { limits } from '../contract/limits.ts';
import type { Role } from '../core/roles.ts';
import { type Action, type Attempt, actionBy, recordAction } from './activity.ts';
import { insertSession } from './sessions.ts';
import type { Query, Row, Sql } from './sql.ts';

export type PrincipalRow = Row & {
  user_id: string;
  user_name: string;
  role: Role;
  tenant_id: string;
  tenant_slug: string;
  proof_id: string;
  /** Of a token: at most this role; null for whatever the user has. */
  proof_role: Role | null;
  /** Of a token: scopes with spaces between; null where nothing is taken away. */
  scopes: string | null;
  expires_at: number | null;
  last_used_at: number;
};

export type SetUpArgs = {
  tenant_id: string;
  user_id: string;
  user_name: string;
  store_uuid: string;
  now: number;
};

/**
 * The first start of a deployment: its identity, one tenant, one operator. Later starts change
 * nothing.
 */
export async function setUp(sql: Sql, args: SetUpArgs): Promise<{ first: number }> {
  const known = await sql.get("select value from meta where key = 'store_uuid'");
  if (known !== undefined) return { first: 0 };
  await sql.run("insert into meta (key, value) values ('store_uuid', $1), ('store_epoch', '1')", [
    args.store_uuid,
  ]);
  await sql.run('insert into tenants (id, slug, name, created_at) values ($1, $2, $3, $4)', [
    args.tenant_id,
    'local',
    'local',
    args.now,
  ]);
  await sql.run(
    `insert into users (id, tenant_id, name, role, created_at)
     values ($1, $2, $3, 'operator', $4)`,
    [args.user_id, args.tenant_id, args.user_name, args.now],
  );
  return { first: 1 };
}

export const readIdentity: Query<
  Record<string, never>,
  { store_uuid: string; store_epoch: number; tenant_id: string; user_id: string; user_name: string }
> = async (sql) => {
  const meta = await sql.all<{ key: string; value: string }>('select key, value from meta');
  const value = (key: string) => meta.find((row) => row.key === key)?.value ?? '';
  const user = await sql.get<Row & { id: string; tenant_id: string; name: string }>(
    `select u.id, u.tenant_id, u.name from users u join tenants t on t.id = u.tenant_id
     where u.role = 'operator' and u.disabled_at is null and t.disabled_at is null
     order by u.created_at, u.id limit 1`,
  );
  return {
    store_uuid: value('store_uuid'),
    store_epoch: Number(value('store_epoch')),
    tenant_id: user?.tenant_id ?? '',
    user_id: user?.id ?? '',
    user_name: user?.name ?? '',
  };
};

export type TokenArgs = {
  id: string;
  user_id: string;
  name: string;
  hash: string;
  last_four: string;
  now: number;
};

/** The local owner's token: a new one at each start; the ones before it are revoked. */
export async function replaceOwnerToken(sql: Sql, args: TokenArgs): Promise<null> {
  await sql.run(
    'update tokens set revoked_at = $1 where user_id = $2 and name = $3 and revoked_at is null',
    [args.now, args.user_id, args.name],
  );
  await sql.run(
    `insert into tokens (id, user_id, name, hash, last_four, created_at)
     values ($1, $2, $3, $4, $5, $6)`,
    [args.id, args.user_id, args.name, args.hash, args.last_four, args.now],
  );
  return null;
}

export async function addSignInLink(
  sql: Sql,
  args: {
    hash: string;
    user_id: string;
    now: number;
    expires_at: number;
    /** A session that it opens ends then at the latest: a proof makes none that outlives it. */
    session_until?: number | null;
    action?: Action;
  },
): Promise<null> {
  await sql.run('delete from sign_in_links where expires_at < $1', [args.now]);
  await sql.run(
    `insert into sign_in_links (hash, user_id, created_at, expires_at, session_until)
     values ($1, $2, $3, $4, $5)`,
    [args.hash, args.user_id, args.now, args.expires_at, args.session_until ?? null],
  );
  await recordAction(sql, args.action, { target: `user:${args.user_id}` });
  return null;
}

export type SessionArgs = {
  link_hash: string;
  session_id: string;
  session_hash: string;
  now: number;
  expires_at: number;
  /** What the browser calls itself. */
  client?: string;
  attempt?: Attempt;
};

/** Exchanges a one-time link for a session; null where it was used, is too old or never was. */
export async function openSession(
  sql: Sql,
  args: SessionArgs,
): Promise<{ user_id: string } | null> {
  const link = await sql.get<Row & { user_id: string; session_until: number | null }>(
    `update sign_in_links set used_at = $2
     where hash = $1 and purpose = 'sign-in' and used_at is null and expires_at > $2
     returning user_id, session_until`,
    [args.link_hash, args.now],
  );
  if (link === undefined) return null;
  const { user_id, session_until } = link;
  await insertSession(sql, {
    ...{ id: args.session_id, user_id, hash: args.session_hash, now: args.now },
    ...{ client: args.client ?? '', signed_in_by: 'link', most: limits.sessions_per_user },
    expires_at: Math.min(args.expires_at, session_until ?? args.expires_at),
  });
  const user = await sql.get<Row & { tenant_id: string; name: string }>(
    'select tenant_id, name from users where id = $1',
    [user_id],
  );
  if (user === undefined) throw new Error('the link is of nobody');
  const who = { ...user, user_id, user_name: user.name, proof_id: args.session_id };
  const target = `session:${args.session_id}`;
  await recordAction(sql, actionBy(args.attempt, who), { target });
  return { user_id };
}

export async function touchSession(sql: Sql, args: { id: string; now: number }): Promise<null> {
  await sql.run('update sessions set last_used_at = $2 where id = $1 and last_used_at < $2', [
    args.id,
    args.now,
  ]);
  return null;
}

/** Marks a token as used; it never counts backwards. */
export async function touchToken(sql: Sql, args: { id: string; now: number }): Promise<null> {
  await sql.run(
    'update tokens set last_used_at = $2 where id = $1 and coalesce(last_used_at, 0) < $2',
    [args.id, args.now],
  );
  return null;
}

export async function closeSession(
  sql: Sql,
  args: { id: string; now: number; action?: Action },
): Promise<null> {
  const closed = await sql.run(
    'update sessions set revoked_at = $2 where id = $1 and revoked_at is null',
    [args.id, args.now],
  );
  if (closed > 0) await recordAction(sql, args.action, { target: `session:${args.id}` });
  return null;
}

const principalColumns = `u.id as user_id, u.name as user_name, u.role, u.tenant_id,
  t.slug as tenant_slug, p.id as proof_id, p.expires_at`;
const principalJoins = `join users u on u.id = p.user_id and u.disabled_at is null
  join tenants t on t.id = u.tenant_id and t.disabled_at is null`;

/** Whose API token this is, by its hash. */
export const principalOfToken: Query<{ hash: string; now: number }, PrincipalRow | undefined> = (
  sql,
  args,
) =>
  sql.get<PrincipalRow>(
    `select ${principalColumns}, p.role as proof_role, p.scopes,
       coalesce(p.last_used_at, 0) as last_used_at from tokens p ${principalJoins}
     where p.hash = $1 and p.revoked_at is null and (p.expires_at is null or p.expires_at > $2)`,
    [args.hash, args.now],
  );

/** Whose session this is, by its hash. `idle_before`: sessions not used since are over. */
export const principalOfSession: Query<
  { hash: string; now: number; idle_before: number },
  PrincipalRow | undefined
> = (sql, args) =>
  sql.get<PrincipalRow>(
    `select ${principalColumns}, null as proof_role, null as scopes, p.last_used_at
     from sessions p ${principalJoins}
     where p.hash = $1 and p.revoked_at is null and p.expires_at > $2 and p.last_used_at > $3`,
    [args.hash, args.now, args.idle_before],
  );

/** Which of these sessions and tokens still work. At most 250 ids at a time. */
export const workingProofs: Query<
  { ids: string[]; now: number; idle_before: number },
  { id: string }[]
> = (sql, { ids, now, idle_before }) =>
  sql.all(
    `select p.id from tokens p ${principalJoins}
     where p.id ${sql.in(ids, 3)} and p.revoked_at is null
       and (p.expires_at is null or p.expires_at > $1)
     union all
     select p.id from sessions p ${principalJoins}
     where p.id ${sql.in(ids, 3)} and p.revoked_at is null and p.expires_at > $1
       and p.last_used_at > $2`,
    [now, idle_before, ...ids],
  );

/** Names of users by id, for showing who did what. */
export const userNames: Query<{ ids: string[] }, { id: string; name: string }[]> = async (
  sql,
  args,
) =>
  args.ids.length === 0
    ? []
    : sql.all(`select id, name from users where id ${sql.in(args.ids, 1)}`, args.ids);
