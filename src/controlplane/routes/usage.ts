/**
 * Usage reports.
 */
import { hasRole } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import type { UsageGroup } from '../../core/usage.ts';
import { userNames } from '../../store/accounts.ts';
import { findTenant } from '../../store/tenants.ts';
import { workloadNames } from '../../store/usage.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import type { Principal } from '../auth/principal.ts';
import { tallyUsage } from '../usage-report.ts';

const day_ms = 24 * 3600_000;
const usual_ms = 30 * day_ms;
const longest_ms = 3660 * day_ms;
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

function windowOf(asked: { from?: string | undefined; to?: string | undefined }, now: number) {
  const to = asked.to === undefined ? now : readMoment(asked.to);
  const from = asked.from === undefined ? to - usual_ms : readMoment(asked.from);
  if (from > to) throw new EinsoraError('bad_request', { problem: 'from: it is after to' });
  if (to - from > longest_ms) {
    throw new EinsoraError('bad_request', { problem: 'from: at most ten years are shown at once' });
  }
  return { from, to };
}

function readMoment(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  const at = Date.parse(text);
  // A parser may take the 30th of February for the 2nd of March.
  const is_day = Number.isFinite(at) && new Date(at).toISOString().startsWith(text.slice(0, 10));
  if (!is_day) throw new EinsoraError('bad_request', { problem: `no such moment: ${text}` });
  return at;
}

/** Their own tenant; for operators any. Another one looks like none. */
async function tenantOf(deps: ApiDeps, principal: Principal, tenant: string | undefined) {
  if (tenant === undefined) return { id: principal.tenant_id, slug: principal.tenant };
  const row = await deps.store.read(findTenant, { tenant });
  const may_see = row?.id === principal.tenant_id || hasRole(principal.role, 'operator');
  if (row === undefined || !may_see) {
    throw new EinsoraError('not_found', { what: `tenant ${tenant}`, list: 'tenants ls' });
  }
  return row;
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

function encodeKey(key: string): string {
  return Buffer.from(key).toString('base64url');
}

function readKey(cursor: string): string {
  if (!/^[\w-]{1,200}$/.test(cursor)) throw new EinsoraError('bad_request', { problem: 'cursor' });
  return Buffer.from(cursor, 'base64url').toString();
}
