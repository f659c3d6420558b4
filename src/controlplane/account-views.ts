/**
 * Accounts as the API shows them: rows of the store, without what others may not see.
 */
import type { ApiToken, Invitation, Session, Tenant, User } from '../contract/accounts.ts';
import { lowerRole } from '../core/roles.ts';
import { isScope } from '../core/scopes.ts';
import type { InvitationRow } from '../store/invitations.ts';
import type { SessionRow } from '../store/sessions.ts';
import type { TenantRow } from '../store/tenants.ts';
import type { TokenRow } from '../store/tokens.ts';
import type { UserRow } from '../store/users.ts';

export function userView(row: UserRow): User {
  const { id, name, role, tenant, created_at, disabled_at } = row;
  const used = [row.session_used_at, row.token_used_at].filter((at) => at !== null);
  const last_used_at = used.length === 0 ? null : Math.max(...used);
  const has_password = row.has_password === 1;
  return { id, name, role, tenant, has_password, created_at, last_used_at, disabled_at };
}

export function tenantView(row: TenantRow): Tenant {
  const { id, slug, name, users, created_at, disabled_at } = row;
  return { id, slug, name, users, created_at, disabled_at };
}

export function invitationView(row: InvitationRow, now: number): Invitation {
  const { id, tenant, role, invited_by, used_by, created_at, expires_at } = row;
  const state = stateOf(row, now);
  return { id, tenant, role, state, invited_by, used_by, created_at, expires_at };
}

function stateOf(row: InvitationRow, now: number): Invitation['state'] {
  if (row.used_at !== null) return 'used';
  if (row.revoked_at !== null) return 'revoked';
  return row.expires_at > now ? 'open' : 'expired';
}

export function tokenView(row: TokenRow): ApiToken {
  const { id, name, last_four, created_at, last_used_at, expires_at, revoked_at } = row;
  const role = lowerRole(row.role ?? row.user_role, row.user_role);
  const scopes = row.scopes === null ? null : row.scopes.split(' ').filter(isScope);
  const times = { created_at, last_used_at, expires_at, revoked_at };
  return { id, user: row.user_name, name, role, scopes, last_four, ...times };
}

export function sessionView(row: SessionRow, own_id: string): Session {
  const { id, client, signed_in_by, created_at, last_used_at, expires_at } = row;
  const times = { created_at, last_used_at, expires_at };
  return { id, user: row.user_name, client, signed_in_by, current: id === own_id, ...times };
}

/** A page of rows that were read with one more than the limit. */
export function pageOf<R extends { id: string }, V>(
  rows: readonly R[],
  limit: number,
  view: (row: R) => V,
): { items: V[]; next_cursor: string | null } {
  const shown = rows.slice(0, limit);
  const next_cursor = rows.length > limit ? (shown.at(-1)?.id ?? null) : null;
  return { items: shown.map(view), next_cursor };
}
