/**
 * What reports of usage are asked for: whose, in which window, from which row on.
 */
import { hasRole } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { findTenant } from '../../store/tenants.ts';
import type { ApiDeps } from '../api-deps.ts';
import type { Principal } from '../auth/principal.ts';

export const day_ms = 24 * 3600_000;
const usual_ms = 30 * day_ms;
const longest_ms = 3660 * day_ms;

export function windowOf(
  asked: { from?: string | undefined; to?: string | undefined },
  now: number,
) {
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
export async function tenantOf(deps: ApiDeps, principal: Principal, tenant: string | undefined) {
  if (tenant === undefined) return { id: principal.tenant_id, slug: principal.tenant };
  const row = await deps.store.read(findTenant, { tenant });
  const may_see = row?.id === principal.tenant_id || hasRole(principal.role, 'operator');
  if (row === undefined || !may_see) {
    throw new EinsoraError('not_found', { what: `tenant ${tenant}`, list: 'tenants ls' });
  }
  return row;
}

export function encodeKey(key: string): string {
  return Buffer.from(key).toString('base64url');
}

export function readKey(cursor: string): string {
  if (!/^[\w-]{1,200}$/.test(cursor)) throw new EinsoraError('bad_request', { problem: 'cursor' });
  return Buffer.from(cursor, 'base64url').toString();
}
