/**
 * Doubts of the gateway on their way to the agent whose run it is.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRig, gib, inventoryOf } from '../../../test/lib/rig.ts';
import type { ObservedRun } from '../../contract/sync.ts';

const inventory = inventoryOf({ cpu_millis: 4000, memory_bytes: 8 * gib });
const never = new AbortController().signal;
const key = { workload_id: 'w'.repeat(26), replica: 0, run_epoch: 1 };
const none = { stages: [], exit: null, reason: null, details: {}, log_tail: null };
const run: ObservedRun = { ...key, ...none, state: 'ready' };

test('an answer names the runs of the report of which the gateway has doubts, as of now', async () => {
  let has_doubts = true;
  const rig = await createRig({ isDoubted: () => has_doubts });
  try {
    const { machine_id } = rig.ids;
    const known = { store_uuid: 's', store_epoch: 1, agent_epoch: 0 };
    const words = { boot_id: 'b', hello_id: 'hello', known, inventory };
    const greeted = await rig.sync.hello(machine_id, words);
    assert.ok(greeted.outcome === 'greeted');
    const { outcome: _, ...identity } = greeted;
    const say = async (seq: number, observed: ObservedRun[]) => {
      const said = { ...identity, boot_id: 'b', have_generation: -1, inventory: null };
      const reply = await rig.sync.sync(machine_id, { ...said, seq, observed }, never);
      assert.ok(reply.outcome === 'accepted');
      return reply.doubted;
    };
    assert.equal(await say(1, []), undefined);
    assert.equal(await say(2, [{ ...run, state: 'preparing' }]), undefined, 'not asked yet');
    assert.deepEqual(await say(3, [run]), [key]);
    has_doubts = false;
    assert.equal(await say(4, [run]), undefined);
  } finally {
    await rig.close();
  }
});
