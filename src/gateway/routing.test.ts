/**
 * Several engines behind the gateway with its own balancer: where requests go when some fail, hang,
 * or were asked the like before, and that clients' faults move nothing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, readAll, send } from '../../test/lib/gateway-rig.ts';
import { type ReplicaRig, startReplicaRig } from '../../test/lib/replica-rig.ts';
import {
  chatEvent,
  doneEvent,
  events,
  json,
  type ManualClock,
  manualClock,
  type Script,
} from '../../test/lib/upstream.ts';
import { limits } from '../contract/limits.ts';
import { seededRandom } from '../lib/random.ts';
import { createBalancer } from './balance/balancer.ts';

const good = events(chatEvent('hi'), doneEvent);

type World = ReplicaRig & { time: ManualClock; dials: number[] };

/** `isDead`: no connection to that engine can be opened now. */
async function withEngines(
  scripts: Script[],
  body: (world: World) => Promise<void>,
  isDead: (index: number) => boolean = () => false,
) {
  const time = manualClock();
  const dials: number[] = scripts.map(() => 0);
  const rig = await startReplicaRig(scripts, {
    clock: time,
    balancer: createBalancer(seededRandom(5), time),
    dial: async ({ replica }) => {
      dials[replica] = (dials[replica] ?? 0) + 1;
      if (isDead(replica)) throw new Error('connection refused');
      return rig.engines[replica]?.dialTcp() ?? assert.fail();
    },
  });
  try {
    await body({ ...rig, time, dials });
  } finally {
    await rig.close();
  }
}

async function sendMany(rig: ReplicaRig, count: number, prompt = 'hello'): Promise<number[]> {
  const statuses: number[] = [];
  for (let sent = 0; sent < count; sent += 1) {
    const body = { model: 'smol', messages: [{ role: 'user', content: prompt }] };
    statuses.push((await send(rig, { body })).status);
  }
  return [...new Set(statuses)];
}

test('an engine that cannot be reached is tried once, and once more when its time has come', async () => {
  let is_dead = true;
  const body = async (world: World) => {
    assert.deepEqual(await sendMany(world, 20), [200]);
    assert.equal(world.dials[0], 1);
    world.time.advance(limits.breaker_open_ms);
    assert.deepEqual(await sendMany(world, 20), [200]);
    assert.equal(world.dials[0], 2);
    is_dead = false;
    world.time.advance(2 * limits.breaker_open_ms);
    assert.deepEqual(await sendMany(world, 20), [200]);
    const [back = 0] = world.asked();
    assert.ok(back > 2, `it has its share again: ${back}`);
  };
  await withEngines([good, good], body, (index) => index === 0 && is_dead);
});

test("what is the client's fault shuts no engine out", async () => {
  const blamed = json(400, { error: { message: 'no', type: 'invalid_request_error' } });
  await withEngines([blamed, blamed], async (world) => {
    assert.deepEqual(await sendMany(world, 20), [400]);
    const asked = world.asked();
    assert.equal(asked[0] !== undefined && asked[1] !== undefined, true);
    assert.ok(
      asked.every((count) => count > 4),
      `both go on being asked: ${asked}`,
    );
    assert.equal(
      asked.reduce((sum, count) => sum + count, 0),
      20,
      'once for each request',
    );
  });
});

test('where all engines fail each request still asks, and says what went wrong', async () => {
  const broken = json(500, { error: { message: 'oops', type: 'server_error' } });
  await withEngines([broken, broken], async (world) => {
    assert.deepEqual(await sendMany(world, 10), [500]);
    assert.deepEqual(world.asked(), [10, 10]);
  });
});

test('prompts that begin alike go to one engine, others are spread', async () => {
  await withEngines([good, good, good], async (world) => {
    const beginning = 'You are a careful assistant. '.repeat(100);
    assert.deepEqual(await sendMany(world, 12, beginning), [200]);
    assert.deepEqual(world.asked().toSorted(), [0, 0, 12]);
    const before = world.asked();
    await sendMany(world, 30);
    const spread = world.asked().map((count, index) => count - (before[index] ?? 0));
    assert.ok(
      spread.every((count) => count > 3),
      String(spread),
    );
  });
});

test('an engine that takes requests and gives no token gets no more of them', async () => {
  const pings: Script = (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    reply.write(': ping\n\n');
  };
  await withEngines([pings, pings], async (world) => {
    const stuck = open(world);
    while (world.asked().every((count) => count === 0)) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const hung = world.asked()[0] === 1 ? 0 : 1;
    world.time.advance(limits.suspect_quiet_ms);
    // The other one has more to do, and is asked all the same.
    world.engines[1 - hung]?.answer(async (reply) => {
      reply.setHeader('Content-Type', 'text/event-stream');
      reply.write(chatEvent('so'));
    });
    const busy = await Promise.all([open(world), open(world)]);
    assert.equal(world.asked()[hung], 1);
    for (const answer of busy) answer.destroy();
    stuck.leave();
    await stuck.then(readAll, () => null);
  });
});
