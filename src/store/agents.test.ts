/**
 * Agents in the store: hellos that come late, twice, or from a double; fences.
 */
import assert from 'node:assert/strict';
import { select } from '../../test/lib/rig.ts';
import { greet, runsOf, type Story, take, workloadsOf } from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { listEvents } from './events.ts';

const identity = { store_uuid: 's', store_epoch: 1 };

async function running(story: Story): Promise<string> {
  await take(story, { do: 'launch', which: 0, clock_ms: 1 });
  await take(story, { do: 'place', which: 0, clock_ms: 1 });
  await take(story, { do: 'report', which: 0, says: 'ready', oom: false, clock_ms: 1 });
  const [row] = await workloadsOf(story.store);
  assert.equal(row?.state, 'running');
  return row?.id ?? '';
}

const causeOf = ({ clock }: Story) => ({
  ...{ now: clock.now(), mono: clock.monotonic(), actor: 'user:ada', request_id: 'r' },
});

onEveryStore('agents', (inStory) => {
  inStory('each hello has a higher epoch', async ({ store, ids, clock }) => {
    for (const agent_epoch of [2, 3, 4]) {
      const greeted = await greet(store, ids.machine_id, clock);
      assert.ok(greeted.outcome === 'greeted');
      assert.equal(greeted.agent_epoch, agent_epoch);
    }
    assert.deepEqual(await greet(store, 'unknown', clock), { outcome: 'unknown_machine' });
  });

  inStory('of many hellos that know the same, one is taken', async ({ store, ids, clock }) => {
    const known = { ...identity, agent_epoch: 1 };
    const greetings = await Promise.all(
      Array.from({ length: 16 }, (_, index) =>
        greet(store, ids.machine_id, clock, { known, hello_id: `h${index}` }),
      ),
    );
    assert.equal(greetings.filter((one) => one.outcome === 'greeted').length, 1);
    const late = greetings.filter((one) => one.outcome === 'behind');
    assert.deepEqual(
      late.map((one) => one.agent_epoch),
      Array.from({ length: 15 }, () => 2),
    );
  });

  inStory('a repeat of a hello is answered alike', async ({ store, ids, clock }) => {
    const known = { ...identity, agent_epoch: 1 };
    const first = await greet(store, ids.machine_id, clock, { known, hello_id: 'same' });
    const again = await greet(store, ids.machine_id, clock, { known, hello_id: 'same' });
    assert.deepEqual(again, first);
  });

  inStory('a hello from another boot waits while the old one is heard', async (story) => {
    const { store, ids, clock } = story;
    const other = { boot_id: 'b2', is_heard: true };
    assert.deepEqual(await greet(store, ids.machine_id, clock, other), { outcome: 'other_boot' });
    const later = await greet(store, ids.machine_id, clock, { ...other, is_heard: false });
    assert.equal(later.outcome, 'greeted');
  });

  inStory('an agent that met a later store is told so', async ({ store, ids, clock }) => {
    const known = { ...identity, store_epoch: 2, agent_epoch: 9 };
    const told = await greet(store, ids.machine_id, clock, { known });
    assert.deepEqual(told, { outcome: 'newer_store' });
  });

  inStory('an agent of before a restore is taken with a higher epoch', async (story) => {
    const { store, ids, clock } = story;
    await store.transact('restoreStore', {});
    const known = { ...identity, agent_epoch: 9 };
    const greeted = await greet(store, ids.machine_id, clock, { known });
    assert.ok(greeted.outcome === 'greeted');
    assert.deepEqual([greeted.store_epoch, greeted.agent_epoch], [2, 10]);
  });

  inStory('a hello that comes late after a restore supersedes nobody', async (story) => {
    const { store, ids, clock } = story;
    const says = (hello_id: string, store_epoch: number, agent_epoch: number) =>
      greet(store, ids.machine_id, clock, {
        ...{ hello_id, known: { ...identity, store_epoch, agent_epoch } },
      });
    await greet(store, ids.machine_id, clock, { hello_id: 'before' });
    await store.transact('restoreStore', {});
    assert.equal((await says('first', 1, 1)).outcome, 'greeted');
    const second = await says('second', 2, 3);
    assert.ok(second.outcome === 'greeted');
    // Another copy of what the first one said, and one of an agent that began anew since.
    const late = { outcome: 'behind', store_epoch: 2, agent_epoch: second.agent_epoch };
    assert.partialDeepStrictEqual(await says('first', 1, 1), late);
    assert.partialDeepStrictEqual(await says('anew', 1, 2), late);
    assert.equal((await says('anew', 2, second.agent_epoch)).outcome, 'greeted');
  });

  inStory('a fence ends what runs, frees what it held, and says who said so', async (story) => {
    const { store, ids } = story;
    const id = await running(story);
    const args = { ...causeOf(story), machine_id: ids.machine_id, agent_epoch: 1 };
    const late = await store.transact('fenceMachine', { ...args, agent_epoch: 0 });
    assert.deepEqual(late, { outcome: 'spoke_since', ended: 0 });
    const fenced = await store.transact('fenceMachine', args);
    story.proven.add(`${id}.0.1`);
    assert.deepEqual(fenced, { outcome: 'fenced', ended: 1 });
    const [row] = await workloadsOf(store);
    assert.deepEqual([row?.state, row?.code, row?.attempts], ['pending', 'machine_fenced', 0]);
    const [run] = await runsOf(store);
    assert.deepEqual([run?.observed, run?.wanted], ['absent', 'remove']);
    const open = await select(store, 'select * from holds where released_at is null');
    assert.deepEqual(open, []);
    const events = await store.read(listEvents, { workload_id: id, after: 0, limit: 99 });
    assert.match(events.at(-1)?.details ?? '', /user:ada/);
    assert.equal(events.at(-1)?.actor, 'user:ada');
    for (const other of [{ machine_id: 'none' }, { tenant_id: 'other' }]) {
      const none = await store.transact('fenceMachine', { ...args, ...other });
      assert.equal(none.outcome, 'not_found');
    }
  });
});
