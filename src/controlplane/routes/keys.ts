/**
 * Endpoint keys: made, listed without their secrets, revoked.
 */
import { EinsoraError } from '../../contract/errors.ts';
import { routes } from '../../contract/routes.ts';
import { makeId } from '../../core/ids.ts';
import { digest } from '../../lib/secret.ts';
import { listKeys } from '../../store/keys.ts';
import { StoreError } from '../../store/sql.ts';
import { actionOf } from '../action.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import { keyView } from '../workload-views.ts';
import { found, idempotencyOf, unwrap } from './workloads.ts';

const listed_keys = 200;

export function keyRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.createKey, async (c) => {
    const body = c.req.valid('json');
    const { workload } = c.req.valid('param');
    const { tenant_id, user_id } = c.get('principal');
    const idempotency = idempotencyOf(c, body);
    const key = deps.proofs.makeEndpointKey(idempotency).reveal();
    const now = deps.clock.now();
    const create = deps.store.transact('createKey', {
      id: makeId(now, deps.random.bytes(10)),
      tenant_id,
      user_id,
      workload,
      hash: digest(key),
      last_four: key.slice(-4),
      now,
      expires_at: body.expires_in_ms === undefined ? null : now + body.expires_in_ms,
      ...(body.limits === undefined ? {} : { limits: body.limits }),
      idempotency,
      action: actionOf(deps, c),
    });
    const result = unwrap(await create.catch(refuseDerivedAgain));
    if (!result.ok) throw new EinsoraError('not_found', { what: `endpoint ${workload}` });
    refuseAnother(result.row, key);
    return c.json({ ...keyView(result.row, deps.limiter.useOf('key', result.row.id)), key }, 201);
  });

  app.openapi(routes.listKeys, async (c) => {
    const row = await found(deps, c);
    const rows = await deps.store.read(listKeys, { workload_id: row.id, limit: listed_keys });
    return c.json(
      { items: rows.map((key) => keyView(key, deps.limiter.useOf('key', key.id))) },
      200,
    );
  });

  app.openapi(routes.revokeKey, async (c) => {
    const row = await found(deps, c);
    const { key_id } = c.req.valid('param');
    const action = actionOf(deps, c);
    const args = { workload_id: row.id, key_id, now: action.now, action };
    const { found: count } = await deps.store.transact('revokeKey', args);
    if (count === 0)
      throw new EinsoraError('not_found', { what: `key ${key_id}`, list: 'keys ls' });
    return c.body(null, 204);
  });
}

/**
 * A repeat derives the secret once more, and under another pepper (a lost file, another control
 * plane) another one: it must not be shown as the one that was made.
 */
export function refuseAnother(row: { last_four: string }, secret: string): void {
  if (!secret.endsWith(row.last_four)) throw new EinsoraError('idempotency_key_reused');
}

/**
 * An Idempotency-Key whose first use is forgotten (a day later) derives the key, token or link of
 * then once more: it exists, so nothing is made.
 */
export function refuseDerivedAgain(error: unknown): never {
  const exists = error instanceof StoreError && error.code === 'unique';
  throw exists ? new EinsoraError('idempotency_key_reused', {}, error) : error;
}
