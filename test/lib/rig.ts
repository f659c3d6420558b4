/**
 * A whole control plane in this process, on a store in memory or in a file: sync, controller and
 * API, with a clock that stands still and a machine that says what the test wants.
 *
 * Invariants: no sleeps, no network, no engines; what it opened is closed by `close`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sites } from '../../src/access/site.ts';
import { type HostKey, hostKeyLine } from '../../src/access/ssh/host-key.ts';
import { createPresence, type Presence } from '../../src/backends/agent/presence.ts';
import { createSync, type SyncHandler } from '../../src/backends/agent/sync.ts';
import type { Inventory } from '../../src/contract/machines.ts';
import { openActivityLog } from '../../src/controlplane/activity.ts';
import { type Api, createApi } from '../../src/controlplane/api.ts';
import type { ApiDeps } from '../../src/controlplane/api-deps.ts';
import { rememberProofs } from '../../src/controlplane/auth/proof-cache.ts';
import { createProofs, type Proofs } from '../../src/controlplane/auth/proofs.ts';
import { createRevocations } from '../../src/controlplane/auth/revocations.ts';
import { createSignIns } from '../../src/controlplane/auth/sign-ins.ts';
import { createCatalogs } from '../../src/controlplane/catalogs.ts';
import { numberChanges } from '../../src/controlplane/changes.ts';
import {
  type Controller,
  type ControllerDeps,
  createController,
} from '../../src/controlplane/controller.ts';
import { openHostKey } from '../../src/controlplane/host-key.ts';
import { createLive } from '../../src/controlplane/live.ts';
import { createMachineViews } from '../../src/controlplane/machine-views.ts';
import { createQueueView } from '../../src/controlplane/queue-view.ts';
import type { Reclaims } from '../../src/controlplane/reclaim.ts';
import type { RequestRecords } from '../../src/controlplane/request-records.ts';
import type { Upgrades } from '../../src/controlplane/upgrades.ts';
import type { Use } from '../../src/controlplane/use.ts';
import { background, type WriteWatch, watchWrites } from '../../src/controlplane/write-watch.ts';
import { makeId } from '../../src/core/ids.ts';
import type { RunKey } from '../../src/core/run.ts';
import { no_extras, type WorkloadSpec } from '../../src/core/workload.ts';
import { createBalancer } from '../../src/gateway/balance/balancer.ts';
import { createLimiter } from '../../src/gateway/limits/limiter.ts';
import type { Log } from '../../src/lib/log.ts';
import { type Random, seededRandom } from '../../src/lib/random.ts';
import { dumpStore } from '../../src/store/dump.ts';
import type { Engine } from '../../src/store/dump-tables.ts';
import { migrations } from '../../src/store/migrations/index.ts';
import type { Row, Sql, SqlValue } from '../../src/store/sql.ts';
import type { EinsoraStore } from '../../src/store/transactions.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { keepingLog, type LogLine } from './keeping-log.ts';
import { idle_backend } from './rig-backend.ts';
import { laterDeps, rigLater } from './rig-later.ts';
import { type Places, rigModels } from './rig-models.ts';
import { addTenant, addUser } from './rig-people.ts';
import { no_sites, rigUpgrades } from './rig-upgrades.ts';
import { openTestStore, type RigStore, type StoreKind, storeKinds } from './test-stores.ts';

export {
  addTenant,
  addUser,
  idle_backend,
  keepingLog,
  type LogLine,
  openTestStore,
  type RigStore,
  type StoreKind,
  storeKinds,
};
export const gib = 2 ** 30;

export function select<T extends Row>(
  store: Pick<RigStore, 'read'>,
  text: string,
  params: SqlValue[] = [],
): Promise<T[]> {
  return store.read((sql: Sql) => sql.all<T>(text, params), {});
}

/** Every value in every row of the store, for looking for what must not be there. */
export async function everyValue(store: Pick<RigStore, 'read'>): Promise<string[]> {
  const rows = (await dumpOf(store)).map((line) => JSON.parse(line));
  return rows.flatMap((row) => (Array.isArray(row) ? row.map(String) : []));
}

/** Everything in the store, as lines that are the same whatever the engine. */
export async function dumpOf(store: Pick<RigStore, 'read'>): Promise<string[]> {
  const engine = await engineOf(store);
  return store.read(async (sql: Sql) => {
    const lines: string[] = [];
    await dumpStore(sql, engine, migrations.length, (line) => lines.push(line));
    return lines;
  }, {});
}

function engineOf(store: Pick<RigStore, 'read'>): Promise<Engine> {
  const ask = (sql: Sql) => sql.get('select sqlite_version() as version');
  return store.read(ask, {}).then(
    () => 'sqlite' as const,
    () => 'postgres' as const,
  );
}

/** The same store, with the names of the transactions that were asked of it. */
export function counted(store: RigStore): { store: RigStore; written: string[] } {
  const written: string[] = [];
  return {
    written,
    store: {
      ...store,
      transact: (name, args) => {
        written.push(name);
        return store.transact(name, args);
      },
    },
  };
}

export type Ids = { tenant_id: string; user_id: string };

/** One deployment with a tenant, its operator and one machine without an agent. */
export async function seed(store: RigStore, clock: FakeClock, random: Random) {
  const newId = () => makeId(clock.now(), random.bytes(10));
  const ids = { tenant_id: newId(), user_id: newId(), machine_id: newId() };
  await store.transact('setUp', {
    tenant_id: ids.tenant_id,
    user_id: ids.user_id,
    user_name: 'ada',
    store_uuid: newId(),
    now: clock.now(),
  });
  await store.transact('addMachine', {
    id: ids.machine_id,
    tenant_id: ids.tenant_id,
    name: 'desk',
    region: 'local',
    now: clock.now(),
  });
  return ids;
}

export function endpointSpec(over: Partial<WorkloadSpec> = {}): WorkloadSpec {
  return {
    kind: 'endpoint',
    name: 'chat',
    region: 'local',
    accelerator: null,
    gpu_class: 'cpu-1c-2g',
    gpu_count: 0,
    cpu_millis: 1000,
    memory_bytes: 2 * gib,
    disk_bytes: 0,
    model: 'smollm2-135m',
    model_params: {},
    ...no_extras,
    ...over,
  };
}

/** What an agent says of a machine with so much to offer and one driver that works. */
export function inventoryOf(offered: { cpu_millis: number; memory_bytes: number }): Inventory {
  return {
    name: 'desk',
    os: 'linux',
    os_version: '12',
    arch: 'x64',
    cpu_model: 'made up',
    cpu_count: 8,
    memory_bytes: offered.memory_bytes,
    disk_free_bytes: 100 * gib,
    offered: { ...offered, disk_bytes: 50 * gib },
    accelerators: ['cpu'],
    gpus: [],
    drivers: [{ driver: 'sim', ready: true, why: null, kinds: ['endpoint'], findings: [] }],
    findings: [],
  };
}

export type Rig = {
  store: RigStore;
  /** Of what the gateway remembers of it. */
  asOf: WriteWatch['asOf'];
  clock: FakeClock;
  random: Random;
  ids: { tenant_id: string; user_id: string; machine_id: string };
  presence: Presence;
  sync: SyncHandler;
  api: Api;
  apiDeps: ApiDeps;
  upgrades: Upgrades;
  sites: Sites;
  lines: LogLine[];
  log: Log;
  /** How often admission and agents were woken. */
  woken: { controller: number; agents: number };
  /** From here on samples and uses count; it ends with the rig. */
  startUse(): Promise<Use>;
  /** From here on time has its effect on machines that are taken back; it ends with the rig. */
  startReclaims(): Reclaims;
  /** From here on the gateway's requests are recorded; it ends with the rig. */
  startRequests(): Promise<RequestRecords>;
  /** Starts the controller; it is stopped with the rig. */
  startController(uses?: ControllerDeps['uses'], over?: Partial<ControllerDeps>): Controller;
  /** The operator's token. */
  token: string;
  close(): Promise<void>;
};

export type RigOptions = {
  kind?: StoreKind;
  wrap?: Wrap;
  backend?: ApiDeps['backend'];
  /** Where models come from. */
  places?: Places;
  /** Made-up machines may take another driver's row of the trust matrix. */
  dev?: boolean;
  /** Runs of which the gateway has doubts; without it there are none. */
  isDoubted?: (run: RunKey) => boolean;
};

export async function createRig(options: RigOptions = {}): Promise<Rig> {
  const opened = await openTestStore(options.kind ?? 'memory');
  const wrapped = options.wrap?.(opened.store) ?? opened.store;
  const { store, asOf } = remembering(wrapped, options.kind);
  const clock = createFakeClock();
  const random = seededRandom(7);
  const lines: LogLine[] = [];
  const log = keepingLog(lines);
  const ids = await seed(opened.store, clock, random);
  const folder = mkdtempSync(join(tmpdir(), 'einsora-rig-'));
  const presence = createPresence(clock);
  const woken = { controller: 0, agents: 0 };
  const controllers: Controller[] = [];
  const wakeController = () => {
    woken.controller += 1;
    for (const one of controllers) one.wake();
  };
  const einsora = store as unknown as EinsoraStore;
  const shared = { store: einsora, clock, random, log, data_dir: folder };
  const { secrets, models } = await rigModels(shared, options.places);
  const later = rigLater({ store: einsora, clock, log, changed: wakeController });
  const sync = createSync({
    ...{ store: einsora, clock, random, log, presence, models: models.modelSync },
    changed: wakeController,
    samples: { take: async (...told) => later.use()?.samples.take(...told) },
    guarded: async (...said) => later.reclaims()?.guarded(...said),
    ...{ dev: options.dev === true, isDoubted: options.isDoubted ?? (() => false) },
  });
  const shown = await rigViews(shared, presence, options.dev === true);
  const { machines, queue, live, catalogs } = shown;
  const proofs = createProofs(shared);
  const host_key = openHostKey(folder);
  const apiDeps: ApiDeps = {
    ...{ store: einsora, clock, random, presence, data_dir: folder, wakeController },
    ...{ ...shown, proofs, ...models, secrets, limiter: createLimiter(clock) },
    ...fixedDeps(shared, proofs, host_key),
    ...laterDeps(later),
    ...{ backend: options.backend ?? idle_backend, lookAnew: sync.lookAnew },
    wakeAgents: () => {
      woken.agents += 1;
      sync.wake();
    },
  };
  const op = { tenant_id: ids.tenant_id, name: 'op', role: 'operator' } as const;
  const { token } = await addUser(opened.store, random, op);
  return {
    ...{ store, asOf, clock, random, ids, presence, sync, apiDeps, lines, log, woken },
    api: createApi(apiDeps),
    upgrades: rigUpgrades({ ...apiDeps, log }, host_key),
    sites: no_sites,
    token,
    ...later.starts,
    startController(uses = async () => [], over = {}) {
      const views = { presence, machines, queue, catalogs };
      const idleOf = (id: string, epoch: number) => later.use()?.lastUse.of(id, epoch).idle_ms ?? 0;
      const more = { placed: sync.wake, written: counter(), idleOf, uses };
      const made = createController({ store: einsora, clock, log, ...views, ...more, ...over });
      controllers.push(made);
      return made;
    },
    async close() {
      await live.close();
      await later.stop();
      sync.close();
      for (const one of controllers) await one.stop();
      await opened.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** What no test changes. */
function fixedDeps(
  shared: Shared & { random: Random; data_dir: string },
  proofs: Proofs,
  key: HostKey,
) {
  const { store, clock, random } = shared;
  return {
    activity: openActivityLog({ ...shared, store_uuid: 'rig' }),
    signIns: createSignIns({
      ...{ store, clock, random, pepper: proofs.pepper },
      cost: { memory_kib: 64, passes: 1 },
    }),
    balancer: createBalancer(random, clock),
    gateway_url: () => 'http://localhost:4600/v1',
    cookieName: () => 'einsora_session_4600',
    ssh_host_key: hostKeyLine(key),
    origin: () => 'http://localhost:4600',
    fileBytes: () => null,
  };
}

/** As the program does with a store that nobody else writes. */
function remembering(opened: RigStore, kind?: StoreKind): Pick<Rig, 'store' | 'asOf'> {
  if (kind === 'postgres') return { store: opened, asOf: () => null };
  const proofs = rememberProofs(opened as unknown as EinsoraStore);
  const { store, asOf } = watchWrites(proofs, background);
  return { store: store as unknown as RigStore, asOf };
}

/** A test writes past the control plane, so each look at the store counts. */
function counter(): () => number {
  let looks = 0;
  return () => {
    looks += 1;
    return looks;
  };
}

type Shared = { store: EinsoraStore; clock: FakeClock; log: Log };

/** What shows machines, the queue and news, and who is told when a proof ends. */
async function rigViews({ store, clock, log }: Shared, presence: Presence, dev: boolean) {
  const revocations = createRevocations(clock);
  const changes = await numberChanges(store);
  return {
    machines: createMachineViews({ store, presence, dev }),
    queue: createQueueView(),
    catalogs: createCatalogs(store, clock),
    live: createLive({ store, changes, presence, revocations, clock, log }),
    revocations,
  };
}

type Wrap = (store: RigStore) => RigStore;

/** What a test looks at in an answer. */
export type Body = Record<string, unknown> & {
  error?: {
    code: string;
    message: string;
    fix: string | null;
    details: Record<string, unknown>;
    request_id: string;
  };
  items?: Record<string, unknown>[];
};

export type Answer = {
  status: number;
  headers: Headers;
  text: string;
  /** The parsed body; undefined fields where there is none. */
  body: Body;
};

/** Asks the API in this process, as its server would. */
export async function ask(
  rig: Rig,
  method: string,
  path: string,
  how: { token?: string | null; body?: unknown; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const token = how.token === undefined ? rig.token : how.token;
  const request_id = makeId(rig.clock.now(), rig.random.bytes(10));
  const facts = { request_id, log: rig.log.child({ request_id }) };
  const request = new Request(`http://localhost:4600${path}`, {
    method,
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(how.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...how.headers,
    },
    ...(how.body === undefined
      ? {}
      : { body: typeof how.body === 'string' ? how.body : JSON.stringify(how.body) }),
  });
  const response = await rig.api.fetch(request, { facts });
  // A stream that stays open has no text to wait for.
  const is_held = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (is_held) await response.body?.cancel();
  const text = is_held ? '' : await response.text();
  const is_json = response.headers.get('content-type')?.startsWith('application/json');
  const { status, headers } = response;
  return { status, headers, text, body: is_json ? (JSON.parse(text) as Body) : {} };
}
