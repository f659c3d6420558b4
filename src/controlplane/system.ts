/**
 * The composition root: every part of a control plane, put together once, and taken apart in order.
 *
 * Invariants: one control plane a data folder (an OS lock that dies with the process); it serves
 * only after the store is migrated and ready; stopping it leaves every workload as it is.
 */
import { statSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import type { Agent, Transport } from '../agent/agent.ts';
import { createPresence } from '../backends/agent/presence.ts';
import { createRunSecrets } from '../backends/agent/run-secrets.ts';
import { createSync } from '../backends/agent/sync.ts';
import { EinsoraError } from '../contract/errors.ts';
import type { SimMachine } from '../contract/sim-machines.ts';
import { makeId } from '../core/ids.ts';
import { createBalancer } from '../gateway/balance/balancer.ts';
import type { Clock } from '../lib/clock.ts';
import { readIfThere, writeDurably } from '../lib/files.ts';
import type { Log } from '../lib/log.ts';
import type { Random } from '../lib/random.ts';
import type { Secret } from '../lib/secret.ts';
import { readIdentity } from '../store/accounts.ts';
import { lockFolder } from '../store/sqlite.ts';
import { findTenant } from '../store/tenants.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { listRunningNames } from '../store/workloads.ts';
import { startAccounting } from './accounting.ts';
import { openActivityLog } from './activity.ts';
import { rememberProofs } from './auth/proof-cache.ts';
import { createProofs, type Proofs } from './auth/proofs.ts';
import { startRecheck } from './auth/recheck.ts';
import { createRevocations } from './auth/revocations.ts';
import { createCatalogs } from './catalogs.ts';
import { numberChanges } from './changes.ts';
import { createController } from './controller.ts';
import { openDeploymentKeys } from './deployment-key.ts';
import { openFaces } from './faces.ts';
import { createFairUses } from './fair-uses.ts';
import { openHostKey } from './host-key.ts';
import { startHousekeeping } from './housekeeping.ts';
import { createLive } from './live.ts';
import { createMachineViews } from './machine-views.ts';
import { openModels } from './models.ts';
import { openStore, prepareFolder, shownDatabase } from './open-store.ts';
import { createQueueView } from './queue-view.ts';
import { startReclaims } from './reclaim.ts';
import { openRequestRecords } from './request-records.ts';
import { createRunKeys } from './run-keys.ts';
import { createRunTokens } from './run-tokens.ts';
import { openSecrets } from './secrets.ts';
import { type Listening, listen } from './server.ts';
import { addSimMachines } from './sim-machines.ts';
import { storeRefusal } from './store-refusal.ts';
import { openUse } from './use.ts';
import { background, type WriteWatch, watchWrites } from './write-watch.ts';
import { type Counted, countWrites } from './written.ts';

export type SystemOptions = {
  data_dir: string;
  /** Of a Postgres database; null for the file in the data folder. */
  database_url: Secret | null;
  cache_dir: string;
  port: number;
  /** What the machine offers; null for the default reserve. */
  offer: { cpu_millis: number | null; memory_bytes: number | null };
  /** Lets containers into the local networks; never into this machine. */
  allow_lan?: boolean;
  /** What DOCKER_HOST says. */
  docker_host?: string | null;
  /** For package clients. */
  env: Record<string, string>;
  /** Made-up machines may take another driver's row of the trust matrix (ADR-0057). */
  dev: boolean;
  /** Machines that are only made up; nothing outside dev mode. */
  sim_machines?: readonly SimMachine[];
  /** The key is lost: forgets every secret, and starts with a new one. */
  new_deployment_key?: boolean;
  /** The model hub, and origins that the operator vouches for (ADR-0033). */
  sources: { hub_url: string; trusted_origins: string[] };
  clock: Clock;
  random: Random;
  log: Log;
};

export type System = {
  url: string;
  ipv6: boolean;
  /** Names of the workloads that go on without it. */
  runningNames(): Promise<string[]>;
  /** Address of the Postgres database, without its password; null for a file. */
  database: string | null;
  /** The in-process agent of this machine. */
  agent: Agent;
  /** A link that signs one browser in, once. */
  signInLink(): Promise<string>;
  /** Rejects nothing; resolves when the store can no longer be trusted. */
  failed: Promise<unknown>;
  /** Stops serving; the workloads go on. */
  stop(): Promise<void>;
};

/** Rejects with an EinsoraError for everything that a person can mend. */
export async function startSystem(options: SystemOptions): Promise<System> {
  return start(options).catch((error) => {
    throw storeRefusal(error, options.data_dir) ?? error;
  });
}

async function start(options: SystemOptions): Promise<System> {
  const { data_dir, clock, random } = options;
  prepareFolder(data_dir);
  const lock = lockFolder(data_dir);
  if (lock === null) {
    const other = readIfThere(join(data_dir, 'control-plane.json')) ?? '{}';
    const { url = 'starting' } = JSON.parse(other) as { url?: string };
    throw new EinsoraError('data_dir_in_use', { data_dir, url });
  }
  const opened = await openStore(options).catch((error) => {
    lock.release();
    throw error;
  });
  // A file has no other writer; a database may be taken over by another control plane (ADR-0038).
  const is_alone = options.database_url === null;
  const watch = watchWrites(is_alone ? rememberProofs(opened) : opened, background);
  const { store } = watch;
  const asOf = is_alone ? watch.asOf : () => null;
  const proofs = createProofs({ store, clock, random, data_dir });
  const begin = async () => {
    const identity = await setUp(store, options);
    return {
      identity,
      serving: await serve(options, {
        changes: countWrites(await numberChanges(store)),
        ...{ asOf, proofs, identity },
      }),
    };
  };
  const { identity, serving } = await begin().catch(async (error) => {
    await store.close();
    lock.release();
    throw error;
  });
  return {
    ...serving,
    database: await shownDatabase(options.database_url),
    runningNames: () => store.read(listRunningNames, {}),
    failed: store.failed,
    signInLink: async () => {
      const secret = await proofs.makeSignInLink(identity.user_id);
      return `${serving.url}/sign-in#t=${secret.reveal()}`;
    },
    async stop() {
      await serving.stop();
      await store.close();
      lock.release();
    },
  };
}

type Identity = Awaited<ReturnType<typeof setUp>>;

type Begun = {
  changes: Counted;
  asOf: WriteWatch['asOf'];
  proofs: Proofs;
  identity: Identity;
};

async function serve(options: SystemOptions, { changes, asOf, proofs, identity }: Begun) {
  const { data_dir, clock, random, log } = options;
  const { store } = changes;
  const { secrets, activity, runTokens } = await openSealed(options, store, identity.store_uuid);
  const [presence, balancer] = [createPresence(clock), createBalancer(random, clock)];
  let listening: Listening | null = null;
  const url = () => `http://localhost:${listening?.port ?? options.port}`;
  const models = openModels({ store, clock, log, secrets, places: options.sources });
  const changed = () => {
    controller.wake();
    sync.wake();
  };
  const use = await openUse({ store, clock, log, changed });
  const requests = await openRequestRecords({ store, clock, log });
  const sync = createSync({
    ...{ store, clock, random, log, presence, models: models.modelSync },
    ...{ samples: use.samples, dev: options.dev, written: changes.written },
    ...{ changed: () => controller.wake(), isDoubted: balancer.isDoubted },
    guarded: (...said) => reclaims.guarded(...said),
    withSecrets: createRunSecrets({
      ...{ siteToken: runTokens.siteToken, reveal: secrets.reveal, log },
      gatewayKey: createRunKeys({ store, clock, runTokens }),
    }),
  });
  const reclaims = startReclaims({ store, clock, log, changed, written: changes.written });
  const accounting = await startAccounting({ store, clock, log, proofs: sync.proofs });
  const machines = createMachineViews({ store, presence, dev: options.dev });
  const [queue, revocations] = [createQueueView(), createRevocations(clock)];
  const catalogs = createCatalogs(store, clock);
  const live = createLive({ store, changes, presence, revocations, clock, log });
  const controller = createController({
    ...{ store, clock, log, presence, machines, queue, catalogs },
    uses: createFairUses({ store, clock, log }),
    idleOf: (...run) => use.lastUse.of(...run).idle_ms,
    placed: () => sync.wake(),
    written: changes.written,
  });
  const port = () => listening?.port ?? options.port;
  const local = await startHere(options, { identity, store, sync, port, ...models });
  const { gateway, api, access } = openFaces({
    ...{ store, clock, random, log, data_dir, changes, presence, machines, queue, live, use },
    ...{ catalogs, asOf, requests, balancer, host_key: openHostKey(data_dir) },
    ...{ proofs, secrets, activity, revocations, ...models, fileBytes },
    ...{ backend: local.backend, siteToken: runTokens.siteToken },
    ...{ port, lookAnew: sync.lookAnew, reclaims },
    wakeController: () => controller.wake(),
    wakeAgents: () => sync.wake(),
  });
  const sealing = activity.start();
  const chores = [requests, ...startChores({ store, clock, log, revocations })];
  async function stop(): Promise<void> {
    await live.close();
    // Those who are inside are told why it ends.
    await access.close();
    await listening?.close();
    await gateway.close();
    sync.close();
    await local.agent.stop();
    await controller.stop();
    for (const chore of [...chores, sealing, accounting, use, reclaims]) await chore.stop();
  }
  try {
    listening = await listen(options.port, { ...{ api, gateway, clock, random, log }, ...access });
    await proofs.writeOwnerToken(identity.user_id);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: url(), ipv6: listening.ipv6, agent: local.agent, stop };
}

type Here = {
  identity: Identity;
  store: EinsoraStore;
  sync: ReturnType<typeof createSync>;
  sources: ReturnType<typeof openModels>['sources'];
  port(): number;
};

/** The one place outside the command line that starts agents: Solo's own machine (ADR-0016). */
async function startHere(options: SystemOptions, here: Here) {
  const { startLocalAgent } = await import('../agent/local-agent.ts');
  const { createRunBackend } = await import('../agent/run-backend.ts');
  const { machine_id } = here.identity;
  const local = startLocalAgent({
    ...{ ...options, sources: here.sources, machine_id, gateway_port: here.port },
    transport: transportTo(here.sync, machine_id),
    allow_lan: options.allow_lan === true,
  });
  const sims = await startSims(options, here);
  const backend = createRunBackend(
    (machine, run) => local.driverOf(machine, run) ?? sims.get(machine)?.driver,
  );
  async function stop(): Promise<void> {
    await Promise.all([local.agent, ...[...sims.values()].map(({ agent }) => agent)].map(end));
  }
  return { agent: { ...local.agent, stop }, backend };
}

const end = (agent: Agent): Promise<void> => agent.stop();

/** Agents of machines that are made up, by the ids of those: in dev mode, and in no other. */
async function startSims(options: SystemOptions, { identity, store, sync }: Here) {
  const { sim_machines = [], dev, clock, random, log, data_dir } = options;
  if (!dev || sim_machines.length === 0) return new Map<string, never>();
  const { startSimAgent } = await import('../agent/sim-agent.ts');
  const own = await store.read(findTenant, { tenant: identity.tenant_id });
  const parts = { store, clock, random, data_dir, owner: own?.slug ?? '' };
  const placed = await addSimMachines(parts, sim_machines);
  return new Map(
    placed.map((one) => {
      const transport = transportTo(sync, one.machine_id);
      return [one.machine_id, startSimAgent({ ...one, transport, clock, random, log })];
    }),
  );
}

function transportTo(sync: ReturnType<typeof createSync>, machine_id: string): Transport {
  return {
    hello: (words) => sync.hello(machine_id, words, true),
    sync: (report, signal) => sync.sync(machine_id, report, signal),
  };
}

/** What goes on by itself beside the requests. */
function startChores(deps: Parameters<typeof startRecheck>[0]) {
  return [startHousekeeping(deps), startRecheck(deps)];
}

/** What is sealed: the tenants' secrets, and the activity log. */
async function openSealed(options: SystemOptions, store: EinsoraStore, store_uuid: string) {
  const { clock, random, log, data_dir, new_deployment_key } = options;
  const renew = new_deployment_key === true;
  const secrets = await openSecrets({ store, clock, random, data_dir, renew });
  const activity = openActivityLog({ store, clock, random, log, data_dir, store_uuid });
  const [key] = await openDeploymentKeys({ store, random, data_dir });
  return { secrets, activity, runTokens: createRunTokens(key) };
}

/** The deployment's identity, its first operator, and this machine. */
async function setUp(store: EinsoraStore, options: SystemOptions) {
  const { clock, random, data_dir } = options;
  const newId = () => makeId(clock.now(), random.bytes(10));
  await store.transact('setUp', {
    tenant_id: newId(),
    user_id: newId(),
    user_name: userInfo().username,
    store_uuid: newId(),
    now: clock.now(),
  });
  const identity = await store.read(readIdentity, {});
  const path = join(data_dir, 'machine-id');
  const known = readIfThere(path)?.trim();
  const machine_id = known || newId();
  if (!known) writeDurably(path, machine_id);
  await store.transact('addMachine', {
    id: machine_id,
    tenant_id: identity.tenant_id,
    name: hostname(),
    region: 'local',
    now: clock.now(),
  });
  return { ...identity, machine_id };
}

function fileBytes(path: string): number | null {
  try {
    const stats = statSync(path);
    return stats.isFile() ? stats.size : null;
  } catch {
    return null;
  }
}
