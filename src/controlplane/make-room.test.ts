/**
 * Making room: idle endpoints of one's own give way to what waits, in one step, and nothing that is
 * in use does.
 */
import assert from 'node:assert/strict';
import { addUser, ask } from '../../test/lib/rig.ts';
import {
  every_ms,
  given,
  live,
  observe,
  rowOf,
  runAnew,
  type Tale,
} from '../../test/lib/use-rig.ts';
import type { MakeRoomArgs } from '../store/make-room.ts';
import type { EinsoraStore } from '../store/transactions.ts';

/** Does not fit beside the endpoint that runs. */
const large = { kind: 'endpoint', model: 'smollm2-135m', name: 'large', gpu_class: 'cpu-4c-16g' };
const idle_samples = 31;
const options = { after_ms: null };

/** The same store, with something that happens right before or after room is made in it. */
function around(
  store: EinsoraStore,
  meanwhile: { before?(): Promise<void>; after?(): Promise<void> },
): EinsoraStore {
  const transact = async (name: 'makeRoom', args: MakeRoomArgs) => {
    if (name === 'makeRoom') await meanwhile.before?.();
    const done = await store.transact(name, args);
    if (name === 'makeRoom') await meanwhile.after?.();
    return done;
  };
  return { ...store, transact: transact as EinsoraStore['transact'] };
}

const as = (token: string | undefined) => (token === undefined ? {} : { token });
const launch = ({ rig }: Tale, token?: string) =>
  ask(rig, 'POST', '/v1/workloads', { body: large, ...as(token) });
const makeRoom = ({ rig }: Tale, token?: string) =>
  ask(rig, 'POST', '/v1/workloads/large/make-room', as(token));
const planned = async ({ rig }: Tale, token?: string) =>
  (await ask(rig, 'POST', '/v1/plan', { body: large, ...as(token) })).body;

given(
  'the plan offers an endpoint that nobody used, and stopping it makes the room',
  async (tale) => {
    assert.equal((await planned(tale)).make_room, null, 'not known to be idle yet');
    await live(tale, idle_samples);
    const { make_room, chosen } = await planned(tale);
    assert.equal(chosen, null);
    assert.deepEqual(make_room, [{ name: 'chat', idle_ms: idle_samples * every_ms }]);
    await launch(tale);
    const controller = tale.rig.startController();
    await controller.pass();
    const shown = (await ask(tale.rig, 'GET', '/v1/workloads/large')).body;
    assert.equal((shown.reason as { fix: string }).fix, 'bin/einsora make-room large');
    const made = await makeRoom(tale);
    assert.equal(made.status, 202, made.text);
    assert.deepEqual(made.body.stopped, [{ id: tale.id, name: 'chat' }]);
    const stopping = await rowOf(tale);
    assert.deepEqual([stopping.state, stopping.intent], ['stopping', 'running']);
    await observe(tale, 'parked');
    const parked = await rowOf(tale);
    assert.deepEqual(
      [parked.state, parked.park_cause, parked.code],
      ['stopped', 'idle', 'parked_for_room'],
    );
    assert.match(parked.details, /"room_for":"large","idle":"5m 10s"/);
    await controller.pass();
    const placed = (await ask(tale.rig, 'GET', '/v1/workloads/large')).body;
    assert.equal(placed.state, 'provisioning');
    const again = await makeRoom(tale);
    assert.deepEqual([again.status, again.body.error?.code], [409, 'not_waiting']);
    assert.equal((await tale.use.waker.wake(tale.id, 'a request')).outcome, 'woken');
    const { items = [] } = (await ask(tale.rig, 'GET', '/v1/activity?limit=50')).body;
    const [action] = items.filter((one) => one.route === 'makeRoom' && one.outcome === 'done');
    assert.match(JSON.stringify(action), /"parked":"chat"/);
  },
  options,
);

given(
  'what is in use is not stopped: held open, or used a moment ago',
  async (tale) => {
    await live(tale, idle_samples);
    await launch(tale);
    const release = tale.use.lastUse.hold(tale.id);
    assert.deepEqual((await makeRoom(tale)).body.stopped, []);
    release();
    assert.deepEqual((await makeRoom(tale)).body.stopped, []);
    await live(tale, idle_samples - 3);
    assert.deepEqual((await makeRoom(tale)).body.stopped, []);
    await live(tale, 4);
    assert.deepEqual((await makeRoom(tale)).body.stopped, [{ id: tale.id, name: 'chat' }]);
  },
  options,
);

given(
  'who asks for it while it is being stopped wakes it at once',
  async (tale) => {
    const { rig, use, id } = tale;
    await live(tale, idle_samples);
    await launch(tale);
    const { store } = rig.apiDeps;
    rig.apiDeps.store = around(store, {
      after: async () => use.lastUse.touch(id),
    });
    assert.equal((await makeRoom(tale)).status, 202);
    const woken = await rowOf(tale);
    assert.deepEqual([woken.intent, woken.park_cause], ['running', 'none']);
    await observe(tale, 'parked');
    assert.equal((await rowOf(tale)).state, 'pending', 'it starts again');
  },
  options,
);

given(
  'where it changed meanwhile nothing is stopped',
  async (tale) => {
    const { rig } = tale;
    await live(tale, idle_samples);
    await launch(tale);
    const { store } = rig.apiDeps;
    rig.apiDeps.store = around(store, {
      async before() {
        await observe(tale, 'parked');
        await rig.clock.advance(1000);
        await runAnew(tale);
      },
    });
    const made = await makeRoom(tale);
    assert.deepEqual([made.status, made.body.error?.code], [409, 'room_changed']);
    assert.equal((await rowOf(tale)).state, 'running');
  },
  options,
);

given(
  "a member has their own stopped and nobody else's; an admin of the tenant any of it",
  async (tale) => {
    const { rig } = tale;
    await live(tale, idle_samples);
    const { tenant_id } = rig.ids;
    const person = (name: string, role: 'member' | 'tenant-admin' | 'viewer') =>
      addUser(rig.store, rig.random, { tenant_id, name, role });
    const [bob, eve, cyd] = [
      await person('bob', 'member'),
      await person('eve', 'viewer'),
      await person('cyd', 'tenant-admin'),
    ];
    assert.equal((await planned(tale, bob.token)).make_room, null);
    await launch(tale, bob.token);
    assert.deepEqual((await makeRoom(tale, bob.token)).body.stopped, []);
    assert.equal((await makeRoom(tale, eve.token)).status, 403);
    assert.equal((await makeRoom(tale, cyd.token)).status, 202);
  },
  options,
);
