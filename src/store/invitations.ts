/**
 * Invitations: a link that makes one user, of one tenant and role, once.
 *
 * Invariants: only the hash of a link is stored; it is redeemed by one conditional UPDATE, so
 * sixty-four redemptions at once make one user; it is worth what its inviter is worth by then:
 * nothing that they could not give any more.
 */
import type { Role } from '../core/roles.ts';
import { type Action, type Attempt, actionBy, recordAction } from './activity.ts';
import { type IdempotencyKey, type Idempotent, once } from './idempotency.ts';
import type { Query, Row, Sql } from './sql.ts';
import { findTenant } from './tenants.ts';
import { findUser, mayAdminister, type UserRow, type Within } from './users.ts';

export type InvitationRow = Row & {
  id: string;
  tenant_id: string;
  tenant: string;
  role: Role;
  invited_by: string;
  used_by: string | null;
  created_at: number;
  expires_at: number;
  used_at: number | null;
  revoked_at: number | null;
};

const columns = `i.id, i.tenant_id, t.slug as tenant, i.role, b.name as invited_by,
  u.name as used_by, i.created_at, i.expires_at, i.used_at, i.revoked_at`;
const joined = `from invitations i join tenants t on t.id = i.tenant_id
  join users b on b.id = i.inviter_id left join users u on u.id = i.used_by`;

export const listInvitations: Query<
  Within & { before: string | null; limit: number },
  InvitationRow[]
> = (sql, args) =>
  sql.all<InvitationRow>(
    `select ${columns} ${joined} where (cast($1 as text) is null or i.tenant_id = $1)
       and (cast($2 as text) is null or i.id < $2) order by i.id desc limit $3`,
    [args.tenant_id, args.before, args.limit],
  );

export type CreateInvitationArgs = {
  id: string;
  tenant_id: string;
  inviter_id: string;
  role: Role;
  hash: string;
  now: number;
  expires_at: number;
  /** Open invitations that a tenant may have. */
  most: number;
  idempotency: IdempotencyKey;
  action?: Action;
};
export type CreateInvitationResult =
  | { ok: true; row: InvitationRow }
  | { ok: false; code: 'limit_reached' }
  | { ok: false; code: 'tenant_disabled'; tenant: string };

export function createInvitation(
  sql: Sql,
  args: CreateInvitationArgs,
): Promise<Idempotent<CreateInvitationResult>> {
  return once(sql, args.idempotency, args.now, async (): Promise<CreateInvitationResult> => {
    await sql.get(`select id from tenants where id = $1 ${sql.forUpdate}`, [args.tenant_id]);
    const tenant = await findTenant(sql, { tenant: args.tenant_id });
    if (tenant === undefined) throw new Error('the tenant was found before');
    if (tenant.disabled_at !== null) {
      return { ok: false, code: 'tenant_disabled', tenant: tenant.slug };
    }
    const open = await sql.get<Row & { count: number }>(
      `select cast(count(*) as bigint) as count from invitations
       where tenant_id = $1 and used_at is null and revoked_at is null and expires_at > $2`,
      [args.tenant_id, args.now],
    );
    if ((open?.count ?? 0) >= args.most) return { ok: false, code: 'limit_reached' };
    await sql.run(
      `insert into invitations (id, tenant_id, role, hash, inviter_id, created_at, expires_at)
       values ($1, $2, $3, $4, $5, $6, $7)`,
      [args.id, args.tenant_id, args.role, args.hash, args.inviter_id, args.now, args.expires_at],
    );
    const details = { tenant: tenant.slug, role: args.role };
    await recordAction(sql, args.action, { target: `invitation:${args.id}`, details });
    const row = await sql.get<InvitationRow>(`select ${columns} ${joined} where i.id = $1`, [
      args.id,
    ]);
    if (row === undefined) throw new Error('the inserted invitation did not come back');
    return { ok: true, row };
  });
}

/** `found` is 1 where there is such an open invitation, or one that was revoked before. */
export async function revokeInvitation(
  sql: Sql,
  args: Within & { id: string; now: number; action?: Action },
): Promise<{ found: number }> {
  const within = '(cast($2 as text) is null or tenant_id = $2)';
  const changed = await sql.run(
    `update invitations set revoked_at = $3
     where id = $1 and ${within} and revoked_at is null and used_at is null`,
    [args.id, args.tenant_id, args.now],
  );
  if (changed > 0) {
    await recordAction(sql, args.action, { target: `invitation:${args.id}` });
    return { found: 1 };
  }
  const known = await sql.get(
    `select id from invitations where id = $1 and ${within} and used_at is null`,
    [args.id, args.tenant_id],
  );
  return { found: known === undefined ? 0 : 1 };
}

const redeemable = `select i.id, i.tenant_id, i.role, b.role as inviter_role,
    b.tenant_id as inviter_tenant_id
  from invitations i join tenants t on t.id = i.tenant_id and t.disabled_at is null
    join users b on b.id = i.inviter_id and b.disabled_at is null
    join tenants bt on bt.id = b.tenant_id and bt.disabled_at is null
  where i.hash = $1 and i.used_at is null and i.revoked_at is null and i.expires_at > $2`;
type Redeemable = Row & {
  id: string;
  tenant_id: string;
  role: Role;
  inviter_role: Role;
  inviter_tenant_id: string;
};

/** The invitation of a link, if it could be redeemed now: asked before anything expensive. */
export const findRedeemable: Query<{ hash: string; now: number }, Redeemable | undefined> = async (
  sql,
  args,
) => {
  const row = await sql.get<Redeemable>(redeemable, [args.hash, args.now]);
  if (row === undefined) return undefined;
  // Could its inviter still give it?
  const inviter = { role: row.inviter_role, tenant_id: row.inviter_tenant_id };
  return mayAdminister(inviter, row) ? row : undefined;
};

export type RedeemArgs = {
  hash: string;
  user_id: string;
  name: string;
  password: string;
  now: number;
  attempt?: Attempt;
};
export type RedeemResult =
  | { ok: true; row: UserRow }
  | { ok: false; code: 'invitation_spent' | 'user_name_taken' };

/** Makes the user. A name that is taken leaves the invitation as it was. */
export async function redeemInvitation(sql: Sql, args: RedeemArgs): Promise<RedeemResult> {
  const found = await findRedeemable(sql, args);
  if (found === undefined) return { ok: false, code: 'invitation_spent' };
  const made = await sql.run(
    `insert into users (id, tenant_id, name, role, created_at, password)
     values ($1, $2, $3, $4, $5, $6) on conflict (name) do nothing`,
    [args.user_id, found.tenant_id, args.name, found.role, args.now, args.password],
  );
  if (made === 0) return { ok: false, code: 'user_name_taken' };
  const used = await sql.run(
    `update invitations set used_at = $2, used_by = $3
     where id = $1 and used_at is null and revoked_at is null`,
    [found.id, args.now, args.user_id],
  );
  if (used === 0) {
    // Somebody else was first: this user has never been.
    await sql.run('delete from users where id = $1', [args.user_id]);
    return { ok: false, code: 'invitation_spent' };
  }
  const who = {
    tenant_id: found.tenant_id,
    user_id: args.user_id,
    user_name: args.name,
    proof_id: found.id,
  };
  const action = actionBy(args.attempt, who);
  await recordAction(sql, action, {
    target: `user:${args.user_id}`,
    details: { role: found.role },
  });
  const row = await findUser(sql, { user: args.user_id, tenant_id: found.tenant_id });
  if (row === undefined) throw new Error('the inserted user did not come back');
  return { ok: true, row };
}
