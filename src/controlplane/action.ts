/**
 * The action that a request is, as the store's transactions record it.
 *
 * Invariants: the request's id is ours; what a client called its request is kept beside it where it
 * is short and plain, and decides nothing.
 */
import type { Context } from 'hono';
import { makeId } from '../core/ids.ts';
import { hideTokens } from '../core/token.ts';
import type { Action, Attempt } from '../store/activity.ts';
import type { ApiEnv } from './api.ts';
import type { ApiDeps } from './api-deps.ts';

type Deps = Pick<ApiDeps, 'clock' | 'random'>;

/** Of a request whose principal is known (every route but those for anyone). */
export function actionOf(deps: Deps, c: Context<ApiEnv>): Action {
  const { tenant_id, user_id, user_name, via, proof_id } = c.get('principal');
  return { ...attemptOf(deps, c, via), tenant_id, user_id, actor: `user:${user_name}`, proof_id };
}

/** Of a request by which somebody signs in: the transaction finds out who. */
export function attemptOf(deps: Deps, c: Context<ApiEnv>, via: Action['via']): Attempt {
  const now = deps.clock.now();
  return {
    id: makeId(now, deps.random.bytes(10)),
    via,
    request_id: c.env.facts.request_id,
    client_request_id: clientRequestId(c.req.header('x-request-id')),
    route: c.get('route'),
    now,
  };
}

/**
 * What the client called it; null where that is long, a token, or anything but letters, digits,
 * `._-`.
 */
export function clientRequestId(header: string | string[] | undefined): string | null {
  if (typeof header !== 'string' || !/^[A-Za-z0-9._-]{1,64}$/.test(header)) return null;
  return hideTokens(header) === header ? header : null;
}
