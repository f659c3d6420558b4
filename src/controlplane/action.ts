/**
 * The action that a request is, as the store's transactions record it.
 */
import type { Context } from 'hono';
import { makeId } from '../core/ids.ts';
import type { Action } from '../store/activity.ts';
import type { ApiEnv } from './api.ts';
import type { ApiDeps } from './api-deps.ts';

/** Of a request whose principal is known (every route but those for anyone). */
export function actionOf(deps: Pick<ApiDeps, 'clock' | 'random'>, c: Context<ApiEnv>): Action {
  const { tenant_id, user_id, user_name, via, proof_id } = c.get('principal');
  const now = deps.clock.now();
  return {
    id: makeId(now, deps.random.bytes(10)),
    tenant_id,
    user_id,
    actor: `user:${user_name}`,
    via,
    proof_id,
    request_id: c.env.facts.request_id,
    route: c.get('route'),
    now,
  };
}
