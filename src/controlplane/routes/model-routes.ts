/**
 * Where the names of a tenant's models lead, and how each replica stands with the gateway.
 */
import { limits } from '../../contract/limits.ts';
import type { ModelRoute, ReplicaRoute } from '../../contract/model-routes.ts';
import { routes } from '../../contract/routes.ts';
import { fallbackHeader, readTaken } from '../../core/fallback.ts';
import { refusals } from '../../gateway/errors.ts';
import { listRoutes, type RouteRow } from '../../store/routes.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { engineOf, slotsOf } from '../endpoints.ts';

export function modelRouteRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listModelRoutes, async (c) => {
    const { cursor: after = '', limit = limits.page_rows } = c.req.valid('query');
    const { tenant_id } = c.get('principal');
    const rows = await deps.store.read(listRoutes, { tenant_id, after, limit });
    const groups = [...Map.groupBy(rows, (row) => row.workload_id).values()];
    const items = groups.flatMap((group) => routeOf(deps, group));
    const last = groups.length < limit ? null : (items.at(-1)?.model ?? null);
    return c.json({ items, next_cursor: last }, 200);
  });
}

function routeOf(deps: ApiDeps, rows: readonly RouteRow[]): ModelRoute[] {
  const [first] = rows;
  if (first === undefined) return [];
  const { name: model, workload_id, state, replicas } = first;
  const shown = rows.flatMap((row) => replicaRoute(deps, row) ?? []);
  const replicas_ready = shown.filter((one) => one.state === 'ready').length;
  const engine = engineOf(first);
  return [{ model, workload_id, state, engine, replicas, replicas_ready, routes: shown }];
}

function replicaRoute({ balancer, presence }: ApiDeps, row: RouteRow): ReplicaRoute | null {
  const { workload_id, replica, run_epoch, machine_id } = row;
  if (replica === null || run_epoch === null || machine_id === null) return null;
  const { outstanding, per_minute, breaker, is_suspect, last_failure } = balancer.look({
    ...{ workload_id, replica, run_epoch },
  });
  return {
    ...{ replica, run_epoch, state: stateOf(row), machine_name: row.machine_name },
    ...{ placed_class: row.placed_class ?? '', region: row.region ?? '' },
    fallback: fallbackHeader(readTaken(row.fallback ?? '')),
    heard_of: presence.isOnline(machine_id),
    ...{ slots: slotsOf(row), outstanding, requests_per_minute: per_minute },
    ...{ breaker, suspect: is_suspect },
    last_failure: last_failure === null ? null : { ...last_failure, message: toldOf(last_failure) },
  };
}

function stateOf({ wanted, ready_at, state }: RouteRow): ReplicaRoute['state'] {
  if (wanted !== 'run') return 'ending';
  return ready_at === null || state !== 'running' ? 'preparing' : 'ready';
}

/** What a client was told of it, where that is always the same. */
function toldOf({ code }: { code: string }): string | null {
  return Object.values(refusals).find((one) => one.code === code)?.message ?? null;
}
