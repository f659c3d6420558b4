/**
 * The authorisation row of a route: who may call it. It is a required field of every route, so a
 * route without one does not compile; the server enforces it before the handler is reached.
 *
 * Invariants: roles are ordered, and a token's scopes only take away (ADR-0028); `scopeOf` is the
 * one place that says which scope a route needs.
 */
import { createRoute, type RouteConfig } from '@hono/zod-openapi';
import type { Role } from '../core/roles.ts';
import type { Area, Scope } from '../core/scopes.ts';

export { hasRole, lowerRole, type Role, roles } from '../core/roles.ts';
export { type Area, areas, hasScope, isScope, type Scope, scopes } from '../core/scopes.ts';

export type UserRow = {
  who: 'user';
  role: Role;
  area: Area;
  /** Changes nothing, although it is no GET. */
  reads?: true;
  /**
   * Gives somebody a proof of all that they may do: refused to a token that is narrower than its
   * user.
   */
  whole?: true;
};

export type AuthRow =
  /** Anyone who reaches the listener. */
  | { who: 'anyone' }
  /** A signed-in session or an API token whose user has at least this role. */
  | UserRow
  /** An `ept_` endpoint key, and nothing else (gateway paths). */
  | { who: 'endpoint-key' };

/** The scope that a narrowed token needs for a route; null where it needs none. */
export function scopeOf(row: UserRow, method: string): Scope | null {
  if (row.area === 'self') return null;
  const reads = row.reads === true || /^(?:get|head)$/i.test(method);
  return `${row.area}:${reads ? 'read' : 'write'}`;
}

/** Defines a route of the API together with its authorisation row. */
export function defineRoute<const R extends RouteConfig>(auth: AuthRow, config: R) {
  const security: Record<string, string[]>[] =
    auth.who === 'user' ? [{ token: [] }, { session: [] }] : [];
  return Object.assign(createRoute({ ...config, security }), { auth });
}
