/**
 * Machines: numbers that only rise, and nothing that an agent says about whose machine it is.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openTestStore, storeKinds } from '../../test/lib/rig.ts';
import { beginStory, greet, offered, type Story, take } from '../../test/lib/store-model.ts';
import { findMachine, listHolders, listMachines } from './machines.ts';

for (const kind of storeKinds) {
  describe(`machines on a store in ${kind}`, () => {
    const inStory = (name: string, body: (story: Story) => Promise<void>) =>
      test(name, async () => {
        const { store, close } = await openTestStore(kind);
        try {
          await body(await beginStory(store));
        } finally {
          await close();
        }
      });

    inStory(
      'each hello has a higher epoch, also of many at once',
      async ({ store, ids, clock }) => {
        const greetings = await Promise.all(
          Array.from({ length: 16 }, () => greet(store, ids.machine_id, clock)),
        );
        const epochs = greetings.map((one) => one?.agent_epoch);
        assert.deepEqual(
          epochs,
          Array.from({ length: 16 }, (_, index) => index + 2),
        );
        assert.equal(await greet(store, 'unknown', clock), null);
      },
    );

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
        cpu_millis: 1,
        inventory: '{"sharing":"community"}',
      });
    });

    inStory('what is held of a machine is the sum of its open holds', async (story) => {
      for (const which of [0, 1]) {
        await take(story, { do: 'launch', which: 0, clock_ms: 1 });
        await take(story, { do: 'place', which, clock_ms: 1 });
      }
      const [machine] = await story.store.read(listMachines, { region: null });
      assert.equal(machine?.held_cpu_millis, 2000);
      assert.equal(machine?.owner, 'local');
      assert.deepEqual(await story.store.read(listMachines, { region: 'elsewhere' }), []);
      const holders = await story.store.read(listHolders, {});
      assert.deepEqual(
        holders.map((held) => held.name),
        ['chat', 'chat-2'],
      );
    });
  });
}
