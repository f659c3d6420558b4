/**
 * Turns at an endpoint's slots: bounded, in order, fair between keys, without a trace of who left.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../../test/lib/fake-clock.ts';
import { limits } from '../../contract/limits.ts';
import { fraction, seededRandom } from '../../lib/random.ts';
import { createStop, type Stop } from '../stop.ts';
import { createTurnLine } from './turn-line.ts';
import { createTurns } from './turns.ts';

function openTurns(options: { capacity?: number; waiting?: number } = {}) {
  const clock = createFakeClock();
  const room = { capacity: options.capacity ?? 1 };
  const turns = createTurns({ clock, ...options });
  const served: string[] = [];
  const refused: string[] = [];
  const leaves = new Map<string, () => void>();
  /** `name` is the key and a number: k1.0 */
  const enter = (name: string, stop = createStop()) => {
    const key_id = name.split('.')[0] ?? '';
    const capacity = () => room.capacity;
    const entered = turns.enter({ workload_id: 'w', key_id, capacity, stop });
    return Promise.resolve(entered).then((turn) => {
      if (turn.ok) {
        served.push(name);
        leaves.set(name, turn.leave);
      } else refused.push(`${name} ${turn.refusal.status} ${turn.refusal.code}`);
      return turn;
    });
  };
  const leave = async (name: string) => {
    leaves.get(name)?.();
    leaves.delete(name);
    await settle(1);
  };
  const waiting = () => turns.standing().reduce((sum, one) => sum + one.waiting, 0);
  return { clock, room, turns, waiting, served, refused, leaves, enter, leave };
}

test('keys take turns, and inside one key who came first is first', async () => {
  const { served, enter, leave } = openTurns();
  for (const name of ['a.0', 'a.1', 'a.2', 'b.0', 'a.3', 'c.0', 'b.1']) void enter(name);
  await settle(1);
  for (const name of ['a.0', 'a.1', 'b.0', 'c.0', 'a.2', 'b.1', 'a.3']) await leave(name);
  assert.deepEqual(served, ['a.0', 'a.1', 'b.0', 'c.0', 'a.2', 'b.1', 'a.3']);
});

test('200 keys on one slot each get their turn, in order, however much one of them asks', async () => {
  const { served, leaves, enter, leave, waiting } = openTurns();
  for (let count = 0; count < 100; count += 1) void enter(`greedy.${count}`);
  for (let key = 0; key < 200; key += 1) void enter(`k${key}.0`);
  await settle(1);
  while (leaves.size > 0) await leave(served.at(-1) ?? '');
  const others = served.filter((name) => !name.startsWith('greedy'));
  assert.deepEqual(
    others,
    Array.from({ length: 200 }, (_, key) => `k${key}.0`),
  );
  assert.ok(served.indexOf('k199.0') <= 202, 'the greedy one had one turn of its own meanwhile');
  assert.equal(served.length, 300);
  assert.equal(waiting(), 0);
});

test('whoever comes, leaves or gives up: every slot is used, and none twice', async () => {
  for (let seed = 1; seed <= 4; seed += 1) await playThrough(seed);
});

async function playThrough(seed: number): Promise<void> {
  const random = seededRandom(seed);
  const below = (most: number) => Math.floor(fraction(random) * most);
  const { clock, room, served, refused, leaves, enter, leave, waiting } = openTurns({
    ...{ capacity: 3, waiting: 20 },
  });
  const gone: Stop[] = [];
  let asked = 0;
  for (let step = 0; step < 600; step += 1) {
    const dice = below(10);
    const [first] = leaves.keys();
    if (dice < 5) {
      asked += 1;
      const client = createStop();
      if (below(3) === 0) gone.push(client);
      void enter(`k${below(9)}.${asked}`, client);
    } else if (dice < 8 && first !== undefined) await leave(first);
    else if (dice === 8) gone.splice(below(gone.length), 1)[0]?.now('client_left');
    else await clock.advance(below(3) === 0 ? limits.turn_wait_ms : 10);
    await settle(1);
    assert.ok(leaves.size <= room.capacity);
    assert.ok(leaves.size === room.capacity || waiting() === 0, `idle at ${step} of ${seed}`);
  }
  for (let [one] = leaves.keys(); one !== undefined; [one] = leaves.keys()) await leave(one);
  assert.equal(served.length + refused.length, asked, 'each is answered, once');
  assert.ok(served.length > 100 && refused.length > 10, `seed ${seed} tells something`);
  assert.equal(clock.waiting(), 0);
}

test('who leaves the queue leaves no trace, and takes nobody’s turn', async () => {
  const { clock, served, enter, leave, waiting } = openTurns();
  const gone = createStop();
  void enter('a.0');
  const given_up = enter('b.0', gone);
  void enter('c.0');
  await settle(1);
  gone.now('client_left');
  assert.equal((await given_up).ok, false);
  assert.equal(waiting(), 1);
  const late = await enter('d.0', gone);
  assert.equal(late.ok, false);
  await leave('a.0');
  await leave('c.0');
  assert.deepEqual(served, ['a.0', 'c.0']);
  assert.equal(clock.waiting(), 0, 'no timer is left');
});

test('a turn is given back once', async () => {
  const { served, enter } = openTurns();
  const first = await enter('a.0');
  void enter('b.0');
  void enter('c.0');
  assert.ok(first.ok);
  first.leave();
  first.leave();
  await settle(1);
  assert.deepEqual(served, ['a.0', 'b.0']);
});

test('it tells who is at work and who waits, and nothing of who is neither', async () => {
  const { turns, enter, leave } = openTurns({ capacity: 2 });
  for (const name of ['a.0', 'a.1', 'a.2', 'b.0']) void enter(name);
  await settle(1);
  const of = () =>
    turns.standing().map(({ key_id, at_work, waiting }) => [key_id, at_work, waiting]);
  assert.deepEqual(of(), [
    ['a', 2, 1],
    ['b', 0, 1],
  ]);
  await leave('a.0');
  await leave('a.1');
  assert.deepEqual(of(), [
    ['a', 1, 0],
    ['b', 1, 0],
  ]);
  await leave('a.2');
  await leave('b.0');
  assert.deepEqual(turns.standing(), []);
});

test('after the deadline it is 503, and the rest goes on', async () => {
  const { clock, served, refused, enter, leave } = openTurns();
  void enter('a.0');
  void enter('b.0');
  await clock.advance(limits.turn_wait_ms - 1);
  void enter('c.0');
  assert.deepEqual(refused, []);
  await clock.advance(1);
  assert.deepEqual(refused, ['b.0 503 no_free_slot']);
  await leave('a.0');
  assert.deepEqual(served, ['a.0', 'c.0']);
});

test('a full queue is 429, with a time from how long answers took lately', async () => {
  const { clock, enter, leave, leaves } = openTurns({ capacity: 2, waiting: 4 });
  await enter('held.0');
  for (let count = 0; count < 9; count += 1) {
    await enter(`a.${count}`);
    await clock.advance(3000);
    await leave(`a.${count}`);
  }
  await enter('a.9');
  for (const name of ['b.0', 'c.0', 'd.0', 'e.0']) void enter(name);
  const turn = await enter('f.0');
  assert.ok(!turn.ok);
  assert.deepEqual([turn.refusal.status, turn.refusal.code], [429, 'queue_full']);
  assert.equal(turn.refusal.retry_after_s, 6, 'four wait for two slots, three seconds each');
  assert.equal(leaves.size, 2);
});

test('a full queue makes room for a key that waits less than another', async () => {
  const { served, refused, enter, leave } = openTurns({ waiting: 3 });
  for (const name of ['a.0', 'a.1', 'a.2', 'a.3', 'b.0', 'a.4', 'b.1']) void enter(name);
  await settle(1);
  assert.deepEqual(refused.sort(), [
    'a.3 429 queue_full',
    'a.4 429 queue_full',
    'b.1 429 queue_full',
  ]);
  for (const name of ['a.0', 'a.1', 'b.0', 'a.2']) await leave(name);
  assert.deepEqual(served, ['a.0', 'a.1', 'b.0', 'a.2']);
});

test('a guest who may go to one replica waits for it, and holds nobody up for long', async () => {
  const clock = createFakeClock();
  const turns = createTurns({ clock });
  const served: string[] = [];
  const leaves: (() => void)[] = [];
  const enter = (key_id: string, room: number) => {
    const asked = { workload_id: 'w', key_id, capacity: () => room, stop: createStop() };
    void Promise.resolve(turns.enter(asked)).then((turn) => {
      served.push(key_id);
      if (turn.ok) leaves.push(turn.leave);
    });
  };
  for (const key_id of ['a', 'b']) enter(key_id, 3);
  enter('guest', 1);
  enter('c', 3);
  await settle(1);
  assert.deepEqual(served, ['a', 'b']);
  leaves[0]?.();
  await settle(1);
  assert.deepEqual(served, ['a', 'b'], 'one is at work, where the guest may go or not');
  leaves[1]?.();
  await settle(1);
  assert.deepEqual(served, ['a', 'b', 'guest', 'c']);
});

test('an endpoint of which nothing is at work and nothing waits is told to be idle', async () => {
  const clock = createFakeClock();
  let idle = 0;
  const onIdle = () => {
    idle += 1;
  };
  const line = createTurnLine({ clock, waiting: 2, onIdle });
  const stop = createStop();
  const one = await line.enter({ key_id: 'a', capacity: () => 1, stop });
  const two = line.enter({ key_id: 'b', capacity: () => 1, stop });
  if (one.ok) one.leave();
  assert.equal(idle, 0);
  const turn = await two;
  if (turn.ok) turn.leave();
  assert.equal(idle, 1);
});

test('room that appears by itself is seen within a second', async () => {
  const { clock, room, served, enter, leave } = openTurns({ capacity: 0 });
  void enter('a.0');
  void enter('b.0');
  await clock.advance(5000);
  assert.deepEqual(served, []);
  room.capacity = 2;
  await clock.advance(limits.turn_look_ms);
  assert.deepEqual(served, ['a.0', 'b.0']);
  await leave('a.0');
  await leave('b.0');
  assert.equal(clock.waiting(), 0);
});
