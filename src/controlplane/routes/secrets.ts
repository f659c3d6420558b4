/**
 * Secrets: set, listed without their values, removed.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import { Secret } from '../../lib/secret.ts';
import { listSecrets } from '../../store/secrets.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';

export function secretRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listSecrets, async (c) => {
    const { tenant_id } = c.get('principal');
    const args = { tenant_id, limit: limits.secrets_per_tenant };
    const rows = await deps.store.read(listSecrets, args);
    const items = rows.map(({ name, created_at, updated_at, user_name }) => ({
      ...{ name, created_at, updated_at },
      updated_by: user_name,
    }));
    return c.json({ items }, 200);
  });

  app.openapi(routes.setSecret, async (c) => {
    const { tenant_id, user_id } = c.get('principal');
    const { secret: name } = c.req.valid('param');
    const value = new Secret(c.req.valid('json').value);
    const action = actionOf(deps, c);
    return c.json(await deps.secrets.set({ tenant_id, user_id, name, value, action }), 200);
  });

  app.openapi(routes.removeSecret, async (c) => {
    const { tenant_id } = c.get('principal');
    const { secret: name } = c.req.valid('param');
    const args = { tenant_id, name, action: actionOf(deps, c) };
    const { found } = await deps.store.transact('removeSecret', args);
    if (found === 0)
      throw new EinsoraError('not_found', { what: `secret ${name}`, list: 'secrets ls' });
    return c.body(null, 204);
  });
}
