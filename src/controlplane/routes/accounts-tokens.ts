/**
 * API tokens and sessions: one's own, and for those who administer a user, that user's.
 *
 * Invariants: a token is never wider than the proof it was made with (core/scopes.ts); what belongs
 * to somebody whom the principal does not administer answers like nothing.
 */
import type { Context } from 'hono';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import { makeId } from '../../core/ids.ts';
import { hasRole } from '../../core/roles.ts';
import { type Reach, reachOfNew } from '../../core/scopes.ts';
import { digest } from '../../lib/secret.ts';
import { findSession, listSessions } from '../../store/sessions.ts';
import { findToken, listTokens } from '../../store/tokens.ts';
import { findUser } from '../../store/users.ts';
import { pageOf, sessionView, tokenView } from '../account-views.ts';
import { actionOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import type { Principal } from '../auth/principal.ts';
import { readIdCursor, within } from './accounts-users.ts';
import { refuseAnother, refuseDerivedAgain } from './keys.ts';
import { idempotencyOf, unwrap } from './workloads.ts';

const usual_rows = 50;

export function tokenRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.createToken, async (c) => {
    const body = c.req.valid('json');
    const principal = c.get('principal');
    const action = actionOf(deps, c);
    const { now } = action;
    const { role, scopes, expires_at } = reachOf(principal, body, now);
    const idempotency = idempotencyOf(c, body);
    const token = deps.proofs.makeApiToken(idempotency).reveal();
    const create = deps.store.transact('createToken', {
      ...{ name: body.name, role, expires_at, now, idempotency, action },
      id: makeId(now, deps.random.bytes(10)),
      user_id: principal.user_id,
      scopes: scopes === null ? null : [...new Set(scopes)].join(' '),
      hash: digest(token),
      last_four: token.slice(-4),
      most: limits.tokens_per_user,
    });
    const made = unwrap(await create.catch(refuseDerivedAgain));
    if (!made.ok) {
      throw new EinsoraError(made.code, { limit: limits.tokens_per_user, what: 'tokens' });
    }
    refuseAnother(made.row, token);
    return c.json({ ...tokenView(made.row), token }, 201);
  });

  app.openapi(routes.listTokens, async (c) => {
    const { cursor, limit = usual_rows, user } = c.req.valid('query');
    const user_id = await userIdFor(deps, c, user);
    const before = readIdCursor(cursor);
    const rows = await deps.store.read(listTokens, { user_id, before, limit: limit + 1 });
    return c.json(pageOf(rows, limit, tokenView), 200);
  });

  app.openapi(routes.revokeToken, async (c) => {
    const { token: id } = c.req.valid('param');
    const row = await deps.store.read(findToken, { id });
    const named = { what: `token ${id}`, list: 'tokens ls' };
    const user_id = await ownerFor(deps, c, row?.user_id, named);
    const action = actionOf(deps, c);
    await deps.store.transact('revokeToken', { id, user_id, now: action.now, action });
    deps.revocations.tell({ proof_id: id });
    return c.body(null, 204);
  });
}

export function sessionRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listSessions, async (c) => {
    const { cursor, limit = usual_rows, user } = c.req.valid('query');
    const now = deps.clock.now();
    const rows = await deps.store.read(listSessions, {
      user_id: await userIdFor(deps, c, user),
      now,
      idle_before: now - limits.session_idle_ms,
      before: readIdCursor(cursor),
      limit: limit + 1,
    });
    const own_id = c.get('principal').proof_id;
    return c.json(
      pageOf(rows, limit, (row) => sessionView(row, own_id)),
      200,
    );
  });

  app.openapi(routes.revokeSession, async (c) => {
    const { session: id } = c.req.valid('param');
    const row = await deps.store.read(findSession, { id });
    const named = { what: `session ${id}`, list: 'sessions ls' };
    const user_id = await ownerFor(deps, c, row?.user_id, named);
    const action = actionOf(deps, c);
    await deps.store.transact('revokeSession', { id, user_id, now: action.now, action });
    deps.revocations.tell({ proof_id: id });
    return c.body(null, 204);
  });

  app.openapi(routes.revokeSessions, async (c) => {
    const user_id = await userIdFor(deps, c, c.req.valid('query').user);
    const action = actionOf(deps, c);
    const kept = c.get('principal').proof_id;
    const args = { user_id, kept, now: action.now, action };
    const { ids } = await deps.store.transact('revokeSessions', args);
    for (const id of ids) deps.revocations.tell({ proof_id: id });
    return c.json({ revoked: ids.length }, 200);
  });
}

type Asked = {
  role?: Reach['role'] | undefined;
  scopes?: (Reach['scopes'] & object) | undefined;
  expires_in_ms?: number | null | undefined;
};

function reachOf(principal: Principal, asked: Asked, now: number): Reach {
  const { role, scopes, expires_in_ms } = asked;
  // A session ends long before a token that is made by it would: its user is there, and signed in.
  const until = principal.via === 'session' ? null : principal.expires_at;
  const expires_at = expires_in_ms == null ? expires_in_ms : now + expires_in_ms;
  const found = reachOfNew(
    { role: principal.role, scopes: principal.scopes, expires_at: until },
    { role, scopes, expires_at },
    now + limits.token_ms,
  );
  if (!found.ok) throw new EinsoraError('token_too_wide', { what: found.what });
  return found.reach;
}

/** How something that is not there is told: what, and the command that lists those that are. */
type Named = { what: string; list: string };

/** The user whose list is asked for: oneself, or somebody whom one administers. */
async function userIdFor(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  user: string | undefined,
): Promise<string> {
  const principal = c.get('principal');
  const is_self = user === undefined || user === principal.user_id || user === principal.user_name;
  if (is_self) return principal.user_id;
  return administered(deps, principal, user, { what: `user ${user}`, list: 'users ls' });
}

/** Whose it is, where that is oneself or somebody whom one administers. */
async function ownerFor(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  owner_id: string | undefined,
  named: Named,
): Promise<string> {
  const principal = c.get('principal');
  if (owner_id === principal.user_id) return owner_id;
  if (owner_id === undefined) throw new EinsoraError('not_found', named);
  return administered(deps, principal, owner_id, named);
}

async function administered(
  deps: ApiDeps,
  principal: Principal,
  user: string,
  named: Named,
): Promise<string> {
  const row = hasRole(principal.role, 'tenant-admin')
    ? await deps.store.read(findUser, { user, ...within(principal) })
    : undefined;
  if (row === undefined) throw new EinsoraError('not_found', named);
  if (!hasRole(principal.role, row.role)) {
    throw new EinsoraError('role_too_high', { needed: row.role });
  }
  return row.id;
}
