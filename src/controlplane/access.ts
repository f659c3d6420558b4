/**
 * The ways into workloads, put together: their sites, and the upgrades of our own host.
 */
import type { Sites } from '../access/site.ts';
import type { Clock } from '../lib/clock.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { Revocations } from './auth/revocations.ts';
import { createUpgrades, type UpgradeHandlers, type Upgrades } from './upgrades.ts';

export type AccessDeps = {
  store: EinsoraStore;
  clock: Clock;
  revocations: Revocations;
  cookieName: () => string;
};

export type Access = { sites: Sites; upgrades: Upgrades };

export function openAccess(deps: AccessDeps): Access {
  const sites: Sites = {
    handle: (_, response) => void response.writeHead(404).end(),
    upgrade: (_, socket) => void socket.destroy(),
  };
  return { sites, upgrades: createUpgrades(deps, upgradeHandlers(deps)) };
}

/** A handler for each row of contract/upgrades.ts. */
function upgradeHandlers(_deps: AccessDeps): UpgradeHandlers {
  return {};
}
