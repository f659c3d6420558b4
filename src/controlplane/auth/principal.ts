/**
 * Who is asking: a session's cookie or an API token, turned into a principal.
 *
 * Invariants: nobody is trusted for an address or a forwarded header; a bearer request ignores
 * cookies entirely; every proof is looked up by its hash; a write that rides on a cookie must come
 * from our own page (Sec-Fetch-Site, or the exact Origin where a browser does not send it).
 */

import type { Role } from '../../contract/auth.ts';
import { limits } from '../../contract/limits.ts';
import { checkToken } from '../../core/token.ts';
import type { Clock } from '../../lib/clock.ts';
import { digest } from '../../lib/secret.ts';
import { principalOfSession, principalOfToken } from '../../store/accounts.ts';
import type { EinsoraStore } from '../../store/transactions.ts';

export type Principal = {
  user_id: string;
  user_name: string;
  role: Role;
  tenant_id: string;
  tenant: string;
  via: 'token' | 'session';
  /** Id of the session or token. */
  proof_id: string;
};

export type Headers = { get(name: string): string | null | undefined };

/** A session is marked as used at most this often: a read must not become a write. */
const touch_every_ms = 60_000;

export async function principalOf(
  deps: { store: EinsoraStore; clock: Clock },
  headers: Headers,
  cookie_name: string,
): Promise<Principal | null> {
  const now = deps.clock.now();
  const authorization = headers.get('authorization');
  if (authorization) {
    const token = /^bearer +(\S+)$/i.exec(authorization)?.[1];
    if (token === undefined || !checkToken('tsk_', token)) return null;
    const row = await deps.store.read(principalOfToken, { hash: digest(token), now });
    return row === undefined ? null : { ...toPrincipal(row), via: 'token' };
  }
  const session = cookieOf(headers, cookie_name);
  if (session === null || !/^[A-Za-z0-9_-]{43}$/.test(session)) return null;
  const row = await deps.store.read(principalOfSession, {
    hash: digest(session),
    now,
    idle_before: now - limits.session_idle_ms,
  });
  if (row === undefined) return null;
  if (now - row.last_used_at > touch_every_ms) {
    await deps.store.transact('touchSession', { id: row.proof_id, now });
  }
  return { ...toPrincipal(row), via: 'session' };
}

function toPrincipal(row: {
  user_id: string;
  user_name: string;
  role: Role;
  tenant_id: string;
  tenant_slug: string;
  proof_id: string;
}) {
  const { user_id, user_name, role, tenant_id, tenant_slug, proof_id } = row;
  return { user_id, user_name, role, tenant_id, tenant: tenant_slug, proof_id };
}

/** May this request write with the authority of a cookie? */
export function isSameOrigin(headers: Headers, own_origin: string): boolean {
  const site = headers.get('sec-fetch-site');
  if (site) return site === 'same-origin';
  return headers.get('origin') === own_origin;
}

/** The one value of a cookie; null where there is none, or two that disagree. */
function cookieOf(headers: Headers, name: string): string | null {
  const values = (headers.get('cookie') ?? '')
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(`${name}=`))
    .map((part) => part.slice(name.length + 1));
  return values.length === 1 ? (values[0] ?? null) : null;
}
