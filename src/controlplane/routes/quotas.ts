/**
 * Quotas: what a tenant may claim, and what it does.
 */
import { hasRole } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import { findClass } from '../../core/catalog.ts';
import { listQuotas, quotas_of_tenant } from '../../store/quota-limits.ts';
import { findTenant, type TenantRow } from '../../store/tenants.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import type { Principal } from '../auth/principal.ts';

export function quotaRoutes(app: Api, deps: ApiDeps): void {
  const tenantOf = (principal: Principal, tenant: string) => tenantFor(deps, principal, tenant);
  const view = async ({ id, slug }: { id: string; slug: string }) => {
    const items = await deps.store.read(listQuotas, { tenant_id: id });
    return { tenant: slug, items };
  };

  app.openapi(routes.showQuota, async (c) => {
    const { tenant } = c.req.valid('param');
    return c.json(await view(await tenantOf(c.get('principal'), tenant)), 200);
  });

  app.openapi(routes.setQuota, async (c) => {
    const { tenant } = c.req.valid('param');
    const { user = null, gpu_class = null, limits } = c.req.valid('json');
    if (gpu_class !== null && findClass(gpu_class, await deps.catalogs.read()) === null) {
      throw new EinsoraError('unknown_class', { class: gpu_class });
    }
    const row = await tenantOf(c.get('principal'), tenant);
    const action = actionOf(deps, c);
    const args = { tenant_id: row.id, user, gpu_class, limits, now: action.now, action };
    const done = await deps.store.transact('setQuota', args);
    if (!done.ok) {
      const what = done.code === 'not_found' ? `user ${user} in ${row.slug}` : 'quotas';
      throw new EinsoraError(done.code, { what, list: 'users ls', limit: quotas_of_tenant });
    }
    return c.json(await view(row), 200);
  });
}

/** A tenant by slug or id, for its own users and for operators; another one looks like none. */
export async function tenantFor(
  deps: ApiDeps,
  principal: Principal,
  tenant: string,
): Promise<TenantRow> {
  const row = await deps.store.read(findTenant, { tenant });
  const may_see = row?.id === principal.tenant_id || hasRole(principal.role, 'operator');
  if (row === undefined || !may_see) {
    throw new EinsoraError('not_found', { what: `tenant ${tenant}`, list: 'tenants ls' });
  }
  return row;
}
