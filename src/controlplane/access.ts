/**
 * The ways into workloads, put together: their sites, and the upgrades of our own host.
 */

import { createExecs } from '../access/exec/execs.ts';
import type { Sites } from '../access/site.ts';
import { createSites } from '../access/sites.ts';
import type { HostKey } from '../access/ssh/host-key.ts';
import type { Dial } from '../access/upstreams.ts';
import type { RunKey } from '../core/run.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import type { Secret } from '../lib/secret.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { Revocations } from './auth/revocations.ts';
import type { Changes } from './changes.ts';
import { createRunWatch } from './run-watch.ts';
import { awaken, createSsh, type SshDeps } from './ssh.ts';
import { createUpgrades, type Upgrades } from './upgrades.ts';

export type AccessDeps = {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  log: Log;
  revocations: Revocations;
  changes: Pick<Changes, 'onSettled'>;
  dial: Dial;
  backend: SshDeps['backend'];
  host_key: HostKey;
  siteToken(run: RunKey): Secret;
  /** A workload was used, by whichever of these ways. */
  touched(workload_id: string): void;
  /** It is in use until the returned function is called. */
  using?(workload_id: string): () => void;
  /** Wakes it where it was stopped for being idle. */
  wake?(workload_id: string, how: string): Promise<unknown>;
  /** Of sessions; that of sites is named after it. */
  cookieName: () => string;
};

export type Access = { sites: Sites; upgrades: Upgrades; close(): Promise<void> };

export function openAccess(deps: AccessDeps): Access {
  const { revocations } = deps;
  const runs = createRunWatch(deps);
  const ssh = createSsh({ ...deps, runs });
  const exec = createExecs({
    ...{ ...deps, exec: deps.backend.exec },
    awaken: (id, socket) => awaken(deps, id, socket, 'somebody started a program in it'),
    watchRun: (run, ended) => runs.watch(run, ended),
  });
  const sites = createSites({
    ...deps,
    watchProof: (proof, ended) => revocations.watch(proof, ended),
    watchRun: (run, ended) => runs.watch(run, ended),
    cookieName: () => accessCookie(deps.cookieName()),
  });
  return {
    sites,
    upgrades: createUpgrades(deps, { exec, ssh: ssh.handle }),
    async close() {
      await ssh.close();
      sites.close();
      await runs.stop();
    },
  };
}

/** `einsora_access_4600` beside `einsora_session_4600`. */
function accessCookie(session_cookie: string): string {
  return session_cookie.replace('session', 'access');
}
