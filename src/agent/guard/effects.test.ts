import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GuardLevel } from '../../core/guard.ts';
import type { GuardDecision } from './decide.ts';
import { changesOf, type GuardedRun, parkAlone, type Treatment, treatmentOf } from './effects.ts';

const run = { workload_id: '0'.repeat(26), replica: 0, run_epoch: 1 };

function decision(level: GuardLevel, everyone = false): GuardDecision {
  const why = level === 0 ? [] : (['owner_active'] as const);
  return {
    ...{ level, why: [...why], own_why: [], until: null, grace_ms: 60_000, everyone },
    ...{ causes: {}, own_causes: {} },
  };
}

function one(over: Partial<GuardedRun> = {}): GuardedRun {
  return { run, is_guest: true, has_gpu: false, treatment: 'usual', ...over };
}

test('guests get little CPU, then stand still, and are not woken to be told to go', () => {
  const by = (treatment: Treatment) =>
    ([0, 1, 2, 3, 4, 5] as const).map((level) => treatmentOf(decision(level), one({ treatment })));
  assert.deepEqual(by('usual'), ['usual', 'usual', 'lowered', 'paused', 'lowered', 'lowered']);
  assert.deepEqual(by('paused'), ['usual', 'usual', 'lowered', 'paused', 'paused', 'paused']);
});

test("the owner's own runs are left alone, unless the owner says that all are meant", () => {
  const own = one({ is_guest: false });
  assert.deepEqual(
    ([2, 3, 5] as const).map((level) => treatmentOf(decision(level), own)),
    ['usual', 'usual', 'usual'],
  );
  assert.deepEqual(
    ([0, 2, 3, 5] as const).map((level) => treatmentOf(decision(level, true), own)),
    ['usual', 'lowered', 'paused', 'paused'],
  );
});

test('a run with a GPU never stands still: that would free nothing of it', () => {
  const with_gpu = one({ has_gpu: true });
  for (const level of [1, 2, 3, 4, 5] as const) {
    assert.equal(treatmentOf(decision(level, true), with_gpu), 'usual');
  }
});

test('only what changes is done, with why', () => {
  assert.deepEqual(changesOf(decision(3), [one({ treatment: 'paused' })]), []);
  assert.deepEqual(changesOf(decision(3), [one()]), [{ run, to: 'paused', why: 'owner_active' }]);
  assert.deepEqual(changesOf(decision(0), [one({ treatment: 'paused' })]), [
    { run, to: 'usual', why: null },
  ]);
});

test('an agent parks guests itself only where nobody answers, and not before their grace', () => {
  const runs = [one(), one({ is_guest: false })];
  const parked = (level: GuardLevel, facts: Partial<Parameters<typeof parkAlone>[2]>) => {
    const base = { parking_since: 0, is_alone: true, now: 0 };
    return parkAlone(decision(level), runs, { ...base, ...facts }).length;
  };
  assert.equal(parked(5, {}), 1);
  assert.equal(parked(5, { is_alone: false }), 0);
  assert.equal(parked(4, { now: 59_999 }), 0);
  assert.equal(parked(4, { now: 60_000 }), 1);
  assert.equal(parked(3, { now: 600_000 }), 0);
});
