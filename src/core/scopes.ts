/**
 * What a token may do: its role and scopes, which only narrow what its user may do. Pure.
 *
 * Invariants: a token made with another one is at most as wide: role, scopes and expiry (ADR-0028).
 */
import { hasRole, lowerRole, type Role } from './roles.ts';

/**
 * What a route is about. A token's scopes are `<area>:read` and `<area>:write` (which reads, too);
 * `self` (who am I, sign out) needs no scope.
 */
export const areas = [
  'workloads',
  'models',
  'machines',
  'accounts',
  'usage',
  'activity',
  'secrets',
] as const;
export type Area = (typeof areas)[number] | 'self';

export const scopes = areas.flatMap((area) => [`${area}:read`, `${area}:write`] as const);
export type Scope = (typeof scopes)[number];

/** Do these scopes hold the one that is needed? Null is all of them; writing includes reading. */
export function hasScope(held: readonly Scope[] | null, needed: Scope | null): boolean {
  if (held === null || needed === null || held.includes(needed)) return true;
  return held.some((scope) => scope === needed.replace(/:read$/, ':write'));
}

export function isScope(text: string): text is Scope {
  return (scopes as readonly string[]).includes(text);
}

/** How far a proof reaches. Of a session: the user's role, all scopes, no expiry of its own. */
export type Reach = { role: Role; scopes: readonly Scope[] | null; expires_at: number | null };

export type Asked = {
  role?: Role | undefined;
  scopes?: readonly Scope[] | undefined;
  /** Undefined: whatever is usual. */
  expires_at?: number | null | undefined;
};

/**
 * How far a token may reach that is made with such a proof: what was asked, completed from the
 * proof; or what of it is too wide.
 */
export function reachOfNew(
  proof: Reach,
  asked: Asked,
  usual_expiry: number,
): { ok: true; reach: Reach } | { ok: false; what: string } {
  const { role = proof.role, scopes: wanted = proof.scopes } = asked;
  if (!hasRole(proof.role, role)) return { ok: false, what: `its role is ${proof.role}` };
  const over = wanted?.find((scope) => !hasScope(proof.scopes, scope));
  if (over !== undefined) return { ok: false, what: `it lacks the scope ${over}` };
  const until = proof.expires_at;
  const expires_at =
    asked.expires_at === undefined ? earlier(usual_expiry, until) : asked.expires_at;
  if (until !== null && (expires_at === null || expires_at > until)) {
    return { ok: false, what: 'it expires sooner' };
  }
  return { ok: true, reach: { role, scopes: wanted, expires_at } };
}

/** What a token may do now: its own reach, under the role that its user has by now. */
export function reachNow(token: Reach, user_role: Role): Reach {
  return { ...token, role: lowerRole(token.role, user_role) };
}

function earlier(one: number, other: number | null): number {
  return other === null ? one : Math.min(one, other);
}
