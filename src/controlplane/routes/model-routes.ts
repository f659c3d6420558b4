/**
 * Where the names of a tenant's models lead, and how each replica stands with the gateway.
 */

import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import type { ModelRoute, ReplicaRoute } from '../../contract/model-routes.ts';
import { routes } from '../../contract/routes.ts';
import { fallbackHeader, readTaken } from '../../core/fallback.ts';
import { refusals } from '../../gateway/errors.ts';
import { listAliases } from '../../store/aliases.ts';
import { listRoutes, type RouteRow } from '../../store/routes.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { engineOf, slotsOf } from '../endpoints.ts';

type Alias = { workload_id: string; name: string };

export function modelRouteRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listModelRoutes, async (c) => {
    const { cursor: after = '', limit = limits.page_rows } = c.req.valid('query');
    const { tenant_id } = c.get('principal');
    const rows = await deps.store.read(listRoutes, { tenant_id, after, limit });
    const groups = [...Map.groupBy(rows, (row) => row.workload_id).values()];
    const workload_ids = groups.flatMap(([first]) => first?.workload_id ?? []);
    const aliases = await deps.store.read(listAliases, { workload_ids });
    const items = groups.flatMap((group) => routeOf(deps, group, aliases));
    const last = groups.length < limit ? null : (items.at(-1)?.model ?? null);
    return c.json({ items, next_cursor: last }, 200);
  });

  app.openapi(routes.changeAliases, async (c) => {
    const { add = [], remove = [] } = c.req.valid('json');
    const { workload } = c.req.valid('param');
    const { tenant_id } = c.get('principal');
    const action = actionOf(deps, c);
    const args = { tenant_id, workload, add, remove, now: action.now, action };
    const done = await deps.store.transact('changeAliases', args);
    if (done.ok) return c.json({ model: done.row.name, aliases: done.aliases }, 200);
    if (done.code === 'alias_taken') throw new EinsoraError(done.code, { alias: done.alias });
    if (done.code === 'aliases_full') {
      throw new EinsoraError(done.code, { limit: limits.aliases, name: workload });
    }
    throw new EinsoraError('not_found', { what: `endpoint ${workload}` });
  });
}

function routeOf(
  deps: ApiDeps,
  rows: readonly RouteRow[],
  aliases: readonly Alias[],
): ModelRoute[] {
  const [first] = rows;
  if (first === undefined) return [];
  const { name: model, workload_id, state, replicas } = first;
  const shown = rows.flatMap((row) => replicaRoute(deps, row) ?? []);
  const replicas_ready = shown.filter((one) => one.state === 'ready').length;
  const own = aliases.filter((one) => one.workload_id === workload_id).map(({ name }) => name);
  const engine = engineOf(first);
  return [
    { model, aliases: own, workload_id, state, engine, replicas, replicas_ready, routes: shown },
  ];
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
