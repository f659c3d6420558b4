/**
 * The catalog as data: an operator's class and image decide from the next launch on, what waits
 * keeps its class, and what runs keeps what it was given.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addUser,
  ask,
  createRig,
  gib,
  inventoryOf,
  type Rig,
  select,
} from '../../../test/lib/rig.ts';
import type { Inventory } from '../../contract/machines.ts';

const greet = ({ sync, ids }: Rig, inventory: Inventory) =>
  sync.hello(ids.machine_id, { boot_id: 'b', hello_id: 'h', known: null, inventory });

const small = {
  ...{ accelerator: 'cpu', delivery: 'native', cpu_millis: 500, memory_bytes: gib / 2 },
  weight: 0.5,
};

async function withRig(body: (rig: Rig) => Promise<void>): Promise<void> {
  const rig = await createRig();
  try {
    await body(rig);
  } finally {
    await rig.close();
  }
}

const launch = (rig: Rig, more: Record<string, unknown> = {}) =>
  ask(rig, 'POST', '/v1/workloads', { body: { kind: 'instance', name: 'box', ...more } });
const put = (rig: Rig, path: string, body: unknown) => ask(rig, 'PUT', path, { body });

test('a class that an operator adds is asked for by its name and recorded as done', () =>
  withRig(async (rig) => {
    assert.equal((await launch(rig, { gpu_class: 'tiny' })).body.error?.code, 'unknown_class');
    const set = await put(rig, '/v1/classes/tiny', small);
    assert.equal(set.status, 200, set.text);
    assert.equal(set.body.origin, 'added');
    assert.equal(set.body.changed_by, 'op');
    const launched = await launch(rig, { gpu_class: 'tiny', memory_bytes: gib / 2 });
    assert.equal(launched.status, 201, launched.text);
    assert.equal(launched.body.cpu_millis, 500);
    const [row] = await select<{ target: string }>(
      rig.store,
      "select target from activity where route = 'setClass'",
    );
    assert.equal(row?.target, 'class:tiny');
  }));

test('who changed the catalog is told to operators alone', () =>
  withRig(async (rig) => {
    await put(rig, '/v1/classes/tiny', small);
    const { tenant_id } = rig.ids;
    const member = { tenant_id, name: 'bob', role: 'member' } as const;
    const { token } = await addUser(rig.store, rig.random, member);
    const shown = await ask(rig, 'GET', '/v1/classes/tiny', { token });
    assert.equal(shown.body.changed_by, null);
    assert.doesNotMatch((await ask(rig, 'GET', '/v1/classes', { token })).text, /"op"/);
    assert.equal((await ask(rig, 'GET', '/v1/classes/tiny')).body.changed_by, 'op');
  }));

test('a class that is retired is asked for no more, and comes back by a reset', () =>
  withRig(async (rig) => {
    const path = '/v1/classes/cpu-1c-2g';
    assert.equal((await ask(rig, 'DELETE', path)).body.origin, 'retired');
    const refused = await launch(rig, { gpu_class: 'cpu-1c-2g' });
    assert.equal(refused.body.error?.code, 'unknown_class');
    const smallest = await launch(rig);
    assert.equal(smallest.body.gpu_class, 'cpu-2c-4g');
    const back = await ask(rig, 'POST', `${path}/reset`);
    assert.equal(back.body.origin, 'built-in');
    assert.equal((await launch(rig, { gpu_class: 'cpu-1c-2g', name: 'b' })).status, 201);
  }));

test('a class that something waits for does not go', () =>
  withRig(async (rig) => {
    await put(rig, '/v1/classes/tiny', small);
    await launch(rig, { gpu_class: 'tiny', memory_bytes: gib / 2 });
    const refused = await ask(rig, 'DELETE', '/v1/classes/tiny');
    assert.equal(refused.body.error?.code, 'class_in_use');
    assert.match(refused.body.error?.message ?? '', /^1 workloads wait for the class tiny/);
    await ask(rig, 'DELETE', '/v1/workloads/box');
    assert.equal((await ask(rig, 'DELETE', '/v1/classes/tiny')).status, 200);
    assert.equal((await ask(rig, 'GET', '/v1/classes/tiny')).body.error?.code, 'unknown_entry');
  }));

const wrongClasses: [string, unknown, RegExp][] = [
  [
    'a delivery that does not go with its accelerator',
    { accelerator: 'apple', delivery: 'container' },
    /does not go with/,
  ],
  ['a GPU in a CPU class', { gpu_memory_bytes: gib }, /are for nvidia classes/],
  ['no weight', { weight: 0 }, /weight/],
  ['a field that nobody knows', { colour: 'red' }, /colour/i],
  ['a region that is not there', { regions: ['moon'] }, /no region moon; known: local/],
];
for (const [what, more, message] of wrongClasses) {
  test(`a class with ${what} is refused`, () =>
    withRig(async (rig) => {
      const refused = await put(rig, '/v1/classes/odd', { ...small, ...(more as object) });
      assert.equal(refused.status, 400, refused.text);
      assert.match(refused.body.error?.message ?? '', message);
    }));
}

const picture = {
  ...{ title: 'Our tools', kinds: ['instance'] },
  runtimes: [{ accelerator: 'cpu', reference: 'registry.example/tools:3', uid: 7 }],
};
const wrongImages: [string, unknown, RegExp][] = [
  [
    'a reference that is none',
    { runtimes: [{ accelerator: 'cpu', reference: 'tools' }] },
    /no registry's reference/,
  ],
  ['endpoints', { kinds: ['endpoint'] }, /only takes the place of one that is known/],
  ['virtual machines', { kinds: ['vm'] }, /virtual machines run no images/],
  [
    "a Mac's GPU",
    { runtimes: [{ accelerator: 'apple', reference: 'a/b:1' }] },
    /no container reaches/,
  ],
];
for (const [what, more, message] of wrongImages) {
  test(`an image for ${what} is refused`, () =>
    withRig(async (rig) => {
      const body = { ...picture, ...(more as object) };
      const refused = await put(rig, '/v1/catalog-images/odd', body);
      assert.equal(refused.status, 400, refused.text);
      assert.match(refused.body.error?.message ?? '', message);
    }));
}

test("an operator's image reaches the machine with its run, and stays what it was then", () =>
  withRig(async (rig) => {
    const inventory = inventoryOf({ cpu_millis: 4000, memory_bytes: 8 * gib });
    const drivers = inventory.drivers.map((one) => ({ ...one, kinds: ['instance' as const] }));
    await greet(rig, { ...inventory, drivers });
    assert.equal((await put(rig, '/v1/catalog-images/tools', picture)).status, 200);
    assert.equal((await launch(rig, { image_id: 'tools' })).status, 201);
    await rig.startController().pass();
    const first = await desiredRuntime(rig);
    assert.equal(first?.reference, 'registry.example/tools:3');
    assert.equal(first?.uid, 7);
    assert.deepEqual(first?.command, ['sleep', 'infinity']);
    await ask(rig, 'DELETE', '/v1/catalog-images/tools');
    assert.deepEqual(await desiredRuntime(rig), first);
    const unknown = await launch(rig, { image_id: 'tools', name: 'other' });
    assert.equal(unknown.body.error?.code, 'unknown_image');
  }));

type Runtime = { reference: string; uid: number; command: string[] };

async function desiredRuntime(rig: Rig): Promise<Runtime | null> {
  const [row] = await select<{ runtime: string | null }>(rig.store, 'select runtime from runs');
  return row?.runtime == null ? null : (JSON.parse(row.runtime) as Runtime);
}

test('what was used weighs as its class did then, whatever an operator says later', () =>
  withRig(async (rig) => {
    await greet(rig, {
      ...inventoryOf({ cpu_millis: 4000, memory_bytes: 8 * gib }),
      drivers: [{ driver: 'sim', ready: true, why: null, kinds: ['instance'], findings: [] }],
    });
    await put(rig, '/v1/classes/tiny', small);
    await launch(rig, { gpu_class: 'tiny', memory_bytes: gib / 2 });
    await rig.startController().pass();
    await put(rig, '/v1/classes/tiny', { ...small, weight: 99 });
    const rows = await select<{ weight_millis: number }>(
      rig.store,
      'select weight_millis from ledger',
    );
    assert.deepEqual(
      rows.map((row) => row.weight_millis),
      [500],
    );
  }));

test('a class that is offered in some regions only is refused elsewhere', () =>
  withRig(async (rig) => {
    const { ids, store } = rig;
    const now = rig.clock.now();
    await store.transact('addMachine', {
      ...{ id: 'm-attic', tenant_id: ids.tenant_id, name: 'box', region: 'attic', now },
    });
    assert.equal((await launch(rig)).body.error?.code, 'region_needed');
    await put(rig, '/v1/classes/tiny', { ...small, regions: ['attic'] });
    const asked = { gpu_class: 'tiny', memory_bytes: gib / 2 };
    const refused = await launch(rig, { ...asked, region: 'local' });
    assert.equal(refused.body.error?.code, 'class_not_in_region');
    assert.equal((await launch(rig, { ...asked, region: 'attic' })).status, 201);
    const unknown = await launch(rig, { ...asked, region: 'cellar', name: 'c' });
    assert.equal(unknown.body.error?.message, 'There is no region cellar; known: attic, local.');
  }));
