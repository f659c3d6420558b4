/**
 * Every path of the control plane's own host that an upgrade opens, each with its authorisation
 * row: terminals and SSH. A registry, as routes.ts is of the API; the handlers' table in
 * controlplane/upgrades.ts has the same names, so that neither compiles without the other.
 */
import type { UserRow } from './auth.ts';

/** `path` names its parameters in braces, as routes do. A row that does not say `reads` writes. */
export type UpgradeRoute = {
  method: 'GET';
  path: string;
  auth: UserRow;
  /** What is spoken from then on; a WebSocket where left out. No browser asks for another one. */
  speaks?: typeof raw_protocol;
};

/** Bytes as they are, both ways: what SSH is spoken over. */
export const raw_protocol = 'einsora-ssh';

export const upgradeRoutes = {
  exec: {
    method: 'GET',
    path: '/v1/workloads/{workload}/exec',
    auth: { who: 'user', role: 'member', area: 'workloads' },
  },
  ssh: {
    method: 'GET',
    path: '/v1/workloads/{workload}/ssh',
    auth: { who: 'user', role: 'member', area: 'workloads' },
    speaks: raw_protocol,
  },
} as const satisfies Record<string, UpgradeRoute>;

export type UpgradeName = keyof typeof upgradeRoutes;
