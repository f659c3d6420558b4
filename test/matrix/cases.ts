/**
 * What the matrix needs to know of each route beyond its own row: how to ask for something that is
 * there, and who reaches what is not their own.
 *
 * A route without a case fails the matrix.
 */
import type { RouteName } from '../../src/contract/routes.ts';
import { accountCases, moreCases } from './account-cases.ts';
import { catalogCases } from './catalog-cases.ts';
import { workloadCases } from './workload-cases.ts';
import type { Person, Place, World } from './world.ts';

/** Whose object is asked for. */
export type Owner = { place: Place; person: Person };

export type Asked = {
  path?: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
  headers?: Record<string, string>;
  /** How the object is called in path, query or body. */
  object?: string;
};

export type Case = {
  ask(world: World, owner: Owner, asking: Person): Promise<Asked>;
  /**
   * Whom an object is there for, beside an operator: everybody of its tenant with the route's role,
   * or its own user and the admins of their tenant. Null: nothing is named.
   */
  reach: 'tenant' | 'user' | null;
  /** Is it there for an operator of another tenant? */
  operator: boolean;
};

export const cases: Partial<Record<RouteName, Case>> = {
  ...accountCases,
  ...catalogCases,
  ...workloadCases,
};

/** What else a route's query can name, beside what its case asks for. */
export const more_cases: Partial<Record<RouteName, Case>> = moreCases;

/** Parameters of a query that name something of somebody. */
export const naming = ['tenant', 'user', 'workload', 'machine'] as const;
