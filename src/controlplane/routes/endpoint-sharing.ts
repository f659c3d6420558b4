/**
 * Endpoints that their owners opened to others, and keys by the name of a model.
 *
 * Invariants: a model that is not open to the asker is answered like one that does not exist; of
 * another tenant's endpoint nothing is shown but its name and whose it is.
 */
import { hasRole } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import { makeId } from '../../core/ids.ts';
import { requestLimitsOf } from '../../core/request-limits.ts';
import { digest } from '../../lib/secret.ts';
import {
  type EndpointSharing,
  listOpenEndpoints,
  readEndpointSharing,
  type ShareEndpointResult,
} from '../../store/endpoint-guests.ts';
import { findModelKey, listModelKeys, type ModelKey } from '../../store/model-keys.ts';
import { findTenant } from '../../store/tenants.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import type { Principal } from '../auth/principal.ts';
import { refuseAnother, refuseDerivedAgain } from './keys.ts';
import { found, idempotencyOf, unwrap } from './workloads.ts';

const listed = 200;

export function endpointSharingRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.showEndpointSharing, async (c) => {
    const row = await found(deps, c);
    if (row.kind !== 'endpoint') throw notFound(`endpoint ${row.name}`);
    const sharing = await deps.store.read(readEndpointSharing, { workload_id: row.id });
    return c.json(await sharingView(deps, row, sharing), 200);
  });

  app.openapi(routes.shareEndpoint, async (c) => {
    const { invite = [], uninvite = [], community } = c.req.valid('json');
    const { workload } = c.req.valid('param');
    const { tenant_id } = c.get('principal');
    const action = actionOf(deps, c);
    const done = await deps.store.transact('shareEndpoint', {
      ...{ tenant_id, workload, invite, uninvite, now: action.now, action },
      community: community === undefined ? null : Number(community),
    });
    if (!done.ok) throw refused(done, workload);
    return c.json(await sharingView(deps, done.row, done.sharing), 200);
  });

  app.openapi(routes.listOpenModels, async (c) => {
    const { tenant_id } = c.get('principal');
    const rows = await deps.store.read(listOpenEndpoints, { tenant_id, limit: listed });
    const items = rows.map(({ model, owner, created_at }) => ({ model, owner, created_at }));
    return c.json({ items }, 200);
  });
}

export function modelKeyRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.createModelKey, async (c) => {
    const body = c.req.valid('json');
    const { models, limits, expires_in_ms } = body;
    const { tenant_id, user_id } = c.get('principal');
    const idempotency = idempotencyOf(c, body);
    const key = deps.proofs.makeEndpointKey(idempotency).reveal();
    const action = actionOf(deps, c);
    const { now } = action;
    const create = deps.store.transact('createModelKey', {
      ...{ id: makeId(now, deps.random.bytes(10)), tenant_id, user_id, models, now },
      ...{ hash: digest(key), last_four: key.slice(-4), idempotency, action },
      expires_at: expires_in_ms === undefined ? null : now + expires_in_ms,
      ...(limits === undefined ? {} : { limits }),
    });
    const made = unwrap(await create.catch(refuseDerivedAgain));
    if (!made.ok) throw noModel(made.model);
    refuseAnother(made.row, key);
    return c.json(
      { ...keyView(deps, c.get('principal'), made), key, base_url: deps.gateway_url() },
      201,
    );
  });

  app.openapi(routes.listModelKeys, async (c) => {
    const principal = c.get('principal');
    const { tenant_id } = principal;
    const rows = await deps.store.read(listModelKeys, { tenant_id, limit: listed });
    return c.json({ items: rows.map((key) => keyView(deps, principal, key)) }, 200);
  });

  app.openapi(routes.limitModelKey, async (c) => {
    const { key_id } = c.req.valid('param');
    const { tenant_id } = c.get('principal');
    const args = { tenant_id, key_id, limits: c.req.valid('json'), action: actionOf(deps, c) };
    await deps.store.transact('limitKey', args);
    const key = await deps.store.read(findModelKey, { tenant_id, key_id });
    if (key === undefined) throw notFound(`key ${key_id}`, 'keys ls');
    return c.json(keyView(deps, c.get('principal'), key), 200);
  });

  app.openapi(routes.revokeModelKey, async (c) => {
    const { key_id } = c.req.valid('param');
    const { tenant_id } = c.get('principal');
    const action = actionOf(deps, c);
    const args = { tenant_id, key_id, now: action.now, action };
    const { found: count } = await deps.store.transact('revokeModelKey', args);
    if (count === 0) throw notFound(`key ${key_id}`, 'keys ls');
    return c.body(null, 204);
  });
}

function keyView({ limiter }: ApiDeps, principal: Principal, { row, models }: ModelKey) {
  const { id, last_four, created_at, expires_at, revoked_at } = row;
  const limits = requestLimitsOf(row);
  const use = limiter.useOf('key', id);
  const may_know = row.user_id === principal.user_id || hasRole(principal.role, 'tenant-admin');
  const last_used_at = may_know ? (row.last_used_at ?? null) : null;
  const moments = { created_at, expires_at, revoked_at, last_used_at };
  return { id, models, limits, use, last_four, ...moments };
}

async function sharingView(
  deps: ApiDeps,
  row: { tenant_id: string; name: string },
  { community, tenants }: EndpointSharing,
) {
  const tenant = await deps.store.read(findTenant, { tenant: row.tenant_id });
  const model = `${tenant?.slug ?? ''}/${row.name}`;
  return { model, community: community === 1, invited: tenants };
}

function refused(done: Exclude<ShareEndpointResult, { ok: true }>, workload: string): EinsoraError {
  switch (done.code) {
    case 'not_found':
      return done.tenant === null
        ? notFound(`endpoint ${workload}`)
        : new EinsoraError('not_found', { what: `tenant ${done.tenant}`, list: 'tenants ls' });
    case 'endpoint_guests_full':
      return new EinsoraError(done.code, { limit: done.limit });
    case 'machine_not_shared':
      return new EinsoraError(done.code, { machine: done.machine, tenant: done.tenant });
  }
}

/** The lists of names of one's own models, and of others'. */
function noModel(model: string): EinsoraError {
  return notFound(`model ${model}`, model.includes('/') ? 'endpoint open' : 'routes');
}

function notFound(what: string, list = 'ls'): EinsoraError {
  return new EinsoraError('not_found', { what, list });
}
