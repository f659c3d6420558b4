/**
 * Usage reports.
 */
import { hasRole } from '../../contract/auth.ts';
import { routes } from '../../contract/routes.ts';
import type { UsageGroup } from '../../core/usage.ts';
import { userNames } from '../../store/accounts.ts';
import { workloadNames } from '../../store/usage.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { tallyUsage } from '../usage-report.ts';
import { encodeKey, readKey, tenantOf, windowOf } from './usage-asked.ts';

const usual_rows = 50;

export function usageRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.showUsage, async (c) => {
    const {
      from,
      to,
      group_by = 'user',
      tenant,
      cursor,
      limit = usual_rows,
    } = c.req.valid('query');
    const principal = c.get('principal');
    const window = windowOf({ from, to }, deps.clock.now());
    const whose = await tenantOf(deps, principal, tenant);
    const user_id = hasRole(principal.role, 'tenant-admin') ? null : principal.user_id;
    const tally = await tallyUsage(deps, { ...window, tenant_id: whose.id, user_id, group_by });
    const after = cursor === undefined ? null : readKey(cursor);
    const rest = tally.groups().filter(([key]) => after === null || key > after);
    const page = rest.slice(0, limit);
    const names = await namesOf(
      deps,
      group_by,
      page.map(([key]) => key),
    );
    const items = page.map(([key, usage]) => ({ key, name: names.get(key) ?? key, ...usage }));
    const last = rest.length > limit ? page.at(-1) : undefined;
    const next_cursor = last === undefined ? null : encodeKey(last[0]);
    const total = tally.total();
    return c.json({ tenant: whose.slug, ...window, group_by, total, items, next_cursor }, 200);
  });
}

async function namesOf(
  deps: ApiDeps,
  group_by: UsageGroup,
  ids: string[],
): Promise<Map<string, string>> {
  if (group_by !== 'user' && group_by !== 'workload') return new Map();
  const query = group_by === 'user' ? userNames : workloadNames;
  const rows = await deps.store.read(query, { ids });
  return new Map(rows.map(({ id, name }) => [id, name]));
}
