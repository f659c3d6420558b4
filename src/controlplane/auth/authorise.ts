/**
 * What the authorisation row of a route makes of somebody who is known: one judgement for the API
 * and for upgrades.
 *
 * Invariants: role, then scope, then whether the proof is whole; throws an EinsoraError, and
 * decides nothing about which object is meant.
 */
import { hasRole, hasScope, scopeOf, type UserRow } from '../../contract/auth.ts';
import { EinsoraError } from '../../contract/errors.ts';
import type { Principal } from './principal.ts';

export function judgePrincipal(principal: Principal, row: UserRow, method: string): void {
  if (!hasRole(principal.role, row.role)) {
    throw new EinsoraError('forbidden', { role: row.role, yours: principal.role });
  }
  const scope = scopeOf(row, method);
  if (!hasScope(principal.scopes, scope)) throw new EinsoraError('scope_missing', { scope });
  if (row.whole === true && !principal.is_whole) throw new EinsoraError('token_too_narrow');
}
