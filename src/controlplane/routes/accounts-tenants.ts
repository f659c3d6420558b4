/**
 * Tenants, for operators.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import { makeId } from '../../core/ids.ts';
import { listTenants, type TenantChangeResult } from '../../store/tenants.ts';
import { pageOf, tenantView } from '../account-views.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { readIdCursor } from './accounts-users.ts';
import { idempotencyOf, unwrap } from './workloads.ts';

const usual_rows = 50;

export function tenantRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listTenants, async (c) => {
    const { cursor, limit = usual_rows } = c.req.valid('query');
    const before = readIdCursor(cursor);
    const rows = await deps.store.read(listTenants, { before, limit: limit + 1 });
    return c.json(pageOf(rows, limit, tenantView), 200);
  });

  app.openapi(routes.createTenant, async (c) => {
    const body = c.req.valid('json');
    const { slug, name = slug } = body;
    const action = actionOf(deps, c);
    const id = makeId(action.now, deps.random.bytes(10));
    const idempotency = idempotencyOf(c, body);
    const args = { id, slug, name, now: action.now, idempotency, action };
    const made = unwrap(await deps.store.transact('createTenant', args));
    if (!made.ok) throw new EinsoraError(made.code, { slug });
    return c.json(tenantView(made.row), 201);
  });

  app.openapi(routes.renameTenant, async (c) => {
    const { tenant } = c.req.valid('param');
    const { name } = c.req.valid('json');
    const action = actionOf(deps, c);
    const args = { tenant, name, now: action.now, action };
    return c.json(tenantView(done(tenant, await deps.store.transact('renameTenant', args))), 200);
  });

  app.openapi(routes.disableTenant, async (c) => {
    const { tenant } = c.req.valid('param');
    const action = actionOf(deps, c);
    const args = { tenant, disabled: 1, now: action.now, mono: deps.clock.monotonic(), action };
    const row = done(tenant, await deps.store.transact('setTenantDisabled', args));
    deps.revocations.tell({ tenant_id: row.id });
    deps.wakeAgents();
    return c.json(tenantView(row), 200);
  });

  app.openapi(routes.enableTenant, async (c) => {
    const { tenant } = c.req.valid('param');
    const action = actionOf(deps, c);
    const args = { tenant, disabled: 0, now: action.now, action };
    const row = done(tenant, await deps.store.transact('setTenantDisabled', args));
    return c.json(tenantView(row), 200);
  });
}

function done(tenant: string, result: TenantChangeResult) {
  if (result.ok) return result.row;
  const { ok: _, code, ...details } = result;
  throw new EinsoraError(code, { what: `tenant ${tenant}`, list: 'tenants ls', ...details });
}
