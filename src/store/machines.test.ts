/**
 * Machines: pages of them, and nothing that an agent says about whose machine it is.
 */
import assert from 'node:assert/strict';
import { addTenant, select } from '../../test/lib/rig.ts';
import { greet, offered, take } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { findMachine, listHolders, listMachines } from './machines.ts';

onEveryStore('machines', (inStory) => {
  inStory('adding a machine again leaves it as it is', async ({ store, ids }) => {
    const asked = { machine_id: ids.machine_id };
    const before = await store.read(findMachine, asked);
    const again = { id: ids.machine_id, tenant_id: 'other', name: 'x', region: 'y', now: 9 };
    assert.deepEqual(await store.transact('addMachine', again), { added: 0 });
    assert.deepEqual(await store.read(findMachine, asked), before);
  });

  inStory('an agent changes what is offered, never owner, region or sharing', async (story) => {
    const { store, ids } = story;
    const asked = { machine_id: ids.machine_id };
    const before = await store.read(findMachine, asked);
    const words = { tenant_id: 'eve', region: 'moon', sharing: 'community', generation: 0 };
    await store.transact('updateInventory', {
      ...words,
      machine_id: ids.machine_id,
      name: 'renamed',
      offered: { ...offered, cpu_millis: 1 },
      inventory: '{"sharing":"community"}',
    });
    const after = await store.read(findMachine, asked);
    assert.deepEqual(after, {
      ...before,
      name: 'renamed',
      host_name: 'renamed',
      cpu_millis: 1,
      reported_cpu_millis: 1,
      inventory: '{"sharing":"community"}',
      inventory_revision: (before?.inventory_revision ?? 0) + 1,
    });
  });

  inStory('two of a tenant never have one name, and each keeps the one it has', async (story) => {
    const { store, ids, clock } = story;
    const add = (id: string, tenant_id: string) =>
      store.transact('addMachine', { id, tenant_id, name: 'desk', region: 'local', now: 0 });
    const named = async (id: string) => (await store.read(findMachine, { machine_id: id }))?.name;
    const before = await named(ids.machine_id);
    await addTenant(store, 'other', 'other');
    await add('m-2', ids.tenant_id);
    await add('m-3', ids.tenant_id);
    await add('m-4', 'other');
    const names = await Promise.all(['m-2', 'm-3', 'm-4'].map(named));
    assert.deepEqual([before, ...names], ['desk', 'desk-2', 'desk-3', 'desk']);
    for (const id of ['m-2', 'm-3', ids.machine_id]) {
      await greet(store, id, clock);
      await greet(store, id, clock);
    }
    assert.deepEqual(await named('m-3'), 'desk-3');
    assert.deepEqual(await named(ids.machine_id), 'desk');
    for (let number = 10; number < 26; number += 1) await add(`many-${number}`, ids.tenant_id);
    const own = 'select name from machines where tenant_id = $1';
    const all = await select<{ name: string }>(store, own, [ids.tenant_id]);
    assert.equal(new Set(all.map(({ name }) => name)).size, 19);
  });

  inStory('what is held of a machine is the sum of its open holds', async (story) => {
    for (const which of [0, 1]) {
      await take(story, { do: 'launch', which: 0, clock_ms: 1 });
      await take(story, { do: 'place', which, clock_ms: 1 });
    }
    const page = { after: '', limit: 10, tenant_id: null };
    const [machine] = await story.store.read(listMachines, page);
    assert.equal(machine?.held.cpu_millis, 2000);
    assert.equal(machine?.owner, 'local');
    const { tenant_id } = story.ids;
    const holders = await story.store.read(listHolders, { tenant_id });
    assert.deepEqual(await story.store.read(listHolders, { tenant_id: 'other' }), []);
    assert.deepEqual(
      holders.map((held) => held.name),
      ['chat', 'chat-2'],
    );
  });
});

onEveryStore('pages of machines', (inStory) => {
  inStory('a page of a tenant has its own machines and those that are shared', async (story) => {
    const { store, ids, clock } = story;
    await addTenant(store, 'other', 'other');
    const more = [
      ['a-theirs', 'private'],
      ['b-shared', 'community'],
      ['c-invited', 'invite-only'],
    ];
    for (const [id = '', sharing = ''] of more) {
      const now = clock.now();
      const machine = { id, tenant_id: 'other', name: id, region: 'local', now };
      await store.transact('addMachine', machine);
      const text = 'update machines set sharing = $1 where id = $2';
      await store.transact('write', { text, params: [sharing, id] });
    }
    const listed = async (tenant_id: string | null) => {
      const ids: string[] = [];
      for (let after = ''; ; after = ids.at(-1) ?? '') {
        const rows = await store.read(listMachines, { after, limit: 1, tenant_id });
        if (rows.length === 0) return ids;
        ids.push(...rows.map((row) => row.id));
      }
    };
    assert.deepEqual(await listed(ids.tenant_id), [ids.machine_id, 'b-shared'].sort());
    assert.deepEqual(await listed('other'), ['a-theirs', 'b-shared', 'c-invited']);
    assert.equal((await listed(null)).length, 4);
  });
});
