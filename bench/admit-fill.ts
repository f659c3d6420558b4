/**
 * Deployments for the bench of admission, filled through the store's own transactions.
 */
import { createPresence } from '../src/backends/agent/presence.ts';
import type { Inventory } from '../src/contract/machines.ts';
import { createCatalogs } from '../src/controlplane/catalogs.ts';
import { type Controller, createController } from '../src/controlplane/controller.ts';
import { createMachineViews } from '../src/controlplane/machine-views.ts';
import { createQueueView } from '../src/controlplane/queue-view.ts';
import { classes } from '../src/core/catalog.ts';
import { makeId } from '../src/core/ids.ts';
import { no_extras, type WorkloadSpec } from '../src/core/workload.ts';
import { systemClock } from '../src/lib/clock.ts';
import { silentLog } from '../src/lib/log.ts';
import { seededRandom } from '../src/lib/random.ts';
import { openSqliteStore } from '../src/store/sqlite.ts';
import type { EinsoraStore } from '../src/store/transactions.ts';
import { transactions } from './admit-transactions.ts';

const gib = 2 ** 30;
const random = seededRandom(3);
export const newId = () => makeId(systemClock.now(), random.bytes(10));

export type Who = { tenant_id: string; user_id: string };
export type Filled = { store: EinsoraStore; write: Write; who: Who[] };
type Write = (text: string, params?: (string | number)[]) => Promise<unknown>;

/** A store with so many tenants, each with one user; the first is the deployment's own. */
export async function openFilled(folder: string, tenants: number): Promise<Filled> {
  const transactions_url = new URL('./admit-transactions.ts', import.meta.url).href;
  const opened = await openSqliteStore({ folder, transactions_url, transactions });
  const write: Write = (text, params = []) => opened.transact('write', { text, params });
  const store = opened as unknown as EinsoraStore;
  const who: Who[] = [];
  for (let index = 0; index < tenants; index += 1) {
    const one = { tenant_id: newId(), user_id: newId() };
    who.push(one);
    if (index === 0) {
      const names = { user_name: 'bench', store_uuid: newId(), now: systemClock.now() };
      await store.transact('setUp', { ...one, ...names });
      continue;
    }
    await write('insert into tenants (id, slug, name, created_at) values ($1, $2, $2, 0)', [
      one.tenant_id,
      `tenant-${index}`,
    ]);
    await write(
      `insert into users (id, tenant_id, name, role, created_at) values ($1, $2, $3, 'member', 0)`,
      [one.user_id, one.tenant_id, `user-${index}`],
    );
  }
  return { store, write, who };
}

/** Machines that are shared with everybody, each of so many cores, or of 2 to 16. */
export async function addMachines(
  { store, write, who }: Filled,
  count: number,
  cores_of_each: number | null = null,
): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    const id = newId();
    const owner = who[index % who.length];
    const name = `machine-${index}`;
    const { tenant_id = '' } = owner ?? {};
    await store.transact('addMachine', { id, tenant_id, name, region: 'local', now: 0 });
    const cores = cores_of_each ?? 2 ** (1 + (index % 4));
    const inventory = inventoryOf(name, cores);
    const { cpu_millis, memory_bytes, disk_bytes } = inventory.offered;
    await write(
      `update machines set cpu_millis = $2, memory_bytes = $3, disk_bytes = $4, inventory = $5,
         inventory_revision = 1 where id = $1`,
      [id, cpu_millis, memory_bytes, disk_bytes, JSON.stringify(inventory)],
    );
  }
  await write("update machines set sharing = 'community'");
}

export async function launchMany({ store, who }: Filled, count: number): Promise<void> {
  const one = (index: number) => {
    const owner = who[index % who.length];
    if (owner === undefined) throw new Error('somebody launches');
    launched += 1;
    const names = { id: newId(), name: `w-${launched}`, request: 'bench', now: systemClock.now() };
    const args = launchArgs(owner, { ...names, key: null }, index);
    return store.transact('launchWorkload', args);
  };
  for (let from = 0; from < count; from += 1000) {
    const some = Math.min(1000, count - from);
    await Promise.all(Array.from({ length: some }, (_, index) => one(from + index)));
  }
}

/**
 * As a deployment that runs leaves it: each that waits knows why, the activity log is sealed. What
 * was launched behind its back would else be worked off while launches are measured.
 */
export async function settle(filled: Filled): Promise<void> {
  const controller = await openController(filled);
  while ((await controller.pass()).queued > 0);
  for (const { tenant_id } of filled.who) {
    const seal = () => {
      const args = { tenant_id, now: systemClock.now(), salt_key: newId() };
      return filled.store.transact('sealActivity', args);
    };
    while ((await seal()).sealed > 0);
  }
}

let launched = 0;

type Names = { id: string; name: string; key: string | null; request: string; now: number };

/** A launch of the n-th class, as the API asks the store for it. */
export function launchArgs({ tenant_id, user_id }: Who, names: Names, n = 0) {
  const { id, name, key, request, now } = names;
  const principal = { tenant_id, user_id, actor: 'user:bench', via: 'token' as const };
  return {
    ...{ id, tenant_id, creator_id: user_id, spec: specOf(name, n), name_is_free: false },
    ...{ actor: 'user:bench', request_id: request, now },
    idempotency: key === null ? null : { principal: user_id, key, request_hash: request },
    action: {
      ...principal,
      id: newId(),
      proof_id: 'bench',
      request_id: request,
      route: 'launch',
      now,
    },
  };
}

/** Of the machines filled here, which have no GPUs. */
const sizes = classes.filter(({ accelerator }) => accelerator === 'cpu');

function specOf(name: string, n: number): WorkloadSpec {
  const entry = sizes[n % sizes.length];
  if (entry === undefined) throw new Error('the catalog has classes');
  return {
    ...{ kind: 'instance', name, region: 'local', accelerator: null },
    ...{ gpu_class: entry.name, gpu_count: 0, cpu_millis: entry.cpu_millis },
    ...{ memory_bytes: entry.memory_bytes, disk_bytes: 0, model: null, model_params: {} },
    ...no_extras,
  };
}

function inventoryOf(name: string, cores: number): Inventory {
  const memory_bytes = cores * 4 * gib;
  const offered = { cpu_millis: cores * 1000, memory_bytes, disk_bytes: 100 * gib };
  const findings = [{ check: 'gpu', status: 'warning', message: 'none', fix: null }] as const;
  return {
    ...{ name, os: 'linux', os_version: '12', arch: 'x64', cpu_model: 'made up' },
    ...{ cpu_count: cores, memory_bytes, disk_free_bytes: 200 * gib, offered },
    ...{ accelerators: ['cpu'], gpus: [], findings: [...findings] },
    drivers: [
      {
        driver: 'macos-container',
        ready: true,
        why: null,
        kinds: ['vm', 'instance'],
        findings: [],
      },
      { driver: 'docker', ready: false, why: 'no engine', kinds: ['instance'], findings: [] },
    ],
  };
}

/** A controller over it whose loop never runs by itself: the bench calls its passes. */
export async function openController({ store }: Filled): Promise<Controller> {
  const presence = createPresence(systemClock);
  const machines = createMachineViews({ store, presence });
  const controller = createController({
    ...{ store, presence, machines, queue: createQueueView(), log: silentLog },
    catalogs: createCatalogs(store, systemClock),
    clock: systemClock,
    uses: async () => [],
    placed: () => {},
    written: () => 0,
  });
  await controller.stop();
  return controller;
}
