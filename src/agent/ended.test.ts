/** How long ago a run ended: for the ledger, which counts no longer than that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAgentRig, desire, runOf } from '../../test/lib/agent-rig.ts';
import { observedOf } from './local-run.ts';
import { reconcile } from './reconcile.ts';
import { createRuns } from './runs.ts';

test('a run that is seen to end is reported with how long ago that was', async () => {
  const rig = createAgentRig();
  const runs = createRuns({ ...rig.deps, changed: () => {} });
  try {
    const how = { code: 1, signal: null, out_of_memory: false };
    rig.plan.next = { exit: { after_ms: 5000, how } };
    runs.carryOut(reconcile([desire(runOf(1))], runs.facts()));
    const seen = () => runs.locals().map((one) => observedOf(one, rig.clock))[0];
    await rig.until(() => seen()?.state === 'ready', 'ready');
    assert.equal(seen()?.ended_ago_ms, null, 'it runs');
    await rig.until(() => seen()?.state === 'ended', 'ended');
    const first = seen()?.ended_ago_ms;
    assert.ok(typeof first === 'number' && first < 10_000, `${first}`);
    await rig.clock.advance(60_000);
    assert.equal(seen()?.ended_ago_ms, first + 60_000);
  } finally {
    await runs.leave();
    rig.close();
  }
});

test('of a run that never got ready, nobody says how long it ran', async () => {
  const rig = createAgentRig();
  const runs = createRuns({ ...rig.deps, changed: () => {} });
  try {
    rig.plan.next = { start_error: 'sandbox_missing' };
    runs.carryOut(reconcile([desire(runOf(1))], runs.facts()));
    const seen = () => runs.locals().map((one) => observedOf(one, rig.clock))[0];
    await rig.until(() => seen()?.state === 'ended', 'ended');
    assert.equal(seen()?.ended_ago_ms, null);
  } finally {
    await runs.leave();
    rig.close();
  }
});
