/**
 * What was stopped for being idle, and what wakes it.
 */

import assert from 'node:assert/strict';
import { settle } from '../../test/lib/fake-clock.ts';
import { ask } from '../../test/lib/rig.ts';
import { targetsOf } from '../../test/lib/rig-targets.ts';
import {
  codesOf,
  given,
  live,
  observe,
  rowOf,
  runAnew,
  type Tale,
} from '../../test/lib/use-rig.ts';
import { limits } from '../contract/limits.ts';
import { no_request_limits } from '../core/request-limits.ts';
import type { GatewayKey } from '../gateway/key.ts';
import { createStop } from '../gateway/stop.ts';
import { refusalOfTarget } from '../gateway/target.ts';
import { createWakeLimit } from './wake-limit.ts';

function keyOf({ rig, id }: Tale, key_id: string): GatewayKey {
  return {
    ...{ id: key_id, tenant_id: rig.ids.tenant_id, workload_ids: [id], user_id: 'u' },
    ...{ expires_at: null, revoked_at: null },
    ...{ limits: no_request_limits, user_limits: no_request_limits },
  };
}

/** Stopped for being idle, all the way. */
async function park(tale: Tale): Promise<void> {
  await live(tale, 370);
  await observe(tale, 'parked');
  const { state, park_cause } = await rowOf(tale);
  assert.deepEqual([state, park_cause], ['stopped', 'idle']);
}

given('a request wakes it, waits for it, and then goes to the new run', async (tale) => {
  const { rig, use } = tale;
  await park(tale);
  const targets = targetsOf(rig, use.waker);
  const usable = keyOf(tale, 'k');
  const stop = createStop();
  const find = () => targets.findEndpoint(usable, 'chat', stop);
  const asked = Promise.all([find(), find(), find()]);
  await settle();
  assert.equal((await rowOf(tale)).state, 'pending');
  assert.equal(rig.woken.controller > 0, true);
  await runAnew(tale);
  await rig.clock.advance(500);
  for (const found of await asked) {
    assert.ok(found.ok && found.endpoint.replicas[0]?.run.run_epoch === 2);
  }
  assert.deepEqual((await codesOf(tale)).at(-1), 'idle_woken');
  // A new run is a new beginning.
  await live(tale, 300);
  assert.equal((await rowOf(tale)).state, 'running');
});

given('a request that waits long enough is told when to come back', async (tale) => {
  const { rig, use } = tale;
  await park(tale);
  const targets = targetsOf(rig, use.waker);
  const usable = keyOf(tale, 'k');
  const left = createStop();
  const impatient = targets.findEndpoint(usable, 'chat', left);
  const patient = targets.findEndpoint(usable, 'chat', createStop());
  await settle();
  left.now('client_left');
  const gone = await impatient;
  assert.ok(!gone.ok && gone.code === 'endpoint_waking');
  await rig.clock.advance(limits.wake_hold_ms + 1000);
  const told = await patient;
  assert.ok(!told.ok && told.code === 'endpoint_waking');
  assert.equal((await rowOf(tale)).state, 'pending', 'it comes all the same');
});

given('its page wakes it, and what a person stopped is woken by nothing', async (tale) => {
  const { rig, use, id } = tale;
  await park(tale);
  assert.equal((await use.waker.wake(id, 'a test')).outcome, 'woken');
  await runAnew(tale);
  await park(tale);
  assert.equal((await ask(rig, 'POST', `/v1/workloads/${id}/stop`)).status, 202);
  assert.equal((await use.waker.wake(id, 'a test')).outcome, 'not_idle');
  const targets = targetsOf(rig, use.waker);
  const usable = keyOf(tale, 'k');
  const found = await targets.findEndpoint(usable, 'chat', createStop());
  assert.ok(!found.ok && found.code === 'endpoint_stopped');
  assert.equal((await rowOf(tale)).state, 'stopped');
});

given('who comes while it is being stopped wakes it', async (tale) => {
  const { rig, use, id } = tale;
  await live(tale, 358);
  const read = rig.store.transact;
  rig.store.transact = (async (name: string, args: never) => {
    if (name === 'parkIdle') use.lastUse.touch(id);
    return read(name as never, args);
  }) as typeof rig.store.transact;
  await live(tale, 10);
  rig.store.transact = read;
  const row = await rowOf(tale);
  assert.deepEqual([row.state, row.park_cause, row.intent], ['stopping', 'none', 'running']);
});

given('a thousand that come at once wake it once, and all go to the new run', async (tale) => {
  const { rig, use, id } = tale;
  await park(tale);
  const targets = targetsOf(rig, use.waker);
  const before = tale.written().length;
  const stop = createStop();
  const asked = Promise.all(
    Array.from({ length: 1000 }, (_, number) =>
      targets.findEndpoint(keyOf(tale, `k${number}`), 'chat', stop),
    ),
  );
  await settle();
  const wakes = tale.written().slice(before);
  assert.deepEqual(wakes.filter((name) => name === 'wakeIdle').length, 1);
  assert.equal((await rowOf(tale)).state, 'pending');
  await runAnew(tale);
  await rig.clock.advance(500);
  for (const found of await asked) {
    assert.ok(found.ok && found.endpoint.replicas[0]?.run.run_epoch === 2);
  }
  assert.equal(use.waker.isWaking(id), false);
});

given(
  'a key wakes so many in a minute and no more, and who is gone wakes nothing',
  async (tale) => {
    const { rig, use } = tale;
    await park(tale);
    const targets = targetsOf(rig, use.waker);
    const left = createStop();
    left.now('client_left');
    const gone = await targets.findEndpoint(keyOf(tale, 'k'), 'chat', left);
    assert.ok(!gone.ok && gone.code === 'endpoint_stopped');
    assert.equal((await rowOf(tale)).state, 'stopped');
    const limit = createWakeLimit(rig.clock);
    for (let count = 0; count < limits.wakes_per_minute; count += 1) {
      assert.equal(limit.take('k'), null);
    }
    assert.equal(limit.take('k'), 60_000);
    assert.equal(limit.take('another'), null);
    await rig.clock.advance(59_000);
    assert.equal(limit.take('k'), 1000);
    await rig.clock.advance(1000);
    assert.equal(limit.take('k'), null);
    const told = refusalOfTarget('wakes_limited', { name: 'chat', retry_after_ms: 1001 }, 'chat');
    assert.deepEqual([told.status, told.retry_after_s], [429, 2]);
  },
);
