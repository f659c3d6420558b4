/**
 * What a rig serves beside its API: the upgrades of the control plane's own host, and no sites.
 */
import { createExecs } from '../../src/access/exec/execs.ts';
import type { Sites } from '../../src/access/site.ts';
import type { HostKey } from '../../src/access/ssh/host-key.ts';
import type { ApiDeps } from '../../src/controlplane/api-deps.ts';
import { createSsh } from '../../src/controlplane/ssh.ts';
import { createUpgrades, type Upgrades } from '../../src/controlplane/upgrades.ts';
import type { Log } from '../../src/lib/log.ts';

export function rigUpgrades(deps: ApiDeps & { log: Log }, host_key: HostKey): Upgrades {
  const touched = () => {};
  const watch = () => () => {};
  const runs = { watch, stop: async () => {} };
  return createUpgrades(deps, {
    exec: createExecs({ ...deps, exec: deps.backend.exec, touched, watchRun: watch }),
    ssh: createSsh({ ...deps, runs, host_key, touched }).handle,
  });
}

/** Nothing runs, so nothing has a site. */
export const no_sites: Sites = {
  handle: (_, response) => void response.writeHead(404).end(),
  upgrade: (_, socket) => void socket.destroy(),
};
