/**
 * The agent's own look at who may run what on its machine: the facts come with the desired state,
 * how well its driver keeps a workload apart is its own word. What is expected is written out.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAgentRig, desire, runOf } from '../../test/lib/agent-rig.ts';
import type { DesiredRun } from '../contract/sync.ts';
import type { DriverName, Sharing, TrustLevel } from '../core/trust.ts';
import { reconcile } from './reconcile.ts';
import { createRuns } from './runs.ts';

type Answer = 'runs' | 'refused';
type Row = [TrustLevel, Sharing, Answer];
const strong: Row[] = [
  ['owner', 'private', 'runs'],
  ['owner', 'invite-only', 'runs'],
  ['owner', 'community', 'runs'],
  ['invited', 'private', 'refused'],
  ['invited', 'invite-only', 'runs'],
  ['invited', 'community', 'runs'],
  ['community', 'private', 'refused'],
  ['community', 'invite-only', 'refused'],
  ['community', 'community', 'runs'],
];
const weak = strong.map(
  ([trust, sharing]): Row => [trust, sharing, trust === 'owner' ? 'runs' : 'refused'],
);

async function answerOf(as: DriverName | null, told: Partial<DesiredRun>): Promise<Answer> {
  const rig = createAgentRig({ wrap: (driver) => ({ ...driver, as }) });
  const runs = createRuns({ ...rig.deps, changed: () => {} });
  try {
    const desired = [{ ...desire(runOf(1)), ...told }];
    runs.carryOut(reconcile(desired, runs.facts()));
    const settled = () => ['ready', 'ended'].includes(runs.facts()[0]?.phase ?? '');
    await rig.until(settled, 'an answer');
    if (runs.facts()[0]?.phase === 'ready') return 'runs';
    assert.equal(runs.locals()[0]?.end?.reason, 'isolation_not_allowed');
    assert.equal(rig.started.length, 0);
    return 'refused';
  } finally {
    await runs.leave();
    rig.close();
  }
}

for (const [name, as, rows] of [
  ['a strong driver', 'libvirt', strong],
  ['a weak driver', 'docker', weak],
  ['sim as itself', null, weak],
] as const) {
  test(`what the agent runs and refuses with ${name}`, async () => {
    for (const [trust, sharing, expected] of rows) {
      assert.equal(await answerOf(as, { trust, sharing }), expected, `${trust} ${sharing}`);
    }
  });
}

test('an agent told of a run that may not be there any more parks it', async () => {
  const rig = createAgentRig({ wrap: (driver) => ({ ...driver, as: 'libvirt' }) });
  const runs = createRuns({ ...rig.deps, changed: () => {} });
  try {
    const may = { ...desire(runOf(1)), trust: 'invited' as const, sharing: 'invite-only' as const };
    runs.carryOut(reconcile([may], runs.facts()));
    await rig.until(() => runs.facts()[0]?.phase === 'ready', 'ready');
    await runs.leave();
    // Another agent begins, and is told that the machine is private by now.
    const later = createRuns({ ...rig.deps, changed: () => {} });
    await later.adopt();
    const told = later.narrowed([{ ...may, sharing: 'private' }]);
    later.carryOut(reconcile(told, later.facts()));
    await rig.clock.advance(5000);
    const alive = (await rig.driver.observe()).filter(({ state }) => state === 'running');
    assert.equal(alive.length, 0);
    await later.leave();
  } finally {
    rig.close();
  }
});
