/**
 * Health, the API's own description, who asks, and signing browsers in and out.
 */
import type { Context } from 'hono';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import { makeId } from '../../core/ids.ts';
import { checkToken } from '../../core/token.ts';
import { digest, type Secret } from '../../lib/secret.ts';
import { plainText } from '../../lib/text.ts';
import { findUser } from '../../store/users.ts';
import { actionOf, attemptOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { headersOf, refuseOtherSite } from '../auth/principal.ts';
import { giveMark, markOf, setCookie } from '../cookies.ts';
import { openApiDocument } from '../openapi.ts';
import { joinRoutes, passwordRoutes } from './accounts-join.ts';

export function accountRoutes(app: Api, deps: ApiDeps): void {
  const countLink = createAttempts(deps);

  app.openapi(routes.health, (c) => c.json({ status: 'ok' as const }, 200));

  // Making it takes tens of milliseconds, and anyone may ask.
  let document: Record<string, unknown> | null = null;
  app.openapi(routes.openapi, (c) => {
    document ??= openApiDocument(app);
    return c.json(document, 200);
  });

  app.openapi(routes.signIn, async (c) => {
    refuseOtherSite(headersOf(c));
    const asked = c.req.valid('json');
    const cookie =
      'token' in asked
        ? await byLink(deps, c, asked.token, countLink)
        : await byPassword(deps, c, asked);
    setCookie(c, deps.cookieName(), cookie.reveal(), limits.session_ms);
    if ('name' in asked) giveMark(deps, c, asked.name);
    return c.body(null, 204);
  });

  app.openapi(routes.signOut, async (c) => {
    const { via, proof_id } = c.get('principal');
    if (via === 'session') {
      const action = actionOf(deps, c);
      await deps.store.transact('closeSession', { id: proof_id, now: action.now, action });
      deps.revocations.tell({ proof_id });
    }
    setCookie(c, deps.cookieName(), '', 0);
    return c.body(null, 204);
  });

  app.openapi(routes.whoAmI, async (c) => {
    const { user_id, user_name, role, tenant, via, scopes, expires_at } = c.get('principal');
    const row = await deps.store.read(findUser, { user: user_id, tenant_id: null });
    const proof = { via, scopes: scopes === null ? null : [...scopes], expires_at };
    const has_password = row?.has_password === 1;
    return c.json({ user_id, name: user_name, role, tenant, ...proof, has_password }, 200);
  });

  app.openapi(routes.createSignInLink, async (c) => {
    const { user_id, expires_at } = c.get('principal');
    const by = { action: actionOf(deps, c), session_until: expires_at };
    const secret = await deps.proofs.makeSignInLink(user_id, by);
    return c.json({ url: `${deps.origin()}/sign-in#t=${secret.reveal()}` }, 201);
  });

  joinRoutes(app, deps, countLink);
  passwordRoutes(app, deps);
}

async function byLink(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  token: string,
  count: () => void,
): Promise<Secret> {
  // What is not well formed costs nothing, and must not lock others out.
  if (!checkToken('eat_', token)) throw new EinsoraError('sign_in_link_spent');
  count();
  const by = { attempt: attemptOf(deps, c, 'session'), client: clientOf(c) };
  const opened = await deps.proofs.openSession(token, by);
  if (opened === null) throw new EinsoraError('sign_in_link_spent');
  return opened.cookie;
}

async function byPassword(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  asked: { name: string; password: string },
): Promise<Secret> {
  const person = await deps.signIns.prove(asked, markOf(deps, c), c.env.facts.log);
  const cookie = deps.proofs.makeCookie();
  const attempt = attemptOf(deps, c, 'session');
  const { user_id, user_name, tenant_id, password } = person;
  const { ok } = await deps.store.transact('signInByPassword', {
    ...{ user_id, user_name, tenant_id, password, attempt, now: attempt.now },
    id: makeId(attempt.now, deps.random.bytes(10)),
    hash: digest(cookie.reveal()),
    client: clientOf(c),
    signed_in_by: 'password',
    expires_at: attempt.now + limits.session_ms,
    most: limits.sessions_per_user,
  });
  if (ok === 0) throw new EinsoraError('sign_in_wrong');
  return cookie;
}

/** What the client calls itself, for the list of sessions. */
function clientOf(c: Context<ApiEnv>): string {
  return plainText(c.req.header('user-agent') ?? '').slice(0, limits.client_chars);
}

/** Counts links tried in the last minute, by all callers together, and refuses what is over. */
function createAttempts(deps: ApiDeps): () => void {
  let window_began = 0;
  let count = 0;
  return () => {
    const now = deps.clock.monotonic();
    if (now - window_began > 60_000) {
      window_began = now;
      count = 0;
    }
    count += 1;
    if (count > limits.sign_in_attempts_per_minute) throw new EinsoraError('too_many_requests');
  };
}
