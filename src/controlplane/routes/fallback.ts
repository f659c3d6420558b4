/**
 * Fallbacks of a workload, and making room for one that waits.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import { readSpec } from '../../core/workload.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { specWithFallback } from '../launch-spec.ts';
import { makeRoomFor } from '../make-room.ts';
import { workloadView } from '../workload-views.ts';
import { found } from './workloads.ts';

/** How often it is tried anew where the workload changed meanwhile. */
const tries = 3;

export function fallbackRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.setFallback, async (c) => {
    const asked = c.req.valid('json');
    const { tenant_id, user_name } = c.get('principal');
    for (let left = tries; left > 0; left -= 1) {
      const row = await found(deps, c);
      const has_home = row.home_machine_id !== null;
      const spec = await specWithFallback(deps, tenant_id, readSpec(row.spec), asked, has_home);
      const { fallback, fallback_after_ms, fallback_return } = spec;
      const done = await deps.store.transact('setFallback', {
        ...{ tenant_id, workload: row.id, revision: row.revision },
        ...{ fallback, fallback_after_ms, fallback_return },
        ...{ now: deps.clock.now(), mono: deps.clock.monotonic(), actor: `user:${user_name}` },
        request_id: c.env.facts.request_id,
        action: actionOf(deps, c),
      });
      if (done.ok) {
        deps.wakeController();
        return c.json(await workloadView(deps, done.row, c.get('principal')), 200);
      }
      if (done.code === 'changed_meanwhile') continue;
      const details = 'details' in done ? done.details : {};
      throw new EinsoraError(done.code, {
        what: `workload ${row.name}`,
        name: row.name,
        ...details,
      });
    }
    throw new EinsoraError('busy_changing', { name: c.req.valid('param').workload });
  });

  app.openapi(routes.makeRoom, async (c) => {
    const row = await found(deps, c);
    const principal = c.get('principal');
    const stopped = await makeRoomFor(deps, row, principal, {
      request_id: c.env.facts.request_id,
      action: actionOf(deps, c),
    });
    return c.json({ stopped }, 202);
  });
}
