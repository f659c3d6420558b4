/**
 * Limits on requests: of users over all their keys, of endpoints over all who ask them.
 *
 * Invariants: who administers nobody is shown no other user's; who is not there for the asker
 * answers like nobody.
 */
import { hasRole } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import {
  type Limited,
  listRequestLimits,
  request_limits_of_tenant,
  type SetRequestLimitsArgs,
} from '../../store/request-limits.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { within } from './accounts-users.ts';
import { tenantFor } from './quotas.ts';

export function requestLimitRoutes(app: Api, deps: ApiDeps): void {
  const view = ({ kind, subject_id, name, limits }: Limited) => ({
    ...{ kind, name, limits, use: deps.limiter.useOf(kind, subject_id) },
  });
  const set = async (args: SetRequestLimitsArgs, what: string, list?: string) => {
    const done = await deps.store.transact('setRequestLimits', args);
    if (done.ok) return view(done.limited);
    const limit = request_limits_of_tenant;
    throw new EinsoraError(
      done.code,
      done.code === 'not_found'
        ? { what, ...(list === undefined ? {} : { list }) }
        : { what: 'limits', limit },
    );
  };

  app.openapi(routes.listRequestLimits, async (c) => {
    const { tenant } = c.req.valid('query');
    const principal = c.get('principal');
    const row = tenant === undefined ? null : await tenantFor(deps, principal, tenant);
    const rows = await deps.store.read(listRequestLimits, {
      tenant_id: row?.id ?? principal.tenant_id,
      only_user: hasRole(principal.role, 'tenant-admin') ? null : principal.user_id,
    });
    return c.json({ items: rows.map(view) }, 200);
  });

  app.openapi(routes.setUserLimits, async (c) => {
    const { user } = c.req.valid('param');
    const of = { kind: 'user', user, ...within(c.get('principal')) } as const;
    const action = actionOf(deps, c);
    const args = { of, limits: c.req.valid('json'), now: action.now, action };
    return c.json(await set(args, `user ${user}`, 'users ls'), 200);
  });

  app.openapi(routes.setModelLimits, async (c) => {
    const { workload } = c.req.valid('param');
    const of = { kind: 'model', workload, tenant_id: c.get('principal').tenant_id } as const;
    const action = actionOf(deps, c);
    const args = { of, limits: c.req.valid('json'), now: action.now, action };
    return c.json(await set(args, `endpoint ${workload}`), 200);
  });
}
