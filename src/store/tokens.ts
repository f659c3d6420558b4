/**
 * API tokens of users: made, listed, revoked.
 *
 * Invariants: only the hash and the last four characters are stored; a token is its user's own; how
 * far it reaches is decided before it comes here (core/scopes.ts).
 */
import type { Role } from '../core/roles.ts';
import { type Action, type Attempt, actionBy, recordAction } from './activity.ts';
import { type IdempotencyKey, type Idempotent, once } from './idempotency.ts';
import { isStillProven, type Proven } from './passwords.ts';
import type { Query, Row, Sql } from './sql.ts';

export type TokenRow = Row & {
  id: string;
  user_id: string;
  user_name: string;
  user_role: Role;
  name: string;
  role: Role | null;
  scopes: string | null;
  last_four: string;
  created_at: number;
  last_used_at: number | null;
  expires_at: number | null;
  revoked_at: number | null;
};

const columns = `k.id, k.user_id, u.name as user_name, u.role as user_role, k.name, k.role,
  k.scopes, k.last_four, k.created_at, k.last_used_at, k.expires_at, k.revoked_at`;
const joined = 'from tokens k join users u on u.id = k.user_id';

export const listTokens: Query<
  { user_id: string; before: string | null; limit: number },
  TokenRow[]
> = (sql, args) =>
  sql.all<TokenRow>(
    `select ${columns} ${joined} where k.user_id = $1
       and (cast($2 as text) is null or k.id < $2) order by k.id desc limit $3`,
    [args.user_id, args.before, args.limit],
  );

export const findToken: Query<{ id: string }, TokenRow | undefined> = (sql, args) =>
  sql.get<TokenRow>(`select ${columns} ${joined} where k.id = $1`, [args.id]);

export type CreateTokenArgs = {
  id: string;
  user_id: string;
  name: string;
  role: Role;
  scopes: string | null;
  hash: string;
  last_four: string;
  now: number;
  expires_at: number | null;
  /** Working tokens that a user may have. */
  most: number;
};
export type CreateTokenResult = { ok: true; row: TokenRow } | { ok: false; code: 'limit_reached' };

export function createToken(
  sql: Sql,
  args: CreateTokenArgs & { idempotency: IdempotencyKey; action?: Action },
): Promise<Idempotent<CreateTokenResult>> {
  return once(sql, args.idempotency, args.now, async () => {
    const made = await insertToken(sql, args);
    if (made.ok) await recordAction(sql, args.action, recordOf(args));
    return made;
  });
}

/** The token of a command line that signed in by a password. */
export async function logIn(
  sql: Sql,
  args: CreateTokenArgs & Proven & { attempt?: Attempt },
): Promise<CreateTokenResult | { ok: false; code: 'sign_in_wrong' }> {
  if (!(await isStillProven(sql, args))) return { ok: false, code: 'sign_in_wrong' };
  const made = await insertToken(sql, args);
  const action = actionBy(args.attempt, { ...args, proof_id: args.id });
  if (made.ok) await recordAction(sql, action, recordOf(args));
  return made;
}

/** `found` is 1 where the user has such a token, revoked before or not. */
export async function revokeToken(
  sql: Sql,
  args: { id: string; user_id: string; now: number; action?: Action },
): Promise<{ found: number }> {
  const changed = await sql.run(
    'update tokens set revoked_at = $3 where id = $1 and user_id = $2 and revoked_at is null',
    [args.id, args.user_id, args.now],
  );
  if (changed > 0) {
    await recordAction(sql, args.action, { target: `token:${args.id}` });
    return { found: 1 };
  }
  const known = await sql.get('select id from tokens where id = $1 and user_id = $2', [
    args.id,
    args.user_id,
  ]);
  return { found: known === undefined ? 0 : 1 };
}

async function insertToken(sql: Sql, args: CreateTokenArgs): Promise<CreateTokenResult> {
  await sql.get(`select id from users where id = $1 ${sql.forUpdate}`, [args.user_id]);
  const working = await sql.get<Row & { count: number }>(
    `select cast(count(*) as bigint) as count from tokens
     where user_id = $1 and revoked_at is null and (expires_at is null or expires_at > $2)`,
    [args.user_id, args.now],
  );
  if ((working?.count ?? 0) >= args.most) return { ok: false, code: 'limit_reached' };
  await sql.run(
    `insert into tokens (id, user_id, name, hash, last_four, created_at, expires_at, role, scopes)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      args.id,
      args.user_id,
      args.name,
      args.hash,
      args.last_four,
      args.now,
      args.expires_at,
      args.role,
      args.scopes,
    ],
  );
  const row = await findToken(sql, { id: args.id });
  if (row === undefined) throw new Error('the inserted token did not come back');
  return { ok: true, row };
}

function recordOf(args: CreateTokenArgs) {
  const { id, role, scopes, last_four } = args;
  return { target: `token:${id}`, details: { role, scopes, last_four } };
}
