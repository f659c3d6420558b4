/**
 * What the gateway does now: for people by model and key, for Prometheus as metrics.
 */
import { hasRole } from '../../contract/auth.ts';
import type { GatewayTopRow } from '../../contract/gateway-top.ts';
import { routes } from '../../contract/routes.ts';
import { firstTokenQuantile } from '../../core/first-token.ts';
import { addSums, type LiveSums, noSums } from '../../gateway/records/live-tally.ts';
import { namedKeys } from '../../store/request-usage.ts';
import { workloadNames } from '../../store/usage.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { keyName } from './request-usage.ts';
import { tenantOf } from './usage-asked.ts';

const shown_rows = 200;
const asked_at_once = 400;

export function gatewayRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.showGatewayTop, async (c) => {
    const principal = c.get('principal');
    const whose = await tenantOf(deps, principal, c.req.valid('query').tenant);
    const user_id = hasRole(principal.role, 'tenant-admin') ? null : principal.user_id;
    const all = deps.requests.now();
    const keys = await knownKeys(deps, { tenant_id: whose.id, user_id }, all);
    const own = all.filter(({ key_id }) => keys.has(key_id));
    const models = await modelNames(deps, own);
    const window_ms = deps.requests.window_ms();
    const by = (keyOf: (row: Now) => [key: string, name: string]) => sumUp(own, keyOf, window_ms);
    const answer = {
      ...{ tenant: whose.slug, at: deps.clock.now(), window_ms },
      models: by((row) => {
        const name = row.model ?? models.get(row.workload_id ?? '') ?? '';
        return [name, name === '' ? '(none)' : name];
      }),
      keys: by(({ key_id }) => [key_id, keys.get(key_id) ?? key_id]),
      journal: hasRole(principal.role, 'operator') ? deps.requests.journal() : null,
    };
    return c.json(answer, 200);
  });

  app.openapi(routes.readMetrics, (c) =>
    c.text(deps.requests.metrics(), 200, { 'Content-Type': 'text/plain; version=0.0.4' }),
  );
}

type Now = ReturnType<ApiDeps['requests']['now']>[number];
type Whose = { tenant_id: string; user_id: string | null };

/** Names of those of the keys that are theirs to see. */
async function knownKeys(
  { store }: ApiDeps,
  whose: Whose,
  rows: readonly Now[],
): Promise<Map<string, string>> {
  const ids = [...new Set(rows.map(({ key_id }) => key_id))];
  const known = new Map<string, string>();
  for (let from = 0; from < ids.length; from += asked_at_once) {
    const some = ids.slice(from, from + asked_at_once);
    const found = await store.read(namedKeys, { ...whose, ids: some });
    for (const row of found) known.set(row.id, keyName(row));
  }
  return known;
}

/** As they were asked for; of those that only work or wait, the endpoint's own name. */
async function modelNames({ store }: ApiDeps, rows: readonly Now[]): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  for (const { workload_id, model } of rows) {
    if (workload_id !== null && model !== null) names.set(workload_id, model);
  }
  const others = rows.flatMap(({ workload_id }) =>
    workload_id === null || names.has(workload_id) ? [] : [workload_id],
  );
  const ids = [...new Set(others)].slice(0, asked_at_once);
  for (const { id, name } of await store.read(workloadNames, { ids })) names.set(id, name);
  return names;
}

/** The busiest first. */
function sumUp(
  rows: readonly Now[],
  keyOf: (row: Now) => [key: string, name: string],
  window_ms: number,
): GatewayTopRow[] {
  const groups = new Map<string, { name: string; at_work: number; waiting: number } & LiveSums>();
  for (const row of rows) {
    const [key, name] = keyOf(row);
    const group = groups.get(key) ?? { ...noSums(), name, at_work: 0, waiting: 0 };
    addSums(group, row.sums);
    group.at_work += row.at_work;
    group.waiting += row.waiting;
    groups.set(key, group);
  }
  const rate = (amount: number) => Math.round((amount * 1e5) / window_ms) / 100;
  return [...groups]
    .sort(([, a], [, b]) => b.at_work - a.at_work || b.requests - a.requests)
    .slice(0, shown_rows)
    .map(([key, { name, at_work, waiting, requests, errors, completion_tokens, firsts }]) => ({
      ...{ key, name, at_work, waiting },
      requests_per_s: rate(requests),
      tokens_per_s: rate(completion_tokens),
      errors_per_s: rate(errors),
      first_token_p50_ms: firstTokenQuantile(firsts, 0.5),
      first_token_p95_ms: firstTokenQuantile(firsts, 0.95),
    }));
}
