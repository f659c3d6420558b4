/**
 * The activity log: a tenant's admins read their own, an operator anyone's; seals and anchors prove
 * it; and what one request did.
 */
import type { Context } from 'hono';
import type { Activity } from '../../contract/activity.ts';
import { hasRole } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { routes } from '../../contract/routes.ts';
import type { Details } from '../../core/reasons.ts';
import { findUserId, listActivity, readRequest } from '../../store/activity-log.ts';
import { type ActivityRow, readSeals, sealBefore } from '../../store/activity-seal.ts';
import { findTenant } from '../../store/tenants.ts';
import { actionOf } from '../action.ts';
import type { Api, ApiEnv } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { eventView } from '../workload-views.ts';
import { gatewayRequest } from './request-list.ts';

const far_future = Number.MAX_SAFE_INTEGER;

export function activityRoutes(app: Api, deps: ApiDeps): void {
  readRoutes(app, deps);
  proofRoutes(app, deps);
  eraseRoute(app, deps);
}

function readRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listActivity, async (c) => {
    const { tenant, user, route, target, since, until, cursor, limit = 50 } = c.req.valid('query');
    const tenant_id = await tenantOf(deps, c, tenant);
    const page = await deps.store.read(listActivity, {
      tenant_id,
      user_id: user === undefined ? null : await userOf(deps, tenant_id, user),
      route: route ?? null,
      target: target ?? null,
      since: since ?? 0,
      until: until ?? far_future,
      before: cursor === undefined ? null : readCursor(cursor),
      limit,
    });
    const next_cursor = page.next === null ? null : `${page.next.at}.${page.next.id}`;
    return c.json({ items: page.rows.map(activityView), next_cursor }, 200);
  });

  app.openapi(routes.showRequest, async (c) => {
    const { request: request_id } = c.req.valid('param');
    const { role, tenant_id, user_id } = c.get('principal');
    const args = { request_id, tenant_id: hasRole(role, 'operator') ? null : tenant_id };
    const found = await deps.store.read(readRequest, args);
    // The log is for admins; what you did yourself is yours to see.
    const reads_all = hasRole(role, 'tenant-admin');
    const actions = found.actions.filter((row) => reads_all || row.user_id === user_id);
    const gateway = await gatewayRequest(deps, c.get('principal'), request_id);
    if (actions.length + found.events.length === 0 && gateway === null) {
      const list = reads_all ? 'audit ls' : 'request ls';
      throw new EinsoraError('not_found', { what: `request ${request_id}`, list });
    }
    const events = found.events.map((row) => ({
      ...eventView(row, row.workload_name),
      workload_id: row.workload_id,
      workload_name: row.workload_name,
    }));
    return c.json({ request_id, actions: actions.map(activityView), events, gateway }, 200);
  });
}

function proofRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listSeals, async (c) => {
    const { tenant, after, since, limit = limits.seals_per_page } = c.req.valid('query');
    const tenant_id = await tenantOf(deps, c, tenant);
    const by_time = after === undefined && since !== undefined;
    const from = by_time ? await deps.store.read(sealBefore, { tenant_id, at: since }) : after;
    const page = await deps.store.read(readSeals, { tenant_id, after: from ?? 0, limit });
    const { previous_hash, head_seq, more, seals } = page;
    return c.json({ tenant_id, previous_hash, items: seals, head_seq, more: more === 1 }, 200);
  });

  app.openapi(routes.listAnchors, async (c) => {
    const { tenant, cursor = '0' } = c.req.valid('query');
    const tenant_id = await tenantOf(deps, c, tenant);
    if (!/^\d{1,15}$/.test(cursor)) throw new EinsoraError('bad_request', { problem: 'cursor' });
    const { anchors } = deps.activity;
    const page = await anchors.page(tenant_id, Number(cursor));
    const next_cursor = page.more ? String(page.next_offset) : null;
    return c.json({ public_key: anchors.public_key, items: page.anchors, next_cursor }, 200);
  });
}

function eraseRoute(app: Api, deps: ApiDeps): void {
  app.openapi(routes.eraseActivity, async (c) => {
    const { user } = c.req.valid('param');
    const tenant_id = await tenantOf(deps, c, c.req.valid('query').tenant);
    const user_id = await userOf(deps, tenant_id, user);
    // What is not sealed yet would be sealed with the name in it.
    await deps.activity.sealer.tick();
    let rows = 0;
    for (let first = true; ; first = false) {
      const action = first ? { action: actionOf(deps, c) } : {};
      const done = await deps.store.transact('eraseActivity', { tenant_id, user_id, ...action });
      rows += done.erased;
      if (done.left === 0) break;
    }
    return c.json({ rows }, 200);
  });
}

/** The tenant whose log is asked for: anybody's own, any for an operator. */
async function tenantOf(
  deps: ApiDeps,
  c: Context<ApiEnv>,
  tenant: string | undefined,
): Promise<string> {
  const principal = c.get('principal');
  const own = [undefined, principal.tenant_id, principal.tenant].includes(tenant);
  if (own) return principal.tenant_id;
  const is_operator = hasRole(principal.role, 'operator');
  const found = is_operator
    ? await deps.store.read(findTenant, { tenant: tenant ?? '' })
    : undefined;
  if (found === undefined)
    throw new EinsoraError('not_found', { what: `tenant ${tenant}`, list: 'tenants ls' });
  return found.id;
}

async function userOf(deps: ApiDeps, tenant_id: string, user: string): Promise<string> {
  const user_id = await deps.store.read(findUserId, { tenant_id, user });
  if (user_id === null)
    throw new EinsoraError('not_found', { what: `user ${user}`, list: 'users ls' });
  return user_id;
}

function activityView(row: ActivityRow): Activity {
  const { id, at, user_id, actor, via, proof_id, request_id, client_request_id } = row;
  const details = JSON.parse(row.details) as Details;
  const { route, target, outcome, seq } = row;
  return {
    ...{ id, at, user_id, actor, via, proof_id, request_id, client_request_id },
    ...{ route, target, outcome, details, seq },
  };
}

function readCursor(cursor: string): { at: number; id: string } {
  const match = /^(\d{1,16})\.([0-9a-z]{26})$/.exec(cursor);
  if (!match?.[1] || !match[2]) throw new EinsoraError('bad_request', { problem: 'cursor' });
  return { at: Number(match[1]), id: match[2] };
}
