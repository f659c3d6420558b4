/**
 * Single requests to endpoints, newest first: members see their own, tenant admins those of all.
 */
import { hasRole } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import type { GatewayRequest } from '../../contract/request-usage.ts';
import { routes } from '../../contract/routes.ts';
import { keysCalled, listGatewayRequests, type RequestPlace } from '../../store/request-list.ts';
import { readGatewayRequest, type ShownRequest } from '../../store/request-usage.ts';
import type { Api } from '../api.ts';
import type { ApiDeps } from '../api-deps.ts';
import type { Principal } from '../auth/principal.ts';
import { tenantOf } from './usage-asked.ts';

const usual_rows = 50;

export function requestListRoutes(app: Api, deps: ApiDeps): void {
  app.openapi(routes.listGatewayRequests, async (c) => {
    const { cursor, failed, key, limit = usual_rows, model = null, tenant } = c.req.valid('query');
    const principal = c.get('principal');
    const { id: tenant_id } = await tenantOf(deps, principal, tenant);
    const user_id = hasRole(principal.role, 'tenant-admin') ? null : principal.user_id;
    const whose = { tenant_id, user_id };
    const { rows, next } = await deps.store.read(listGatewayRequests, {
      ...{ ...whose, model, failed: failed === 'true', limit },
      key_id: key === undefined ? null : await keyCalled(deps, { ...whose, called: key }),
      before: cursor === undefined ? null : placeOf(cursor),
    });
    const items = rows.map((row) => ({ request_id: row.request_id, ...gatewayRequestView(row) }));
    const next_cursor = next === null ? null : `${next.at}.${next.request_id}`;
    return c.json({ items, next_cursor }, 200);
  });
}

async function keyCalled(
  { store }: ApiDeps,
  asked: { tenant_id: string; user_id: string | null; called: string },
): Promise<string> {
  const [key, another] = await store.read(keysCalled, asked);
  const { called } = asked;
  if (key === undefined) {
    throw new EinsoraError('not_found', { what: `key ${called}`, list: 'keys ls' });
  }
  if (another === undefined) return key.id;
  const problem = `key: more than one is called ${called}; give the id of one, as in keys ls`;
  throw new EinsoraError('bad_request', { problem });
}

function placeOf(cursor: string): RequestPlace {
  const [, at, request_id = ''] = /^(\d{1,16})\.([0-9a-z]{1,64})$/.exec(cursor) ?? [];
  if (at === undefined) throw new EinsoraError('bad_request', { problem: 'cursor' });
  return { at: Number(at), request_id };
}

/** What was recorded of a request to an endpoint; null where that is nothing, or not theirs. */
export async function gatewayRequest(
  { store }: ApiDeps,
  { role, tenant_id, user_id }: Principal,
  request_id: string,
): Promise<GatewayRequest | null> {
  const row = await store.read(readGatewayRequest, { request_id });
  if (row === undefined) return null;
  const is_own = row.tenant_id === tenant_id;
  const may_see = hasRole(role, 'operator') || (is_own && hasRole(role, 'tenant-admin'));
  if (!may_see && !(is_own && row.user_id === user_id)) return null;
  return gatewayRequestView(row);
}

function gatewayRequestView(row: ShownRequest): GatewayRequest {
  const { at, model, api, key_id, last_four, workload_id, machine_name, placed_class } = row;
  const { outcome, status, code, attempts, waited_ms, first_token_ms, duration_ms } = row;
  const { prompt_tokens, cached_tokens, completion_tokens } = row;
  return {
    ...{ at, model, api, key_id, last_four, workload_id, machine_name, placed_class },
    ...{ outcome, status, code, attempts, waited_ms, first_token_ms, duration_ms },
    ...{ prompt_tokens, cached_tokens, completion_tokens },
    ...{ is_stream: row.is_stream === 1, is_estimated: row.is_estimated === 1 },
  };
}
