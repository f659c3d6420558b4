/**
 * Requests to endpoints, as they are recorded: reports by whole days.
 */
import { hasRole } from '../../contract/auth.ts';
import type { RequestGroup, RequestUsagePage } from '../../contract/request-usage.ts';
import { routes } from '../../contract/routes.ts';
import { firstTokenQuantile } from '../../core/first-token.ts';
import { dayName } from '../../core/usage.ts';
import { userNames } from '../../store/accounts.ts';
import {
  type NamedKey,
  namedKeys,
  type RequestSums,
  requestTotal,
  requestUsage,
} from '../../store/request-usage.ts';
import { first_columns } from '../../store/requests.ts';
import { workloadNames } from '../../store/usage.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { requestListRoutes } from './request-list.ts';
import { day_ms, encodeKey, readKey, tenantOf, windowOf } from './usage-asked.ts';

const usual_rows = 50;

export function requestUsageRoutes(app: Api, deps: ApiDeps): void {
  requestListRoutes(app, deps);
  app.openapi(routes.showRequestUsage, async (c) => {
    const asked = c.req.valid('query');
    const { group_by = 'model', cursor, limit = usual_rows } = asked;
    const principal = c.get('principal');
    const window = wholeDays(windowOf(asked, deps.clock.now()));
    const whose = await tenantOf(deps, principal, asked.tenant);
    const user_id = hasRole(principal.role, 'tenant-admin') ? null : principal.user_id;
    const args = { ...window, tenant_id: whose.id, user_id, group_by };
    const after = cursor === undefined ? null : readKey(cursor);
    const total = await deps.store.read(requestTotal, args);
    const rows = await deps.store.read(requestUsage, { ...args, after, limit: limit + 1 });
    const page = rows.slice(0, limit);
    const ids = page.map(({ key }) => key);
    const names = await namesOf(deps, whose.id, group_by, ids);
    const items = page.map((row) => {
      const { key } = row;
      return { key, name: names.get(key) ?? nameOf(group_by, key), ...figuresOf(row) };
    });
    const last = rows.length > limit ? page.at(-1) : undefined;
    const next_cursor = last === undefined ? null : encodeKey(last.key);
    const answer = { tenant: whose.slug, ...window, group_by, items, next_cursor };
    return c.json({ ...answer, total: figuresOf(total) }, 200);
  });
}

/** The days that the window touches: what is kept are sums of days. */
function wholeDays({ from, to }: { from: number; to: number }) {
  return { from: Math.floor(from / day_ms) * day_ms, to: Math.ceil(to / day_ms) * day_ms };
}

function figuresOf(row: RequestSums | undefined): RequestUsagePage['total'] {
  const firsts = first_columns.map((name) => Number(row?.[name] ?? 0));
  const figure = (name: keyof RequestSums) => Number(row?.[name] ?? 0);
  return {
    requests: figure('requests'),
    answered: figure('answered'),
    refused: figure('refused'),
    cut: figure('cut'),
    client_left: figure('client_left'),
    attempts: figure('attempts'),
    prompt_tokens: figure('prompt_tokens'),
    cached_tokens: figure('cached_tokens'),
    completion_tokens: figure('completion_tokens'),
    estimated: figure('estimated'),
    first_token_p50_ms: firstTokenQuantile(firsts, 0.5),
    first_token_p95_ms: firstTokenQuantile(firsts, 0.95),
  };
}

function nameOf(group_by: RequestGroup, key: string): string {
  if (group_by === 'day') return dayName(Number(key));
  return key === '' ? '(none)' : key;
}

async function namesOf(
  deps: ApiDeps,
  tenant_id: string,
  group_by: RequestGroup,
  ids: string[],
): Promise<Map<string, string>> {
  if (group_by === 'key') {
    const rows = await deps.store.read(namedKeys, { tenant_id, user_id: null, ids });
    return new Map(rows.map((row) => [row.id, keyName(row)]));
  }
  if (group_by !== 'user') return new Map();
  // A key of a run is of its workload, and of no user.
  const of_runs = await deps.store.read(workloadNames, { ids });
  const users = await deps.store.read(userNames, { ids });
  return new Map([
    ...of_runs.map(({ id, name }): [string, string] => [id, `run of ${name}`]),
    ...users.map(({ id, name }): [string, string] => [id, name]),
  ]);
}

/** Keys have no names: their last characters, and what they are for. */
export function keyName({ last_four, workload_name }: NamedKey): string {
  return last_four === null ? `run of ${workload_name}` : `…${last_four} (${workload_name})`;
}
