/**
 * Of several replicas one that cannot be reached costs no request: another one is asked.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorOf, type Rig, replica, send, smol, startRig } from '../../test/lib/gateway-rig.ts';
import { chatEvent, doneEvent, events } from '../../test/lib/upstream.ts';
import { type RunKey, runName } from '../core/run.ts';
import type { Replica } from './endpoint.ts';

const whole = events(chatEvent('hi'), doneEvent);
const other: Replica = {
  ...replica,
  run: { ...replica.run, replica: 1, run_epoch: 2 },
  machine_name: 'east',
};

/** Runs that did not answer, and how many requests each has. `closes`: the first one is reached. */
async function given(replicas: readonly Replica[], closes = false) {
  const failed: number[] = [];
  const open = new Map<number, number>();
  const count = (run: RunKey, by: number) =>
    open.set(run.replica, (open.get(run.replica) ?? 0) + by);
  let rig: Rig | null = null;
  rig = await startRig({
    findEndpoint: async () => smol(...replicas),
    dial: async (run) => {
      if (run.replica === 0 && !closes) throw new Error('connection refused');
      const connection = await (rig?.upstream.dial() ?? assert.fail());
      return run.replica === 0 ? connection.destroy() : connection;
    },
    balancer: {
      // The first that is left, so that the broken one is asked first.
      choose: (all, { not }) => all.find(({ run }) => !not.has(runName(run))) ?? null,
      begin(run) {
        count(run, 1);
        let is_open = true;
        return {
          progress() {},
          ended(how) {
            if (!is_open) return;
            is_open = false;
            count(run, -1);
            if (how === 'unreachable' || how === 'failed') failed.push(run.replica);
          },
        };
      },
      capacity: () => Number.POSITIVE_INFINITY,
      look: () => assert.fail(),
    },
  });
  return { rig, failed, open };
}

test('one that cannot be reached is left for another, and the answer says whose', async () => {
  const { rig, failed, open } = await given([replica, other]);
  try {
    rig.upstream.answer(whole);
    const { status, headers } = await send(rig);
    assert.equal(status, 200);
    assert.match(String(headers['x-einsora-served-by']), /machine=east/);
    assert.equal(rig.upstream.seen.length, 1);
    assert.deepEqual(failed, [0]);
    await rig.settled();
    assert.deepEqual([...open.values()], [0, 0]);
  } finally {
    await rig.close();
  }
});

test('one whose connections close before any byte of an answer is left as well', async () => {
  const { rig, failed, open } = await given([replica, other], true);
  try {
    rig.upstream.answer(whole);
    const { status, headers } = await send(rig);
    assert.equal(status, 200);
    assert.match(String(headers['x-einsora-served-by']), /machine=east/);
    assert.deepEqual(failed, [0]);
    await rig.settled();
    assert.deepEqual([...open.values()], [0, 0]);
  } finally {
    await rig.close();
  }
});

test('without another one the client is told, once and exactly', async () => {
  const { rig, failed, open } = await given([replica]);
  try {
    const answer = await send(rig);
    assert.deepEqual([answer.status, errorOf(answer).code], [502, 'engine_unreachable']);
    assert.deepEqual(failed, [0]);
    await rig.settled();
    assert.deepEqual([...open.values()], [0]);
  } finally {
    await rig.close();
  }
});
