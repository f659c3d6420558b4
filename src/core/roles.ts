/**
 * Roles, in order: each may do what those before it may. Pure.
 */
export const roles = ['viewer', 'member', 'tenant-admin', 'operator'] as const;
export type Role = (typeof roles)[number];

/** Does a user of role `held` reach what needs `needed`? */
export function hasRole(held: Role, needed: Role): boolean {
  return roles.indexOf(held) >= roles.indexOf(needed);
}

/** The lower of two roles: what a token of one may do whose user has the other. */
export function lowerRole(one: Role, other: Role): Role {
  return hasRole(one, other) ? other : one;
}
