/**
 * Live events over real HTTP: each tenant hears its own, in order, once, also over a reconnect.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followLive, type Heard, type LiveClient } from '../../test/lib/live-client.ts';
import {
  addTenant,
  addUser,
  counted,
  createRig,
  endpointSpec,
  type Rig,
  type RigOptions,
  type RigStore,
  storeKinds,
} from '../../test/lib/rig.ts';
import { limits } from '../contract/limits.ts';
import type { Stage } from '../contract/workloads.ts';
import { makeId } from '../core/ids.ts';
import { createGateway } from '../gateway/gateway.ts';
import { systemClock } from '../lib/clock.ts';
import { StoreError } from '../store/sql.ts';
import type { EinsoraStore } from '../store/transactions.ts';
import { createApi } from './api.ts';
import { createRevocations, type Revocations } from './auth/revocations.ts';
import { numberChanges } from './changes.ts';
import { createLive, type Live } from './live.ts';
import { listen } from './server.ts';

type Served = {
  rig: Rig;
  store: EinsoraStore;
  live: Live;
  revocations: Revocations;
  follow(token: string | null, last_event_id?: string | null): Promise<LiveClient>;
  eve: string;
  online: Map<string, boolean>;
};

/** The rig's parts behind a real listener, on the real clock, with a second tenant. */
async function given(body: (served: Served) => Promise<void>, options: RigOptions = {}) {
  const rig = await createRig(options);
  const { random, log } = rig;
  const clock = systemClock;
  await addTenant(rig.store, 'other', 'other');
  const eve = { tenant_id: 'other', name: 'eve', role: 'viewer' as const };
  const { token } = await addUser(rig.store, random, eve);
  const changes = await numberChanges(rig.apiDeps.store);
  const { store } = changes;
  const revocations = createRevocations(clock);
  const online = new Map<string, boolean>();
  const isOnline = (id: string) => online.get(id) ?? true;
  const presence = { ...rig.presence, isOnline };
  const live = createLive({ store, changes, presence, revocations, clock, log });
  const api = createApi({ ...rig.apiDeps, store, live, clock, revocations });
  const nowhere = async () => {
    throw new Error('nothing runs here');
  };
  const gateway = createGateway({
    ...{ keyOf: nowhere, endpointsOf: nowhere, dial: nowhere, clock, log, region: 'local' },
  } as unknown as Parameters<typeof createGateway>[0]);
  const { sites, upgrades } = rig;
  const listening = await listen(0, { api, gateway, sites, upgrades, clock, random, log });
  const clients: LiveClient[] = [];
  try {
    await body({
      ...{ rig, store, live, revocations, eve: token, online },
      async follow(asking, last_event_id = null) {
        const url = `http://127.0.0.1:${listening.port}`;
        const client = await followLive(url, asking, last_event_id);
        clients.push(client);
        return client;
      },
    });
  } finally {
    for (const client of clients) client.close();
    await live.close();
    await listening.close();
    await rig.close();
  }
}

async function launch({ rig, store }: Served, name: string, tenant_id?: string): Promise<string> {
  const id = makeId(rig.clock.now(), rig.random.bytes(10));
  await store.transact('launchWorkload', {
    ...{ id, tenant_id: tenant_id ?? rig.ids.tenant_id, creator_id: rig.ids.user_id },
    ...{ spec: endpointSpec({ name }), name_is_free: false, actor: 'user:ada', request_id: 'r' },
    ...{ now: rig.clock.now(), idempotency: null },
  });
  return id;
}

async function stop({ rig, store }: Served, workload: string): Promise<void> {
  await store.transact('stopWorkload', {
    ...{ tenant_id: rig.ids.tenant_id, workload, actor: 'user:ada', request_id: 'r' },
    ...{ now: rig.clock.now(), idempotency: null },
  });
}

const names = (heard: Heard[]) =>
  heard.filter((one) => one.type === 'workload').map((one) => one.data.name);
const has = (name: string) => (heard: Heard[]) => names(heard).includes(name);
const numbersOf = (heard: Heard[], workload_id: string) =>
  heard
    .filter((one) => one.data.workload_id === workload_id)
    .map((one) => (one.data.event as { number: number }).number);

test('each tenant hears its own workloads and machines, and nothing of the other', () =>
  given(async (served) => {
    const ada = await served.follow(served.rig.token);
    const eve = await served.follow(served.eve);
    await Promise.all([ada, eve].map((one) => one.until((heard) => heard[0]?.type === 'hello')));
    await launch(served, 'hers', 'other');
    await launch(served, 'ours');
    await launch(served, 'hers-too', 'other');
    await ada.until(has('ours'));
    await eve.until(has('hers-too'));
    await ada.until((heard) => heard.some((one) => one.type === 'machine'));
    assert.deepEqual(names(ada.heard), ['ours']);
    assert.deepEqual(names(eve.heard), ['hers', 'hers-too']);
    assert.equal(JSON.stringify(eve.heard).includes(served.rig.ids.machine_id), false);
  }));

for (const kind of storeKinds) {
  test(`of many writers every event is heard once, in order, on a store in ${kind}`, () =>
    given(
      async (served) => {
        const ada = await served.follow(served.rig.token);
        const ids = await Promise.all(
          Array.from({ length: 60 }, async (_, index) => {
            const id = await launch(served, `w-${index}`);
            await stop(served, id);
            return id;
          }),
        );
        await ada.until((heard) => names(heard).length === 60 * 3);
        for (const id of ids) assert.deepEqual(numbersOf(ada.heard, id), [1, 2, 3]);
      },
      { kind },
    ));
}

test('who was away goes on after the last event, without a loss and without a repeat', () =>
  given(async (served) => {
    const first = await served.follow(served.rig.token);
    const id = await launch(served, 'before');
    await first.until(has('before'));
    first.close();
    await launch(served, 'between');
    await launch(served, 'hers', 'other');
    await stop(served, id);
    const again = await served.follow(served.rig.token, first.lastId());
    await launch(served, 'after');
    await again.until(has('after'));
    assert.deepEqual(names(again.heard), ['between', 'before', 'before', 'after']);
    assert.deepEqual(numbersOf(again.heard, id), [2, 3]);
    assert.equal(
      again.heard.some((one) => one.type === 'reset'),
      false,
    );
  }));

test('a place that is not known, or too long ago, gives a reset', () =>
  given(async (served) => {
    for (const place of ['999999..0', 'nonsense', '1.~.0', '1..0; drop']) {
      const client = await served.follow(served.rig.token, place);
      await client.until((heard) => heard.some((one) => one.type === 'hello'));
      assert.equal(client.heard[0]?.type, 'reset', place);
    }
    const many = limits.live_missed_events + 600;
    for (let from = 0; from < many; from += 200) {
      const some = Array.from({ length: 200 }, (_, index) => launch(served, `w-${from + index}`));
      await Promise.all(some);
    }
    const client = await served.follow(served.rig.token, '1..0');
    await client.until((heard) => heard.some((one) => one.type === 'hello'));
    assert.equal(client.heard[0]?.type, 'reset');
    assert.deepEqual(names(client.heard), []);
  }));

test('who was away while others wrote very much begins anew, whoever wrote it', () =>
  given(async (served) => {
    const eve = await served.follow(served.eve);
    await eve.until((heard) => heard.some((one) => one.type === 'hello'));
    eve.close();
    while (served.live.streams() > 0) await systemClock.sleep(1);
    const write = () => served.store.transact('touchSession', { id: 'nobody', now: 0 });
    for (let done = 0; done <= limits.live_missed_changes; done += 500) {
      await Promise.all(Array.from({ length: 500 }, write));
    }
    const again = await served.follow(served.eve, eve.lastId());
    await again.until((heard) => heard.some((one) => one.type === 'hello'));
    assert.equal(again.heard[0]?.type, 'reset');
  }));

test('a stream ends with the proof that opened it, and with nobody else’s', () =>
  given(async (served) => {
    const ada = await served.follow(served.rig.token);
    const eve = await served.follow(served.eve);
    await eve.until((heard) => heard.length > 0);
    served.revocations.tell({ tenant_id: 'other' });
    await eve.ended;
    await launch(served, 'ours');
    await ada.until(has('ours'));
    assert.equal(served.live.streams(), 1);
    assert.equal(served.revocations.watching(), 1);
  }));

test('who goes away leaves nothing behind', () =>
  given(async (served) => {
    const ada = await served.follow(served.rig.token);
    await ada.until((heard) => heard.length > 0);
    ada.close();
    while (served.live.streams() > 0) await systemClock.sleep(1);
    assert.equal(served.revocations.watching(), 0);
  }));

test('a user has so many streams and no more; another user still gets one', () =>
  given(async (served) => {
    const all = await Promise.all(
      Array.from({ length: limits.live_streams_per_user }, () => served.follow(served.rig.token)),
    );
    assert.ok(all.every((one) => one.status === 200));
    assert.equal((await served.follow(served.rig.token)).status, 429);
    assert.equal((await served.follow(served.eve)).status, 200);
  }));

test('nobody listens without a proof, and a narrowed one hears no more than it may', () =>
  given(async (served) => {
    assert.equal((await served.follow(null)).status, 401);
    const narrowed = async (scopes: string) => {
      const { tenant_id } = served.rig.ids;
      const role = 'member' as const;
      const made = await addUser(served.rig.store, served.rig.random, {
        ...{ tenant_id, role, name: scopes },
      });
      const text = 'update tokens set scopes = $1 where id = $2';
      await served.rig.store.transact('write', { text, params: [scopes, made.token_id] });
      return served.follow(made.token);
    };
    assert.equal((await narrowed('machines:read')).status, 403);
    const listening = await narrowed('workloads:read');
    const whole = await served.follow(served.rig.token);
    await launch(served, 'ours');
    await whole.until((heard) => heard.some((one) => one.type === 'machine'));
    await listening.until(has('ours'));
    assert.equal(
      listening.heard.some((one) => one.type === 'machine'),
      false,
    );
  }));

test('stages and machines are told as they change', () =>
  given(async (served) => {
    const ada = await served.follow(served.rig.token);
    const workload_id = await launch(served, 'ours');
    await ada.until((heard) => heard.some((one) => one.type === 'machine'));
    const run = { workload_id, replica: 0, run_epoch: 1 };
    const stage: Stage = {
      ...({ name: 'model', state: 'running' } as const),
      ...{ duration_ms: 5, done_bytes: 1, total_bytes: 2, note: null },
    };
    served.rig.presence.setStages(run, [stage]);
    await ada.until((heard) => heard.some((one) => one.type === 'stages'));
    const { machine_id } = served.rig.ids;
    served.online.set(machine_id, false);
    await ada.until((heard) => heard.some((one) => one.data.online === false));
    const offered = { cpu_millis: 1, memory_bytes: 1, disk_bytes: 1 };
    const told = { machine_id, name: 'desk', offered, inventory: '{}' };
    await served.rig.store.transact('updateInventory', told);
    await ada.until((heard) => heard.some((one) => Number(one.data.revision) > 0));
  }));

test('listening writes nothing', async () => {
  let written: string[] = [];
  const wrap = (store: RigStore) => {
    const both = counted(store);
    written = both.written;
    return both.store;
  };
  await given(
    async (served) => {
      const eve = await served.follow(served.eve);
      await eve.until((heard) => heard.some((one) => one.type === 'hello'));
      written.length = 0;
      await launch(served, 'hers', 'other');
      await eve.until(has('hers'));
      const again = await served.follow(served.eve, eve.lastId());
      await again.until((heard) => heard.length > 0);
      assert.deepEqual(written, ['launchWorkload']);
    },
    { wrap },
  );
});

test('where nobody knows whether a write happened, all are told to look anew', () =>
  given(async (served) => {
    const ada = await served.follow(served.rig.token);
    await ada.until((heard) => heard.length > 0);
    const { transact } = served.rig.store;
    served.rig.store.transact = () => Promise.reject(new StoreError('outcome_unknown', 'lost'));
    await assert.rejects(launch(served, 'lost'));
    await ada.until((heard) => heard.some((one) => one.type === 'reset'));
    served.rig.store.transact = transact;
  }));
