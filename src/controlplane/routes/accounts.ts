/**
 * Health, the API's own description, and signing in and out.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import { checkToken } from '../../core/token.ts';
import { actionOf, attemptOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { openApiDocument } from '../openapi.ts';

export function accountRoutes(app: Api, deps: ApiDeps): void {
  const attempts = createAttempts(deps);

  app.openapi(routes.health, (c) => c.json({ status: 'ok' as const }, 200));

  app.openapi(routes.openapi, (c) => c.json(openApiDocument(app), 200));

  app.openapi(routes.signIn, async (c) => {
    const asked = c.req.valid('json');
    if (!('token' in asked)) throw new EinsoraError('sign_in_wrong');
    const { token } = asked;
    const well_formed = checkToken('eat_', token);
    if (well_formed) attempts(); // what is not costs nothing, and must not lock others out
    const opened = well_formed
      ? await deps.proofs.openSession(token, attemptOf(deps, c, 'session'))
      : null;
    if (opened === null) throw new EinsoraError('sign_in_link_spent');
    const age_s = Math.floor(limits.session_ms / 1000);
    c.header(
      'set-cookie',
      `${deps.cookieName()}=${opened.cookie.reveal()}; Path=/; Max-Age=${age_s}; HttpOnly; SameSite=Strict`,
    );
    return c.body(null, 204);
  });

  app.openapi(routes.signOut, async (c) => {
    const { via, proof_id } = c.get('principal');
    if (via === 'session') {
      const action = actionOf(deps, c);
      await deps.store.transact('closeSession', { id: proof_id, now: action.now, action });
    }
    c.header('set-cookie', `${deps.cookieName()}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict`);
    return c.body(null, 204);
  });

  app.openapi(routes.whoAmI, (c) => {
    const { user_id, user_name, role, tenant, via, scopes, expires_at } = c.get('principal');
    const proof = { via, scopes: scopes === null ? null : [...scopes], expires_at };
    return c.json({ user_id, name: user_name, role, tenant, ...proof, has_password: false }, 200);
  });

  app.openapi(routes.createSignInLink, async (c) => {
    const { user_id } = c.get('principal');
    const secret = await deps.proofs.makeSignInLink(user_id, actionOf(deps, c));
    return c.json({ url: `${deps.origin()}/sign-in#t=${secret.reveal()}` }, 201);
  });
}

/** Counts sign-in attempts of the last minute, all callers together, and refuses what is over. */
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
