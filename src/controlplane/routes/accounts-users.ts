/**
 * Users and invitations, for those who administer them.
 *
 * Invariants: a tenant admin sees their own tenant, an operator all; who is outside of that answers
 * exactly like nobody (ADR-0028); what ended is told to whoever holds something open by it.
 */
import type { Context } from 'hono';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import { makeId } from '../../core/ids.ts';
import { hasRole } from '../../core/roles.ts';
import { digest } from '../../lib/secret.ts';
import { listInvitations } from '../../store/invitations.ts';
import { findTenant, type TenantRow } from '../../store/tenants.ts';
import { findUser, listUsers, type UserChangeResult, type Within } from '../../store/users.ts';
import { invitationView, pageOf, userView } from '../account-views.ts';
import { actionOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import type { Principal } from '../auth/principal.ts';
import { refuseDerivedAgain } from './keys.ts';
import { idempotencyOf, unwrap } from './workloads.ts';

const usual_rows = 50;

/** Whom a principal may administer. */
export function within(principal: Principal): Within {
  return { tenant_id: principal.role === 'operator' ? null : principal.tenant_id };
}

export function readIdCursor(cursor: string | undefined): string | null {
  if (cursor === undefined) return null;
  if (!/^[0-9a-z-]{1,64}$/.test(cursor))
    throw new EinsoraError('bad_request', { problem: 'cursor' });
  return cursor;
}

export function userRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listUsers, async (c) => {
    const { cursor, limit = usual_rows, tenant } = c.req.valid('query');
    const rows = await deps.store.read(listUsers, {
      ...(await ofTenant(deps, c, tenant)),
      before: readIdCursor(cursor),
      limit: limit + 1,
    });
    return c.json(pageOf(rows, limit, userView), 200);
  });

  app.openapi(routes.showUser, async (c) => {
    const { user } = c.req.valid('param');
    const row = await deps.store.read(findUser, { user, ...within(c.get('principal')) });
    if (row === undefined) throw noUser(user);
    return c.json(userView(row), 200);
  });

  app.openapi(routes.disableUser, async (c) => {
    const mono = deps.clock.monotonic();
    const args = { ...changeOf(deps, c, c.req.valid('param').user), mono };
    const row = ended(deps, args, await deps.store.transact('disableUser', args));
    deps.wakeAgents();
    return c.json(row, 200);
  });

  app.openapi(routes.enableUser, async (c) => {
    const args = changeOf(deps, c, c.req.valid('param').user);
    return c.json(userView(done(args, await deps.store.transact('enableUser', args)).row), 200);
  });

  app.openapi(routes.setRole, async (c) => {
    const { role } = c.req.valid('json');
    const args = { ...changeOf(deps, c, c.req.valid('param').user), role };
    return c.json(ended(deps, args, await deps.store.transact('setUserRole', args)), 200);
  });

  app.openapi(routes.createResetLink, async (c) => {
    const args = changeOf(deps, c, c.req.valid('param').user);
    const token = deps.proofs.makeInvitation(null).reveal();
    const expires_at = args.now + limits.reset_link_ms;
    const { user_id: maker_id } = c.get('principal');
    const link = { ...args, maker_id, hash: digest(token), expires_at };
    done(args, await deps.store.transact('addResetLink', link));
    return c.json({ url: `${deps.origin()}/reset#t=${token}`, expires_at }, 201);
  });
}

export function invitationRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.createInvitation, async (c) => {
    const body = c.req.valid('json');
    const principal = c.get('principal');
    const { role = 'member', expires_in_ms = limits.invitation_ms } = body;
    if (!hasRole(principal.role, role)) throw new EinsoraError('role_too_high', { needed: role });
    const tenant_id = (await ofTenant(deps, c, body.tenant)).tenant_id ?? principal.tenant_id;
    const idempotency = idempotencyOf(c, body);
    const token = deps.proofs.makeInvitation(idempotency).reveal();
    const action = actionOf(deps, c);
    const create = deps.store.transact('createInvitation', {
      ...{ tenant_id, role, idempotency, action, now: action.now },
      id: makeId(action.now, deps.random.bytes(10)),
      inviter_id: principal.user_id,
      hash: digest(token),
      expires_at: action.now + expires_in_ms,
      most: limits.open_invitations_per_tenant,
    });
    const made = unwrap(await create.catch(refuseDerivedAgain));
    if (!made.ok) {
      const limit = limits.open_invitations_per_tenant;
      const details = { limit, what: 'open invitations' };
      throw new EinsoraError(made.code, 'tenant' in made ? { tenant: made.tenant } : details);
    }
    const url = `${deps.origin()}/join#t=${token}`;
    return c.json({ ...invitationView(made.row, action.now), url }, 201);
  });

  app.openapi(routes.listInvitations, async (c) => {
    const { cursor, limit = usual_rows, tenant } = c.req.valid('query');
    const rows = await deps.store.read(listInvitations, {
      ...(await ofTenant(deps, c, tenant)),
      before: readIdCursor(cursor),
      limit: limit + 1,
    });
    const now = deps.clock.now();
    return c.json(
      pageOf(rows, limit, (row) => invitationView(row, now)),
      200,
    );
  });

  app.openapi(routes.revokeInvitation, async (c) => {
    const { invitation: id } = c.req.valid('param');
    const action = actionOf(deps, c);
    const args = { id, ...within(c.get('principal')), now: action.now, action };
    const { found } = await deps.store.transact('revokeInvitation', args);
    if (found === 0) {
      throw new EinsoraError('not_found', { what: `open invitation ${id}`, list: 'invite ls' });
    }
    return c.body(null, 204);
  });
}

/** The tenant that is asked for; where none is, all that the principal administers. */
async function ofTenant(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  tenant: string | undefined,
): Promise<Within> {
  const all = within(c.get('principal'));
  if (tenant === undefined) return all;
  const row: TenantRow | undefined = await deps.store.read(findTenant, { tenant });
  if (row === undefined || (all.tenant_id !== null && all.tenant_id !== row.id)) {
    throw new EinsoraError('not_found', { what: `tenant ${tenant}`, list: 'tenants ls' });
  }
  return { tenant_id: row.id };
}

function changeOf(deps: ApiDeps, c: Context<ApiEnv>, user: string) {
  const principal = c.get('principal');
  const action = actionOf(deps, c);
  return { user, ...within(principal), most: principal.role, now: action.now, action };
}

function noUser(user: string): EinsoraError {
  return new EinsoraError('not_found', { what: `user ${user}`, list: 'users ls' });
}

function done(asked: { user: string }, result: UserChangeResult) {
  if (result.ok) return result;
  const { ok: _, code, ...details } = result;
  throw code === 'not_found' ? noUser(asked.user) : new EinsoraError(code, details);
}

/** The view of a user whose proofs ended by what was done. */
function ended(deps: ApiDeps, asked: { user: string }, result: UserChangeResult) {
  const { row, changed } = done(asked, result);
  if (changed > 0) deps.revocations.tell({ user_id: row.id });
  return userView(row);
}
