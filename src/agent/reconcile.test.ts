/**
 * Reconcile: what is wanted and not here is brought up, what is healthy is left alone, what nobody
 * explains is removed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { desire, runOf } from '../../test/lib/agent-rig.ts';
import type { DesiredRun } from '../contract/sync.ts';
import { runName } from '../core/run.ts';
import { type LocalFacts, reconcile, type Step } from './reconcile.ts';

const key = fc.tuple(fc.nat(4), fc.integer({ min: 1, max: 2 }));
const anyDesired = fc
  .uniqueArray(fc.tuple(key, fc.constantFrom('run', 'park', 'remove')), {
    selector: ([of]) => of.join('.'),
    maxLength: 6,
  })
  .map((all) => all.map(([[id, epoch], action]): DesiredRun => desire(runOf(id, epoch), action)));
const anyHere = fc
  .uniqueArray(
    fc.tuple(
      key,
      fc.constantFrom('preparing', 'ready', 'ended', 'parked', 'removed', 'unknown'),
      fc.constantFrom('no', 'bringing-up', 'stopping'),
    ),
    { selector: ([of]) => of.join('.'), maxLength: 6 },
  )
  .map((all) =>
    all.map(([[id, epoch], phase, busy]): LocalFacts => ({ run: runOf(id, epoch), phase, busy })),
  );

function always(check: (steps: Step[], desired: DesiredRun[], here: LocalFacts[]) => void): void {
  fc.assert(
    fc.property(anyDesired, anyHere, (desired, here) => {
      check(reconcile(desired, here), desired, here);
    }),
    { seed: 15, numRuns: 2000 },
  );
}

const nameOf = (step: Step) => runName(step.step === 'bring-up' ? step.desired : step.run);

test('each run has one step at most', () => {
  always((steps) => {
    assert.equal(new Set(steps.map(nameOf)).size, steps.length);
  });
});

test('what is wanted and healthy, or at work, is left alone', () => {
  always((steps, desired, here) => {
    const wanted = new Set(desired.filter((one) => one.action === 'run').map(runName));
    for (const { run, phase, busy } of here) {
      if (!wanted.has(runName(run))) continue;
      if (phase === 'preparing' && busy === 'no') continue;
      assert.equal(
        steps.some((step) => nameOf(step) === runName(run)),
        false,
        `${phase} ${busy}`,
      );
    }
  });
});

test('what is wanted and not here is brought up, what ended is not', () => {
  always((steps, desired, here) => {
    const known = new Map(here.map((local) => [runName(local.run), local]));
    for (const entry of desired.filter((one) => one.action === 'run')) {
      const local = known.get(runName(entry));
      const up = steps.some((step) => step.step === 'bring-up' && nameOf(step) === runName(entry));
      if (local === undefined) assert.ok(up);
      if (local?.phase === 'ended' || local?.phase === 'parked') assert.equal(up, false);
    }
  });
});

test('only what the desired state parks, removes or does not explain is stopped', () => {
  always((steps, desired) => {
    const wanted = new Map(desired.map((one) => [runName(one), one.action]));
    for (const step of steps) {
      if (step.step !== 'stop') continue;
      const action = wanted.get(nameOf(step));
      assert.equal(step.mode, action ?? 'remove');
    }
  });
});

test('what nobody explains is removed, then forgotten', () => {
  always((steps, desired, here) => {
    const wanted = new Set(desired.map(runName));
    for (const { run, phase, busy } of here) {
      if (wanted.has(runName(run)) || busy === 'stopping') continue;
      const step = steps.find((one) => nameOf(one) === runName(run));
      assert.equal(step?.step, phase === 'removed' ? 'forget' : 'stop');
    }
  });
});

test('what is being stopped is not touched again', () => {
  always((steps, _desired, here) => {
    for (const { run, busy } of here) {
      if (busy !== 'stopping') continue;
      assert.equal(
        steps.some((step) => nameOf(step) === runName(run)),
        false,
      );
    }
  });
});

test('what is to be gone and never was here is said to be gone', () => {
  const steps = reconcile([desire(runOf(1), 'park'), desire(runOf(2), 'remove')], []);
  assert.deepEqual(
    steps.map((step) => step.step === 'report-absent' && step.phase),
    ['parked', 'removed'],
  );
});

test('an empty desired state and nothing here is nothing to do', () => {
  assert.deepEqual(reconcile([], []), []);
});
