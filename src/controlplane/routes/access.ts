/**
 * One-time links to the sites of workloads.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import { siteOf } from '../../core/images.ts';
import type { Kind } from '../../core/workload.ts';
import { digest } from '../../lib/secret.ts';
import { findTarget } from '../../store/keys.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { found } from './workloads.ts';

export function accessRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.openSite, async (c) => {
    const row = await found(deps, c);
    const { id, name, kind, state } = row;
    if (siteOf(kind as Kind) === null) throw new EinsoraError('no_site', { name, kind });
    const target = await deps.store.read(findTarget, { workload_id: id });
    const run_epoch = target?.run_epoch ?? null;
    if (row.park_cause === 'idle' && row.intent === 'running') {
      const { user_name } = c.get('principal');
      const woken = await deps.waker.wake(id, `${user_name} opened its page`);
      if (woken.outcome === 'quota_exceeded') throw new EinsoraError(woken.outcome, woken.details);
      throw new EinsoraError('idle_waking', { name });
    }
    if (state !== 'running' || run_epoch === null) {
      throw new EinsoraError('not_ready', { name, state });
    }
    const { user_id, proof_id } = c.get('principal');
    const ticket = deps.proofs.makeTicket().reveal();
    const origin = siteOrigin(deps.origin(), id);
    const action = actionOf(deps, c);
    const { now } = action;
    const expires_at = now + limits.access_ticket_ms;
    const { ok } = await deps.store.transact('addAccessTicket', {
      ...{ hash: digest(ticket), workload_id: id, run_epoch, host: new URL(origin).host },
      ...{ user_id, proof_id, now, expires_at, action },
    });
    if (ok === 0) throw new EinsoraError('too_many_requests');
    return c.json({ url: `${origin}/.einsora/open#t=${ticket}`, expires_at }, 201);
  });
}

/** Where the site of a workload is, by where the dashboard is. */
function siteOrigin(own_origin: string, workload_id: string): string {
  const { protocol, port } = new URL(own_origin);
  return `${protocol}//w-${workload_id}.localhost${port === '' ? '' : `:${port}`}`;
}
