/**
 * Scaling an endpoint.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { workloadView } from '../workload-views.ts';
import { changeArgs, idempotencyOf, refused, unwrap } from './workloads.ts';

export function replicaRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.scaleEndpoint, async (c) => {
    const asked = c.req.valid('json');
    const idempotency = idempotencyOf(c, asked);
    const args = { ...changeArgs(deps, c), ...asked, idempotency };
    const result = unwrap(await deps.store.transact('scaleEndpoint', args));
    if (!result.ok) {
      const { code } = result;
      if (code !== 'replicas_endpoints_only') throw refused(result, args.workload);
      throw new EinsoraError(code, { name: args.workload });
    }
    deps.wakeController();
    deps.wakeAgents();
    return c.json(await workloadView(deps, result.row, c.get('principal')), 202);
  });
}
