/**
 * Every path of the control plane's own host that a WebSocket opens, each with its authorisation
 * row: terminals and SSH. A registry, as routes.ts is of the API; the handlers' table in
 * controlplane/upgrades.ts has the same names, so that neither compiles without the other.
 */
import type { UserRow } from './auth.ts';

/** `path` names its parameters in braces, as routes do. A row that does not say `reads` writes. */
export type UpgradeRoute = { method: 'GET'; path: string; auth: UserRow };

export const upgradeRoutes = {} as const satisfies Record<string, UpgradeRoute>;

export type UpgradeName = keyof typeof upgradeRoutes;
