/**
 * Passwords of users, as the PHC strings that they are stored as.
 *
 * Invariants: a new password ends every other sign-in of the user; a link that resets one is used
 * by one conditional UPDATE.
 */
import type { Role } from '../core/roles.ts';
import { type Action, type Attempt, actionBy, recordAction } from './activity.ts';
import type { Query, Row, Sql } from './sql.ts';
import { endSignIns, mayAdminister } from './users.ts';

export type CredentialsRow = Row & {
  user_id: string;
  user_name: string;
  tenant_id: string;
  tenant: string;
  role: Role;
  password: string | null;
};

const joined = `from users u join tenants t on t.id = u.tenant_id
  where u.disabled_at is null and t.disabled_at is null`;
const columns = `u.id as user_id, u.name as user_name, u.role, u.tenant_id, t.slug as tenant,
  u.password`;

/** What is needed to judge a password, by name; only of those who may sign in at all. */
export const findCredentials: Query<{ name: string }, CredentialsRow | undefined> = (sql, args) =>
  sql.get<CredentialsRow>(`select ${columns} ${joined} and u.name = $1`, [args.name]);

/** Who gave the right password: `password` is the stored string that it was checked against. */
export type Proven = { user_id: string; user_name: string; tenant_id: string; password: string };

/** Has nothing ended this user's password since it was checked? */
export async function isStillProven(sql: Sql, args: Proven): Promise<boolean> {
  const now = await findCredentials(sql, { name: args.user_name });
  return now?.user_id === args.user_id && now.password === args.password;
}

/** Whose password a reset link would set now; it is worth what its maker is worth by then. */
export const findResetLink: Query<
  { hash: string; now: number },
  CredentialsRow | undefined
> = async (sql, args) => {
  const link = await sql.get<Row & { user_id: string; role: Role; tenant_id: string }>(
    `select l.user_id, m.role, m.tenant_id from sign_in_links l
       join users m on m.id = l.maker_id and m.disabled_at is null
       join tenants mt on mt.id = m.tenant_id and mt.disabled_at is null
     where l.hash = $1 and l.purpose = 'reset' and l.used_at is null and l.expires_at > $2`,
    [args.hash, args.now],
  );
  if (link === undefined) return undefined;
  const text = `select ${columns} ${joined} and u.id = $1`;
  const user = await sql.get<CredentialsRow>(text, [link.user_id]);
  return user !== undefined && mayAdminister(link, user) ? user : undefined;
};

/** Sets a password; the links and the other sessions of the user end. Gives the ended ones' ids. */
export async function setPassword(
  sql: Sql,
  args: {
    user_id: string;
    password: string;
    kept_session: string | null;
    now: number;
    action?: Action;
  },
): Promise<{ ended: string[] }> {
  await sql.run('update users set password = $2 where id = $1', [args.user_id, args.password]);
  const ended = await endSignIns(sql, args.user_id, args.now, args.kept_session);
  await recordAction(sql, args.action, { target: `user:${args.user_id}` });
  return { ended };
}

/** Sets a password by a one-time link; null where that is used, too old or never was. */
export async function resetPassword(
  sql: Sql,
  args: { hash: string; password: string; now: number; attempt?: Attempt },
): Promise<{ user_id: string } | null> {
  const user = await findResetLink(sql, args);
  if (user === undefined) return null;
  const used = await sql.run(
    'update sign_in_links set used_at = $2 where hash = $1 and used_at is null',
    [args.hash, args.now],
  );
  if (used === 0) return null;
  const { user_id, tenant_id, user_name } = user;
  await sql.run('update users set password = $2 where id = $1', [user_id, args.password]);
  await endSignIns(sql, user_id, args.now);
  const action = actionBy(args.attempt, { tenant_id, user_id, user_name, proof_id: null });
  await recordAction(sql, action, { target: `user:${user_id}` });
  return { user_id };
}

/** The same password under newer parameters; nothing where it was changed meanwhile. */
export async function rehashPassword(
  sql: Sql,
  args: { user_id: string; from: string; to: string },
): Promise<null> {
  await sql.run('update users set password = $3 where id = $1 and password = $2', [
    args.user_id,
    args.from,
    args.to,
  ]);
  return null;
}
