/**
 * What the listeners hand requests to: the inference gateway, the API, and the ways into workloads.
 */
import type { HostKey } from '../access/ssh/host-key.ts';
import { hostKeyLine } from '../access/ssh/host-key.ts';
import type { RunKey } from '../core/run.ts';
import type { WatchedBalancer } from '../gateway/balance/balancer.ts';
import { createGateway, type Gateway } from '../gateway/gateway.ts';
import { createLimiter } from '../gateway/limits/limiter.ts';
import { createTurns } from '../gateway/limits/turns.ts';
import type { Log } from '../lib/log.ts';
import type { Secret } from '../lib/secret.ts';
import { type Access, openAccess } from './access.ts';
import { type Api, createApi } from './api.ts';
import type { ApiDeps } from './api-deps.ts';
import { createSignIns } from './auth/sign-ins.ts';
import type { Changes } from './changes.ts';
import type { RequestRecords } from './request-records.ts';
import { createTargets } from './targets.ts';
import type { Use } from './use.ts';
import type { WriteWatch } from './write-watch.ts';

/** Made here, of the rest. */
type Made =
  | ('samples' | 'useOf' | 'waker' | 'lastUse' | 'signIns' | 'gateway_url')
  | ('limiter' | 'cookieName' | 'ssh_host_key' | 'origin' | 'balancer');

export type FaceDeps = Omit<ApiDeps, Made> & {
  log: Log;
  balancer: WatchedBalancer;
  changes: Pick<Changes, 'onSettled'>;
  /** Of keys and of where models' names lead (write-watch.ts). */
  asOf: WriteWatch['asOf'];
  use: Use;
  requests: RequestRecords;
  host_key: HostKey;
  siteToken(run: RunKey): Secret;
  /** That is listened on. */
  port(): number;
};

export type Faces = { gateway: Gateway; api: Api; access: Access };

export function openFaces(deps: FaceDeps): Faces {
  const { store, clock, random, log, changes, revocations, proofs, backend } = deps;
  const { balancer, host_key, siteToken, port } = deps;
  const { samples, useOf, waker, lastUse } = deps.use;
  const url = () => `http://localhost:${port()}`;
  const cookieName = () => `einsora_session_${port()}`;
  const dial = (run: RunKey, machine_id: string, port_name: string) =>
    backend.dial(machine_id, run, port_name);
  const limiter = createLimiter(clock);
  const turns = createTurns({ clock });
  deps.requests.watch(turns, balancer);
  const gateway = createGateway({
    ...createTargets({ store, asOf: deps.asOf, waker, presence: deps.presence, clock }),
    ...{ balancer, limiter, turns, record: deps.requests.record },
    ...{ dial, clock, log, using: lastUse.hold },
  });
  const api = createApi({
    ...{ ...deps, samples, useOf, waker, lastUse, limiter, balancer, cookieName, origin: url },
    signIns: createSignIns({ store, clock, random, pepper: proofs.pepper }),
    gateway_url: () => `${url()}/v1`,
    ssh_host_key: hostKeyLine(host_key),
  });
  const access = openAccess({
    ...{ store, clock, random, log, changes, revocations, cookieName },
    ...{ dial, siteToken, backend, host_key },
    ...{ touched: lastUse.touch, using: lastUse.hold, wake: waker.wake },
  });
  return { gateway, api, access };
}
