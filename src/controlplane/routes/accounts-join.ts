/**
 * Becoming a user by an invitation, passwords, and signing a command line in.
 *
 * Invariants: a link is looked up before anything is hashed for it, and used in one transaction
 * after; a password that is refused leaves its link as it was.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import { makeId } from '../../core/ids.ts';
import { checkToken } from '../../core/token.ts';
import { digest } from '../../lib/secret.ts';
import { findRedeemable } from '../../store/invitations.ts';
import { findCredentials, findResetLink } from '../../store/passwords.ts';
import { tokenView, userView } from '../account-views.ts';
import { actionOf, attemptOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { headersOf, refuseOtherSite } from '../auth/principal.ts';
import { giveMark, markOf } from '../cookies.ts';

/** `countLink` throws where too many links were tried. */
export function joinRoutes(app: Api, deps: ApiDeps, countLink: () => void): void {
  const { store, signIns } = deps;

  app.openapi(routes.logIn, async (c) => {
    refuseOtherSite(headersOf(c));
    const { name, password, token_name = 'command line' } = c.req.valid('json');
    const person = await signIns.prove({ name, password }, markOf(deps, c), c.env.facts.log);
    const token = deps.proofs.makeApiToken(null).reveal();
    const attempt = attemptOf(deps, c, 'token');
    const made = await store.transact('logIn', {
      ...{ ...person, attempt, now: attempt.now, name: token_name, scopes: null },
      id: makeId(attempt.now, deps.random.bytes(10)),
      hash: digest(token),
      last_four: token.slice(-4),
      expires_at: attempt.now + limits.token_ms,
      most: limits.tokens_per_user,
    });
    if (!made.ok) {
      throw new EinsoraError(made.code, { limit: limits.tokens_per_user, what: 'tokens' });
    }
    giveMark(deps, c, name);
    return c.json({ ...tokenView(made.row), token }, 201);
  });

  app.openapi(routes.join, async (c) => {
    refuseOtherSite(headersOf(c));
    const { token, name, password } = c.req.valid('json');
    if (!checkToken('eat_', token)) throw new EinsoraError('invitation_spent');
    countLink();
    const hash = digest(token);
    const attempt = attemptOf(deps, c, 'anyone');
    const { now } = attempt;
    const open = await store.read(findRedeemable, { hash, now });
    if (open === undefined) throw new EinsoraError('invitation_spent');
    const sealed = await signIns.seal(password, name);
    const user_id = makeId(now, deps.random.bytes(10));
    const args = { hash, user_id, name, password: sealed, now, attempt };
    const made = await store.transact('redeemInvitation', args);
    if (!made.ok) throw new EinsoraError(made.code, { name });
    giveMark(deps, c, name);
    return c.json(userView(made.row), 201);
  });

  app.openapi(routes.resetPassword, async (c) => {
    refuseOtherSite(headersOf(c));
    const { token, password } = c.req.valid('json');
    if (!checkToken('eat_', token)) throw new EinsoraError('reset_link_spent');
    countLink();
    const hash = digest(token);
    const attempt = attemptOf(deps, c, 'anyone');
    const { now } = attempt;
    const user = await store.read(findResetLink, { hash, now });
    if (user === undefined) throw new EinsoraError('reset_link_spent');
    const sealed = await signIns.seal(password, user.user_name);
    const done = await store.transact('resetPassword', { hash, password: sealed, now, attempt });
    if (done === null) throw new EinsoraError('reset_link_spent');
    deps.revocations.tell({ user_id: done.user_id });
    giveMark(deps, c, user.user_name);
    return c.body(null, 204);
  });
}

/** A user's own password. */
export function passwordRoutes(app: Api, deps: ApiDeps): void {
  const { store, signIns } = deps;
  app.openapi(routes.changePassword, async (c) => {
    const { current, password } = c.req.valid('json');
    const { user_id, user_name, via, proof_id } = c.get('principal');
    const row = await store.read(findCredentials, { name: user_name });
    const stored = row?.password ?? null;
    if (stored !== null) {
      if (current === undefined) throw new EinsoraError('bad_request', { problem: 'current' });
      const is_right = await signIns.check({ user_id, password: stored }, current);
      if (!is_right) throw new EinsoraError('password_wrong', { name: user_name });
    }
    const sealed = await signIns.seal(password, user_name);
    const action = actionOf(deps, c);
    const kept_session = via === 'session' ? proof_id : null;
    const args = { user_id, password: sealed, kept_session, now: action.now, action };
    const { ended } = await store.transact('setPassword', args);
    for (const id of ended) deps.revocations.tell({ proof_id: id });
    return c.body(null, 204);
  });
}
