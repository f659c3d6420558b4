/**
 * What the gateway remembers of keys and names, and that nobody is let in by it who no longer may.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, createRig, type Rig, type RigStore } from '../../test/lib/rig.ts';
import { targetsOf } from '../../test/lib/rig-targets.ts';
import { guarded, writesTargets } from '../../test/lib/rig-transactions.ts';
import { createStop } from '../gateway/stop.ts';
import { digest } from '../lib/secret.ts';
import type { Sql } from '../store/sql.ts';
import { transactions } from '../store/transactions.ts';
import type { Targets } from './targets.ts';
import { background, createMemory, watchWrites } from './write-watch.ts';

const never = createStop();
const endpoint = { kind: 'endpoint', model: 'smollm2-135m', name: 'chat' };

type World = {
  rig: Rig;
  targets: Targets;
  /** How often the store was asked. */
  reads(): number;
  id: string;
  key: { id: string; text: string };
  /** Whether the key opens the endpoint, and what it is told. */
  told(): Promise<string>;
};

function given(name: string, body: (world: World) => Promise<void>) {
  test(name, async () => {
    let reads = 0;
    const counting = (store: RigStore): RigStore => ({
      ...store,
      read: ((...args: Parameters<RigStore['read']>) => {
        reads += 1;
        return store.read(...args);
      }) as RigStore['read'],
    });
    const rig = await createRig({ wrap: counting });
    try {
      const { token } = rig;
      const made = await ask(rig, 'POST', '/v1/workloads', { token, body: endpoint });
      const id = String(made.body.id);
      const created = await ask(rig, 'POST', `/v1/workloads/${id}/keys`, { token, body: {} });
      const key = { id: String(created.body.id), text: String(created.body.key) };
      const targets = targetsOf(rig);
      const told = async () => {
        const found = await targets.findKey(digest(key.text));
        if (found === null || found.revoked_at !== null) return 'no key';
        const led = await targets.findEndpoint(found, 'chat', never);
        return led.ok ? 'answers' : led.code;
      };
      await body({ rig, targets, reads: () => reads, id, key, told });
    } finally {
      await rig.close();
    }
  });
}

given('while nothing is written the store is asked once', async ({ rig, told, reads }) => {
  assert.equal(await told(), 'not_ready');
  const before = reads();
  for (let count = 0; count < 50; count += 1) await told();
  assert.equal(reads(), before);
  await rig.store.transact('saveUses', { uses: [] });
  await told();
  assert.equal(reads(), before, 'what leads nowhere else changes nothing');
});

given('a revoked key is refused at the next request', async ({ rig, told, id, key }) => {
  assert.equal(await told(), 'not_ready');
  const { token } = rig;
  const gone = await ask(rig, 'DELETE', `/v1/workloads/${id}/keys/${key.id}`, { token });
  assert.equal(gone.status, 204);
  assert.equal(await told(), 'no key');
});

given('a stop, and a user that is disabled, count at the next request', async (world) => {
  const { rig, told, id } = world;
  assert.equal(await told(), 'not_ready');
  await ask(rig, 'POST', `/v1/workloads/${id}/stop`, { token: rig.token });
  assert.equal(await told(), 'endpoint_stopped');
  const text = 'update users set disabled_at = 1';
  await rig.store.transact('write', { text, params: [] });
  assert.equal(await told(), 'no key');
});

given('a name that led nowhere leads somewhere once it is taken', async ({ rig, targets, key }) => {
  const found = await targets.findKey(digest(key.text));
  assert.ok(found);
  const of_all = { ...found, workload_ids: null };
  const look = async () => {
    const led = await targets.findEndpoint(of_all, 'later', never);
    return led.ok || led.code;
  };
  assert.equal(await look(), 'not_found');
  const body = { ...endpoint, name: 'later' };
  await ask(rig, 'POST', '/v1/workloads', { token: rig.token, body });
  assert.equal(await look(), 'not_ready');
});

test('what was read beside a write is not kept, and keys that are none push nothing out', async () => {
  let finish = () => {};
  const inner = { transact: () => new Promise<void>((resolve) => (finish = resolve)) };
  const { store, asOf } = watchWrites(inner as never, new Set(['saveUses']));
  const memory = createMemory<string | null>(asOf, 3);
  let reads = 0;
  const get = async (name: string, value: string | null = name) =>
    memory.get(
      name,
      async () => {
        reads += 1;
        return value;
      },
      (found) => found !== null,
    );
  await get('a');
  for (let count = 0; count < 20; count += 1) await get(`none ${count}`, null);
  await get('a');
  assert.equal(reads, 21);
  const written = store.transact('revokeKey' as never, {} as never);
  await get('a');
  await get('a');
  assert.equal(reads, 23, 'it may be on disk already');
  finish();
  await written;
  await get('a');
  await get('a');
  assert.equal(reads, 24);
  for (const name of ['b', 'c', 'd']) await get(name);
  await get('a');
  assert.equal(reads, 28, 'with one too many all are read again');
});

test('who asks while the same is being read waits for that read, unless something was written', async () => {
  const open: (() => void)[] = [];
  const inner = { transact: async () => ({}) };
  const { store, asOf } = watchWrites(inner as never, new Set());
  const memory = createMemory<number>(asOf, 3);
  let reads = 0;
  const get = async () =>
    memory.get(
      'a',
      () => {
        reads += 1;
        const value = reads;
        return new Promise((resolve) => open.push(() => resolve(value)));
      },
      () => true,
    );
  const first = [get(), get(), get()];
  await store.transact('revokeKey' as never, {} as never);
  const second = [get(), get()];
  assert.equal(open.length, 2);
  for (const one of open) one();
  assert.deepEqual(await Promise.all([...first, ...second]), [1, 1, 1, 2, 2]);
});

test('what may be written beside a memory is there, and leads no request elsewhere', async () => {
  for (const name of background) assert.ok(name in transactions, name);
  const sql = { run: async () => 1 } as unknown as Sql;
  const writing = (text: string) => guarded((on: Sql) => on.run(text, []), writesTargets)(sql, {});
  await writing('update runs set proven_steady = $1 where run_epoch = $2');
  await writing('select state from workloads');
  for (const table of ['endpoint_keys', 'workloads', 'runs', 'machines', 'machine_guests']) {
    await assert.rejects(async () => writing(`update ${table} set a = 1`), /would not notice/);
  }
});
