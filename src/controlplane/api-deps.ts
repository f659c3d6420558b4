/**
 * What the API's handlers are given.
 */

import type { ModelSync } from '../backends/agent/models.ts';
import type { Presence } from '../backends/agent/presence.ts';
import type { Backend } from '../backends/backend.ts';
import type { Balancer } from '../gateway/balance/balancer.ts';
import type { CountingLimiter } from '../gateway/limits/limiter.ts';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import type { ActivityLog } from './activity.ts';
import type { Proofs } from './auth/proofs.ts';
import type { Revocations } from './auth/revocations.ts';
import type { SignIns } from './auth/sign-ins.ts';
import type { Catalogs } from './catalogs.ts';
import type { LastUse } from './last-use.ts';
import type { Live } from './live.ts';
import type { MachineViews } from './machine-views.ts';
import type { ModelSources } from './model-sources.ts';
import type { Reclaims } from './reclaim.ts';
import type { RequestRecords } from './request-records.ts';
import type { Samples } from './samples.ts';
import type { Secrets } from './secrets.ts';
import type { Waker } from './waker.ts';
import type { ViewDeps } from './workload-views.ts';

export type ApiDeps = ViewDeps & {
  store: EinsoraStore;
  clock: Clock;
  random: Random;
  presence: Presence;
  machines: MachineViews;
  catalogs: Catalogs;
  live: Live;
  backend: Backend;
  proofs: Proofs;
  signIns: SignIns;
  revocations: Revocations;
  secrets: Secrets;
  activity: ActivityLog;
  data_dir: string;
  /** The session cookie's name: with the port, since cookies ignore ports. */
  cookieName: () => string;
  /** Of our SSH server, as in known_hosts. */
  ssh_host_key: string;
  /** Where the dashboard is served, for one-time links. */
  origin: () => string;
  /** Something changed that admission should look at now. */
  wakeController: () => void;
  /** Something changed that agents should hear of now. */
  wakeAgents: () => void;
  /** Has a machine look at itself anew; false where it did not in time. */
  lookAnew: (machine_id: string) => Promise<boolean>;
  /** Size of a regular file on the control plane's machine (Solo), or null. */
  fileBytes: (path: string) => number | null;
  /** What hubs and servers say of models. */
  models: ModelSources;
  hub_url: string;
  /** What machines say of theirs. */
  modelSync: Pick<ModelSync, 'progressOf' | 'freeBytes'>;
  /** What runs used in the last hour. */
  samples: Pick<Samples, 'recent'>;
  /** What the gateway did of late. */
  requests: Pick<RequestRecords, 'now' | 'window_ms' | 'journal' | 'metrics'>;
  /** Machines that are taken back: something was asked of one. */
  reclaims: Pick<Reclaims, 'wake'>;
  /** Since when nobody used what runs. */
  lastUse: Pick<LastUse, 'of' | 'uses'>;
  /** What keys, users and models have used of their limits. */
  limiter: Pick<CountingLimiter, 'useOf'>;
  /** How runs stand with the gateway. */
  balancer: Pick<Balancer, 'look'>;
  /** Wakes what was stopped for being idle. */
  waker: Pick<Waker, 'wake'>;
};
