/**
 * The authorisation row of a route: who may call it. It is a required field of every route, so a
 * route without one does not compile; the server enforces it before the handler is reached.
 */
import { createRoute, type RouteConfig } from '@hono/zod-openapi';

export const roles = ['viewer', 'member', 'tenant-admin', 'operator'] as const;
export type Role = (typeof roles)[number];

/**
 * What a route is about. A token's scopes are `<area>:read` and `<area>:write`; `self` (who am I,
 * sign out) needs no scope.
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

export type AuthRow =
  /** Anyone who reaches the listener. */
  | { who: 'anyone' }
  /** A signed-in session or an API token whose user has at least this role. */
  | { who: 'user'; role: Role; area: Area }
  /** An `ept_` endpoint key, and nothing else (gateway paths). */
  | { who: 'endpoint-key' };

/** Does a user of role `held` reach what needs `needed`? */
export function hasRole(held: Role, needed: Role): boolean {
  return roles.indexOf(held) >= roles.indexOf(needed);
}

/** Defines a route of the API together with its authorisation row. */
export function defineRoute<const R extends RouteConfig>(auth: AuthRow, config: R) {
  const security: Record<string, string[]>[] =
    auth.who === 'user' ? [{ token: [] }, { session: [] }] : [];
  return Object.assign(createRoute({ ...config, security }), { auth });
}
