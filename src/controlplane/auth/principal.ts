/**
 * Who is asking: a session's cookie or an API token, turned into a principal.
 *
 * Invariants: nobody is trusted for an address or a forwarded header; a bearer request ignores
 * cookies entirely; every proof is looked up by its hash; a write that rides on a cookie must come
 * from our own page (Sec-Fetch-Site, or the exact Origin where a browser does not send it).
 */

import type { Role } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { limits } from '../../contract/limits.ts';
import { isScope, reachNow, type Scope } from '../../core/scopes.ts';
import { checkToken } from '../../core/token.ts';
import type { Clock } from '../../lib/clock.ts';
import { digest } from '../../lib/secret.ts';
import { type PrincipalRow, principalOfSession, principalOfToken } from '../../store/accounts.ts';
import type { EinsoraStore } from '../../store/transactions.ts';

export type Principal = {
  user_id: string;
  user_name: string;
  /** What this proof may do: of a token, never more than its user may by now. */
  role: Role;
  tenant_id: string;
  tenant: string;
  via: 'token' | 'session';
  /** Id of the session or token. */
  proof_id: string;
  /** Null: not narrowed. */
  scopes: readonly Scope[] | null;
  /** When the proof ends by age. */
  expires_at: number | null;
  /** It may do all that its user may. */
  is_whole: boolean;
};

export type Headers = { get(name: string): string | null | undefined };

/** A proof is marked as used at most this often: a read must not become a write. */
const touch_every_ms = 60_000;
const touches_kept = 10_000;

/** Marks a proof as used, where that is due. Never fails: a full disk must not end reading. */
export type Touch = (via: Principal['via'], row: PrincipalRow, now: number) => Promise<void>;

/** Of many requests at once by one proof, one writes. */
export function createTouch(store: EinsoraStore): Touch {
  const touched = new Map<string, number>();
  return async (via, row, now) => {
    const id = row.proof_id;
    if (now - Math.max(row.last_used_at, touched.get(id) ?? 0) <= touch_every_ms) return;
    touched.delete(id);
    touched.set(id, now);
    if (touched.size > touches_kept) touched.delete([...touched.keys()][0] ?? '');
    const name = via === 'token' ? 'touchToken' : 'touchSession';
    await store.transact(name, { id, now }).catch(() => null);
  };
}

export async function principalOf(
  deps: { store: EinsoraStore; clock: Clock; touch: Touch },
  headers: Headers,
  cookie_name: string,
): Promise<Principal | null> {
  const now = deps.clock.now();
  const authorization = headers.get('authorization');
  if (authorization) {
    const token = /^bearer +(\S+)$/i.exec(authorization)?.[1];
    if (token === undefined || !checkToken('tsk_', token)) return null;
    const row = await deps.store.read(principalOfToken, { hash: digest(token), now });
    if (row === undefined) return null;
    await deps.touch('token', row, now);
    return toPrincipal(row, 'token');
  }
  const session = cookieOf(headers, cookie_name);
  if (session === null || !/^[A-Za-z0-9_-]{43}$/.test(session)) return null;
  const row = await deps.store.read(principalOfSession, {
    hash: digest(session),
    now,
    idle_before: now - limits.session_idle_ms,
  });
  if (row === undefined) return null;
  await deps.touch('session', row, now);
  return toPrincipal(row, 'session');
}

function toPrincipal(row: PrincipalRow, via: Principal['via']): Principal {
  const { user_id, user_name, tenant_id, tenant_slug, proof_id, expires_at } = row;
  // A scope that this version does not know opens nothing.
  const scopes = row.scopes === null ? null : row.scopes.split(' ').filter(isScope);
  const { role } = reachNow({ role: row.proof_role ?? row.role, scopes, expires_at }, row.role);
  const is_whole = scopes === null && role === row.role;
  const who = { user_id, user_name, role, tenant_id, tenant: tenant_slug };
  return { ...who, via, proof_id, scopes, expires_at, is_whole };
}

/** May this request write with the authority of a cookie? */
export function isSameOrigin(headers: Headers, own_origin: string): boolean {
  const site = headers.get('sec-fetch-site');
  if (site) return site === 'same-origin';
  return headers.get('origin') === own_origin;
}

/** Who is not signed in has no cookie to judge by; a page of another site is refused anyway. */
export function refuseOtherSite(headers: Headers): void {
  const site = headers.get('sec-fetch-site');
  if (site && site !== 'same-origin') throw new EinsoraError('cross_site');
}

export function headersOf(c: { req: { header(name: string): string | undefined } }): Headers {
  return { get: (name) => c.req.header(name) };
}

/** The one value of a cookie; null where there is none, or two that disagree. */
export function cookieOf(headers: Headers, name: string): string | null {
  const values = (headers.get('cookie') ?? '')
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(`${name}=`))
    .map((part) => part.slice(name.length + 1));
  return values.length === 1 ? (values[0] ?? null) : null;
}
