/**
 * What workloads use, and when they are stopped for being unused.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import type { StatsRange, WorkloadStats } from '../../contract/stats.ts';
import { listSamples } from '../../store/samples.ts';
import { currentRuns } from '../../store/workloads.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { workloadView } from '../workload-views.ts';
import { found } from './workloads.ts';

const hour_ms = 3600_000;
const lengths_ms: Record<StatsRange, number> = {
  '1h': hour_ms,
  '6h': 6 * hour_ms,
  '24h': 24 * hour_ms,
  '7d': 7 * 24 * hour_ms,
  '14d': 14 * 24 * hour_ms,
};

export function statsRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.readStats, async (c) => {
    const row = await found(deps, c);
    const { range = '1h' } = c.req.valid('query');
    const from = deps.clock.now() - lengths_ms[range];
    const is_fine = range === '1h';
    return c.json(
      {
        ...{ workload_id: row.id, range },
        step_ms: is_fine ? limits.sample_every_ms : limits.sample_rows_every_ms,
        cpu_cap_millis: row.cpu_millis,
        memory_cap_bytes: row.memory_bytes,
        points: await (is_fine ? recent : rows)(deps, row.id, from),
      },
      200,
    );
  });

  app.openapi(routes.setIdlePolicy, async (c) => {
    const { idle_policy } = c.req.valid('json');
    const workload = c.req.valid('param').workload;
    const { tenant_id, user_name } = c.get('principal');
    const changed = await deps.store.transact('setIdlePolicy', {
      ...{ tenant_id, workload, after_ms: idle_policy?.after_ms ?? null },
      ...{ now: deps.clock.now(), mono: deps.clock.monotonic(), actor: `user:${user_name}` },
      request_id: c.env.facts.request_id,
      action: actionOf(deps, c),
    });
    if (!changed.ok) {
      const what = `workload ${workload}`;
      throw new EinsoraError(changed.code, { what, name: workload });
    }
    return c.json(await workloadView(deps, changed.row, c.get('principal')), 200);
  });
}

type Points = WorkloadStats['points'];

/** Of the current run: the last hour is in memory. */
async function recent({ store, samples }: ApiDeps, id: string, from: number): Promise<Points> {
  const [run] = await store.read(currentRuns, { workload_ids: [id] });
  if (run === undefined) return [];
  return samples.recent(run, from).map((point) => ({
    ...{ ...point, run_epoch: run.run_epoch },
    ...{ cpu_most_millis: point.cpu_millis, memory_most_bytes: point.memory_bytes },
  }));
}

async function rows({ store }: ApiDeps, id: string, from: number): Promise<Points> {
  const most = Math.ceil(limits.sample_rows_kept_ms / limits.sample_rows_every_ms) + 100;
  const found = await store.read(listSamples, { workload_id: id, from, limit: most });
  return found.map(({ workload_id: _, replica: __, sample_count: ___, ...point }) => point);
}
