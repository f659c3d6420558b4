/**
 * What the people of a machine's owner do about it, and what placement makes of it; on every store.
 */
import assert from 'node:assert/strict';
import { addTenant, endpointSpec, select } from '../../test/lib/rig.ts';
import {
  eventsOf,
  greet,
  offered,
  runsOf,
  type Story,
  take,
  takeReady,
  workloadsOf,
} from '../../test/lib/store-model.ts';
import { onEveryStore } from '../../test/lib/store-tests.ts';
import { parseAsk } from '../core/ask.ts';
import { findMachine, listGenerations, listMachines, sumOfGenerations } from './machines.ts';

const causeOf = ({ clock }: Story) => ({
  ...{ now: clock.now(), mono: clock.monotonic(), actor: 'user:ada', request_id: 'r' },
});
const changeOf = (story: Story) => {
  const { machine_id, tenant_id } = story.ids;
  return { ...causeOf(story), machine_id, tenant_id };
};
const not_found = { ok: false, code: 'not_found' };
const gib = 2 ** 30;

async function machineOf({ store, ids }: Story) {
  const row = await store.read(findMachine, { machine_id: ids.machine_id });
  assert.ok(row);
  return row;
}

const drain = (story: Story, drained: number, stop = 0) =>
  story.store.transact('drainMachine', { ...changeOf(story), drained, stop });
const remove = (story: Story, forget_homes = 0) =>
  story.store.transact('removeMachine', { ...changeOf(story), forget_homes });
const step = (story: Story, what: 'launch' | 'place' | 'start' | 'stop' | 'delete') =>
  take(story, { do: what, which: 0, clock_ms: 1 });
const says = (story: Story, what: 'ready' | 'parked' | 'removed') =>
  take(story, { do: 'report', which: 0, says: what, oom: false, clock_ms: 1 });

onEveryStore('names and limits of machines', (inStory) => {
  inStory('the name that a person gave outlives what its agent says', async (story) => {
    const { store, ids, clock } = story;
    const named = { ...changeOf(story), name: 'bench' };
    assert.deepEqual(await store.transact('renameMachine', named), { ok: true });
    await greet(store, ids.machine_id, clock, { name: 'host-a' });
    const said = { name: 'host-b', offered, inventory: '{}' };
    await store.transact('updateInventory', { machine_id: ids.machine_id, ...said });
    const row = await machineOf(story);
    assert.deepEqual([row.name, row.host_name], ['bench', 'host-b']);
  });

  inStory("a name is taken within a tenant alone, and not by one's own", async (story) => {
    const { store, ids } = story;
    await addTenant(store, 'other', 'other');
    const add = (id: string, tenant_id: string) =>
      store.transact('addMachine', { id, tenant_id, name: id, region: 'local', now: 0 });
    await add('m-2', ids.tenant_id);
    await add('m-3', 'other');
    const rename = (name: string) => store.transact('renameMachine', { ...changeOf(story), name });
    assert.deepEqual(await rename('m-2'), { ok: false, code: 'machine_name_taken' });
    assert.deepEqual(await rename('m-3'), { ok: true });
    assert.deepEqual(await rename('m-3'), { ok: true });
    const both = await Promise.all(
      [ids.machine_id, 'm-2'].map((machine_id) =>
        store.transact('renameMachine', { ...changeOf(story), machine_id, name: 'both' }),
      ),
    );
    assert.equal(both.filter(({ ok }) => ok).length, 1, 'one of two that want it at once');
  });

  inStory("an agent offers no more than its machine's owner lets it", async (story) => {
    const { store, ids, clock } = story;
    const limit = (caps: object) => store.transact('limitMachine', { ...changeOf(story), caps });
    const offers = async () => {
      const { cpu_millis, memory_bytes } = await machineOf(story);
      return [cpu_millis, memory_bytes / gib];
    };
    assert.deepEqual(await limit({ cpu_millis: 1000, memory_bytes: 64 * gib }), { ok: true });
    assert.deepEqual(await offers(), [1000, 6]);
    const more = { cpu_millis: 64_000, memory_bytes: 512 * gib, disk_bytes: 0 };
    await greet(store, ids.machine_id, clock, { offered: more });
    assert.deepEqual(await offers(), [1000, 64]);
    const said = { name: 'desk', inventory: '{"caps":null}', offered: more };
    await store.transact('updateInventory', { machine_id: ids.machine_id, ...said });
    assert.deepEqual(await offers(), [1000, 64]);
    await limit({ cpu_millis: null });
    assert.deepEqual(await offers(), [64_000, 64], 'the other limit stays');
    const other = { ...changeOf(story), tenant_id: 'other', caps: { cpu_millis: 1 } };
    assert.deepEqual(await store.transact('limitMachine', other), not_found);
    // What the story's own end check knows of this machine.
    await limit({ memory_bytes: null });
    await greet(store, ids.machine_id, clock);
  });
});

onEveryStore('draining a machine', (inStory) => {
  inStory('nothing new comes, what runs goes on', async (story) => {
    await takeReady(story);
    assert.deepEqual(await drain(story, 1), { ok: true, parked: 0 });
    const { drained_at } = await machineOf(story);
    story.clock.stepWall(1000);
    await drain(story, 1);
    assert.equal((await machineOf(story)).drained_at, drained_at, 'drained once');
    await step(story, 'launch');
    await take(story, { do: 'place', which: 1, clock_ms: 1 });
    const states = (await workloadsOf(story.store)).map(({ state }) => state);
    assert.deepEqual(states, ['running', 'pending']);
    await drain(story, 0);
    await take(story, { do: 'place', which: 1, clock_ms: 1 });
    assert.equal((await workloadsOf(story.store))[1]?.state, 'provisioning');
  });

  inStory('with stop what runs is parked for it, and wants to go on', async (story) => {
    const { store } = story;
    await takeReady(story);
    assert.deepEqual(await drain(story, 1, 1), { ok: true, parked: 1 });
    const [row] = await workloadsOf(store);
    assert.deepEqual(
      [row?.state, row?.intent, row?.park_cause, row?.code],
      ['stopping', 'running', 'preempted', 'machine_drained'],
    );
    assert.equal((await runsOf(store))[0]?.wanted, 'park');
    assert.deepEqual(await drain(story, 1, 1), { ok: true, parked: 0 }, 'once');
  });

  inStory('of a placement and a drain at once one waits for the other', async (story) => {
    const { store, ids, clock } = story;
    await step(story, 'launch');
    const [row] = await workloadsOf(store);
    assert.ok(row);
    const placement = {
      ...{ machine_id: ids.machine_id, machine_name: 'desk', driver: 'sim' as const },
      ...{ isolation: 'weak' as const, placed_class: 'cpu-1c-2g' },
    };
    const [placed, drained] = await Promise.all([
      store.transact('placeWorkload', {
        ...{ workload_id: row.id, revision: row.revision, placement },
        ...{ now: clock.now(), actor: 'controller', request_id: null },
      }),
      drain(story, 1, 1),
    ]);
    const was_first = placed.outcome === 'placed';
    assert.deepEqual(drained, { ok: true, parked: was_first ? 1 : 0 });
    const wanted = (await runsOf(store)).map((run) => run.wanted);
    assert.deepEqual(wanted, was_first ? ['park'] : []);
  });
});

onEveryStore('removing a machine', (inStory) => {
  inStory('of a placement and a removal at once one refuses the other', async (story) => {
    const { store, ids, clock } = story;
    await step(story, 'launch');
    const [row] = await workloadsOf(store);
    assert.ok(row);
    const placement = {
      ...{ machine_id: ids.machine_id, machine_name: 'desk', driver: 'sim' as const },
      ...{ isolation: 'weak' as const, placed_class: 'cpu-1c-2g' },
    };
    const [removed, placed] = await Promise.all([
      remove(story),
      store.transact('placeWorkload', {
        ...{ workload_id: row.id, revision: row.revision, placement },
        ...{ now: clock.now(), actor: 'controller', request_id: null },
      }),
    ]);
    assert.notEqual(removed.ok, placed.outcome === 'placed');
    assert.equal((await runsOf(store)).length, removed.ok ? 0 : 1);
  });

  inStory('what may still run there keeps it, by name where it is yours', async (story) => {
    const { store, ids } = story;
    await takeReady(story);
    const refused = { ok: false, code: 'machine_has_runs', machine: 'desk' };
    assert.deepEqual(await remove(story), { ...refused, own: ['chat'], others: 0 });
    assert.deepEqual(await remove(story, 1), { ...refused, own: ['chat'], others: 0 });
    await addTenant(store, 'other', 'other');
    const give = (tenant_id: string) =>
      store.transact('write', { text: 'update machines set tenant_id = $1', params: [tenant_id] });
    await give('other');
    const theirs = { ...changeOf(story), tenant_id: 'other', forget_homes: 0 };
    assert.deepEqual(await store.transact('removeMachine', theirs), {
      ...{ ...refused, own: [], others: 1 },
    });
    assert.deepEqual(await remove(story), not_found);
    await give(ids.tenant_id);
    await step(story, 'stop');
    assert.equal((await remove(story)).ok, false, 'it was only asked to stop');
    await says(story, 'parked');
    assert.deepEqual(await remove(story), { ok: true, forgotten: 0 });
  });

  inStory(
    'no agent of it is heard any more, its history stays, and it may come back',
    async (story) => {
      const { store, ids, clock } = story;
      await takeReady(story);
      await step(story, 'stop');
      await says(story, 'parked');
      const [workload] = await workloadsOf(store);
      const events = await eventsOf(store, workload?.id ?? '');
      const page = { after: '', limit: 9, known: null };
      const before = await store.read(listGenerations, page);
      assert.deepEqual(await remove(story), { ok: true, forgotten: 0 });
      assert.deepEqual(await eventsOf(store, workload?.id ?? ''), events);
      assert.deepEqual(await greet(store, ids.machine_id, clock), { outcome: 'unknown_machine' });
      const listed = { after: '', limit: 9, tenant_id: null };
      assert.deepEqual(await store.read(listMachines, listed), []);
      assert.deepEqual(await remove(story), not_found);
      const after = await store.read(listGenerations, page);
      const sums = [before, after].map((rows) =>
        sumOfGenerations(rows.map((row) => row.generation)),
      );
      assert.ok((sums[1] ?? 0) > (sums[0] ?? 0), 'the sum of generations rises');
      await step(story, 'start');
      await step(story, 'place');
      assert.equal((await workloadsOf(store))[0]?.state, 'pending', 'nothing is placed there');
      const { agent_epoch } = await machineOf(story);
      const again = { id: ids.machine_id, tenant_id: ids.tenant_id, region: 'local', now: 9 };
      assert.deepEqual(await store.transact('addMachine', { ...again, name: 'desk' }), {
        added: 1,
      });
      const greeted = await greet(store, ids.machine_id, clock);
      assert.equal(greeted.outcome === 'greeted' && greeted.agent_epoch, agent_epoch + 1);
      await step(story, 'place');
      assert.equal((await workloadsOf(store))[0]?.state, 'provisioning');
    },
  );

  inStory('what waits to be gone there is gone with it', async (story) => {
    const { store } = story;
    await takeReady(story);
    await step(story, 'stop');
    await says(story, 'parked');
    await step(story, 'delete');
    assert.equal((await workloadsOf(store))[0]?.state, 'deleting');
    assert.deepEqual(await remove(story), { ok: true, forgotten: 0 });
    assert.equal((await workloadsOf(store))[0]?.state, 'deleted');
  });

  inStory('a store that was restored does not wait for one that was removed', async (story) => {
    const { store, ids } = story;
    const other = { id: 'm-2', tenant_id: ids.tenant_id, name: 'two', region: 'local', now: 0 };
    await store.transact('addMachine', other);
    await step(story, 'launch');
    await store.transact('restoreStore', {});
    await store.transact('removeMachine', {
      ...changeOf(story),
      machine_id: 'm-2',
      forget_homes: 0,
    });
    const [machine] = await select<{ agent_epoch: number }>(store, 'select * from machines');
    assert.ok(machine);
    await store.transact('applyReport', {
      ...{ ...causeOf(story), machine_id: ids.machine_id, machine_name: 'desk', observed: [] },
    });
    await step(story, 'place');
    assert.equal((await workloadsOf(store))[0]?.state, 'provisioning');
  });
});

onEveryStore('homes on a machine that is removed', (inStory) => {
  /** A notebook whose disk is on the story's machine, stopped. */
  async function atHome(story: Story): Promise<void> {
    const { store, ids, random, clock } = story;
    await store.transact('launchWorkload', {
      ...{ id: 'w-home', tenant_id: ids.tenant_id, creator_id: ids.user_id },
      spec: endpointSpec({ kind: 'notebook', name: 'lab', model: null, disk_bytes: gib }),
      ...{ name_is_free: true, actor: 'user:ada', request_id: String(random.bytes(2)) },
      ...{ now: clock.now(), idempotency: null },
    });
    await step(story, 'place');
    await says(story, 'ready');
    await step(story, 'stop');
    await says(story, 'parked');
    const [row] = await workloadsOf(store);
    assert.equal(row?.state, 'stopped');
  }
  const home = ({ store }: Story) =>
    select<{ state: string; code: string | null; home_machine_id: string | null }>(
      store,
      'select state, code, home_machine_id from workloads',
    );

  inStory('a disk keeps its machine, until it is said that it is given up', async (story) => {
    await atHome(story);
    const refused = { ok: false, code: 'machine_in_use', machine: 'desk', own: ['lab'], others: 0 };
    assert.deepEqual(await remove(story), refused);
    assert.deepEqual(await remove(story, 1), { ok: true, forgotten: 1 });
    const [row] = await home(story);
    assert.deepEqual([row?.state, row?.home_machine_id], ['stopped', null]);
    // Nor does admission send it there any more.
    const [asks] = await workloadsOf(story.store);
    assert.equal(parseAsk(asks?.ask ?? '').home_machine_id, undefined);
    const last = (await eventsOf(story.store, 'w-home')).at(-1);
    assert.deepEqual([last?.kind, last?.code], ['note', 'home_lost']);
    assert.match(last?.details ?? '', /desk.*ada/);
  });

  inStory(
    'what waits for its disk fails by its loss, and begins anew by a person',
    async (story) => {
      await atHome(story);
      await step(story, 'start');
      assert.deepEqual(await remove(story, 1), { ok: true, forgotten: 1 });
      const [row] = await home(story);
      assert.deepEqual([row?.state, row?.code], ['failed', 'home_lost']);
      await step(story, 'start');
      assert.equal((await home(story))[0]?.state, 'pending');
    },
  );

  inStory("others' disks are given up only where a person said that it is off", async (story) => {
    const { store, ids } = story;
    await atHome(story);
    await addTenant(store, 'other', 'other');
    await store.transact('write', { text: "update machines set tenant_id = 'other'", params: [] });
    const args = { ...changeOf(story), tenant_id: 'other', forget_homes: 1 };
    const refused = { ok: false, code: 'machine_in_use', machine: 'desk', own: [], others: 1 };
    assert.deepEqual(await store.transact('removeMachine', args), refused);
    const { agent_epoch } = await machineOf(story);
    const fence = { ...causeOf(story), machine_id: ids.machine_id, agent_epoch };
    await store.transact('fenceMachine', fence);
    await greet(store, ids.machine_id, story.clock);
    assert.deepEqual(await store.transact('removeMachine', args), refused, 'it spoke since');
    await store.transact('fenceMachine', { ...fence, agent_epoch: agent_epoch + 1 });
    assert.deepEqual(await store.transact('removeMachine', args), { ok: true, forgotten: 1 });
  });
});
