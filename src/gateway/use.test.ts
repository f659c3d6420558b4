/**
 * Use of endpoints: what is told of it while requests come and go, and one that is woken.
 */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import {
  errorOf,
  open,
  type Rig,
  readAll,
  replica,
  send,
  smol,
  startRig,
} from '../../test/lib/gateway-rig.ts';
import { chatEvent, doneEvent, events } from '../../test/lib/upstream.ts';
import type { FoundEndpoint } from './endpoint.ts';
import type { Waiting } from './stop.ts';

let rig: Rig;
let in_use = 0;
let uses: string[] = [];
let found: (stop: Waiting) => Promise<FoundEndpoint> = async () => smol(replica);
beforeEach(async () => {
  in_use = 0;
  uses = [];
  found = async () => smol(replica);
  rig = await startRig({
    findEndpoint: (_, __, stop) => found(stop),
    using(workload_id) {
      uses.push(workload_id);
      in_use += 1;
      return () => {
        in_use -= 1;
      };
    },
  });
});
afterEach(() => rig.close());

test('an endpoint is in use from the question to the end of its answer', async () => {
  let go = () => {};
  const going = new Promise<void>((resolve) => {
    go = resolve;
  });
  rig.upstream.answer(async (reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    reply.write(chatEvent('so'));
    await going;
    reply.end(doneEvent);
  });
  const answer = await open(rig);
  assert.deepEqual([in_use, uses], [1, [replica.run.workload_id]]);
  go();
  assert.equal((await readAll(answer)).whole, true);
  await rig.settled();
  assert.equal(in_use, 0);
});

test('it is let go of however the answer ends, and not in use by what is refused', async () => {
  rig.upstream.answer((reply) => void reply.destroy());
  await send(rig);
  rig.upstream.answer((reply) => {
    reply.setHeader('Content-Type', 'text/event-stream');
    reply.write(chatEvent('so'), () => reply.destroy());
  });
  await send(rig);
  await rig.settled();
  assert.deepEqual([in_use, uses.length], [0, 2]);
  found = async () => ({ ok: false, code: 'endpoint_stopped', details: {} });
  await send(rig);
  await send(rig, { headers: { Authorization: 'Bearer none' } });
  assert.equal(uses.length, 2);
});

test('what is being woken is answered when it is there, or told when to come back', async () => {
  let there = (_: FoundEndpoint) => {};
  found = () =>
    new Promise((resolve) => {
      there = resolve;
      began();
    });
  let began = () => {};
  const asked = () =>
    new Promise<void>((resolve) => {
      began = resolve;
    });
  rig.upstream.answer(events(chatEvent('hi'), doneEvent));
  const first = asked();
  const answer = send(rig);
  await first;
  there(smol(replica));
  assert.equal((await answer).status, 200);
  const second = asked();
  const late = send(rig);
  await second;
  there({ ok: false, code: 'endpoint_waking', details: { name: 'smol', state: 'queued' } });
  const told = await late;
  assert.deepEqual([told.status, errorOf(told).code], [503, 'endpoint_waking']);
  assert.match(String(errorOf(told).message), /was idle and is being woken: queued/);
  assert.equal(told.headers['retry-after'], '5');
  assert.equal(told.headers['x-should-retry'], undefined, 'clients are to try again');
});

test('who leaves does not wait any more', async () => {
  const left = new Promise<void>((resolve) => {
    found = (stop) =>
      new Promise((done) => {
        stop.on(() => {
          resolve();
          done({ ok: false, code: 'endpoint_waking', details: {} });
        });
        asking.leave();
      });
  });
  const asking = open(rig);
  await left;
});
