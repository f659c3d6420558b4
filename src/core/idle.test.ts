/**
 * Whether nobody uses a run, decided from samples alone.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { activityIn, beginIdle, type IdleState, judgeIdle, seeSample, useIt } from './idle.ts';

const thresholds = { cpu_millis: 100, gpu_percent: 5 };
const quiet = { span_ms: 10_000, cpu_millis: 3, gpus: null };
const gpu = (busy_percent: number | null) => [{ uuid: 'G', busy_percent, memory_bytes: 1 }];

test('use is CPU, a GPU, a kernel, and all that cannot be measured', () => {
  const seen = (more: object, gpu_count = 0) =>
    activityIn({ ...quiet, ...more }, gpu_count, thresholds);
  assert.equal(seen({}), null);
  assert.equal(seen({ span_ms: 0 }), 'start');
  assert.equal(seen({ cpu_millis: 100 }), 'cpu');
  assert.equal(seen({ cpu_millis: null }), 'unmeasured');
  assert.equal(seen({ used: true, cpu_millis: null }), 'kernels', 'what is seen is named');
  assert.equal(seen({ used: null }), 'unmeasured');
  assert.equal(seen({ used: false }), null);
  assert.equal(seen({ gpus: gpu(5) }), 'gpu');
  assert.equal(seen({ gpus: gpu(4) }, 1), null);
  assert.equal(seen({ gpus: gpu(null) }, 1), 'unmeasured');
  assert.equal(seen({ gpus: [] }, 1), 'unmeasured');
  assert.equal(seen({ gpus: null }, 1), 'unmeasured');
  assert.equal(seen({ gpus: gpu(null) }), null, 'one that it did not ask for');
});

const see = (state: IdleState, ends_ms: number, more: object = {}, since_use_ms = 1e9) =>
  seeSample(
    state,
    { run_epoch: 1, span_ms: 10_000, activity: null, ...more },
    ends_ms,
    since_use_ms,
  );

test('idle time is what quiet samples stand for, each once', () => {
  let state = see(beginIdle(1), 5000, { span_ms: 0, activity: 'start' });
  assert.deepEqual([state.idle_ms, state.busy_with], [0, 'start']);
  state = see(state, 15_000);
  state = see(state, 25_000);
  assert.equal(state.idle_ms, 20_000);
  assert.deepEqual(see(state, 25_000), state, 'told again');
  assert.deepEqual(see(state, 15_000), state);
  assert.equal(see(state, 30_000).idle_ms, 25_000, 'no more than has passed');
  assert.equal(see(state, 95_000).idle_ms, 30_000, 'no more than it stands for');
  assert.equal(see(state, 35_000, {}, 4000).idle_ms, 24_000, 'used in the middle of it');
  assert.equal(see(state, 35_000, {}, -4000).idle_ms, 20_000, 'used after it');
});

test('a use, a new run and the first look of an agent begin anew', () => {
  const idle = { ...beginIdle(3, { idle_ms: 9e6, seen_ms: 1e9 }), warned_ms: 8e6 };
  assert.deepEqual(useIt(idle, 'request').idle_ms, 0);
  assert.equal(useIt(idle, 'request').warned_ms, null);
  const busy = see(idle, 2e9, { run_epoch: 3, activity: 'gpu' });
  assert.deepEqual([busy.idle_ms, busy.seen_ms, busy.busy_with], [0, 2e9, 'gpu']);
  // The clock of an agent that was restarted begins at nothing.
  const again = see(idle, 7, { run_epoch: 3, span_ms: 0, activity: 'start' });
  assert.deepEqual([again.idle_ms, again.seen_ms], [0, 7]);
  assert.equal(see(again, 10_007, { run_epoch: 3 }).idle_ms, 10_000);
  const anew = see(idle, 50, { run_epoch: 4 });
  assert.deepEqual([anew.run_epoch, anew.idle_ms, anew.warned_ms], [4, 10_000, null]);
  assert.deepEqual(see(idle, 2e9, { run_epoch: 2 }), idle, 'an older run tells nothing');
});

test('what was not written down before a restart does not count', () => {
  const state = { ...beginIdle(1, { idle_ms: 60_000, seen_ms: 0 }), debt_ms: 15_000 };
  const first = see(state, 10_000);
  assert.deepEqual([first.idle_ms, first.debt_ms], [60_000, 5000]);
  assert.deepEqual([see(first, 20_000).idle_ms, see(first, 20_000).debt_ms], [65_000, 0]);
});

const hour_ms = 3600_000;
const notice_ms = 300_000;
const judge = (idle_ms: number, warned_ms: number | null, after_ms = hour_ms) =>
  judgeIdle({ idle_ms, warned_ms }, after_ms, notice_ms);

test('it is warned of first, and stopped when that time is over too', () => {
  assert.deepEqual(judge(0, null), { do: 'nothing', left_ms: hour_ms });
  assert.equal(judge(hour_ms - notice_ms - 1, null).do, 'nothing');
  assert.deepEqual(judge(hour_ms - notice_ms, null), { do: 'warn', left_ms: notice_ms });
  assert.equal(judge(hour_ms - 1, hour_ms - notice_ms).do, 'nothing');
  assert.deepEqual(judge(hour_ms, hour_ms - notice_ms), { do: 'stop', left_ms: 0 });
  // A long time that was told at once: nobody was warned yet.
  assert.deepEqual(judge(9 * hour_ms, null), { do: 'warn', left_ms: notice_ms });
  assert.deepEqual(judge(9 * hour_ms + 1, 9 * hour_ms), { do: 'nothing', left_ms: notice_ms - 1 });
  assert.equal(judge(9 * hour_ms + notice_ms, 9 * hour_ms).do, 'stop');
  assert.deepEqual(judge(30_000, null, 60_000), { do: 'warn', left_ms: 30_000 });
  assert.equal(judge(60_000, 30_000, 60_000).do, 'stop');
});

test('nothing is stopped that was used within its time, whatever is told and when', () => {
  type Moment = { kind: 'quiet' | 'busy' | 'request' | 'lost' | 'again' | 'restart'; ms: number };
  const moment = fc.record<Moment>({
    kind: fc.constantFrom('quiet', 'quiet', 'quiet', 'busy', 'request', 'lost', 'again', 'restart'),
    ms: fc.integer({ min: 1, max: 40_000 }),
  });
  const after_ms = 60_000;
  fc.assert(
    fc.property(fc.array(moment, { maxLength: 60 }), (moments) => {
      let state = seeSample(beginIdle(1), { run_epoch: 1, span_ms: 0, activity: 'start' }, 0, 1e9);
      let [now, looked_at, used_at, requested_at] = [0, 0, 0, Number.NEGATIVE_INFINITY];
      for (const { kind, ms } of moments) {
        now += ms;
        if (kind === 'request') {
          state = useIt(state, 'request');
          used_at = requested_at = now;
        } else if (kind === 'lost') {
          continue; // no look: the next one stands for this time too
        } else {
          const span_ms = kind === 'restart' ? 0 : now - looked_at;
          const busy = kind === 'busy' ? ('cpu' as const) : null;
          const activity = kind === 'restart' ? ('start' as const) : busy;
          if (activity !== null) used_at = now;
          const sample = { run_epoch: 1, span_ms, activity };
          state = seeSample(state, sample, now, now - requested_at);
          if (kind === 'again') state = seeSample(state, sample, now, now - requested_at);
          looked_at = now;
        }
        assert.ok(state.idle_ms <= now - used_at, 'no more than since its last use');
        const decision = judgeIdle(state, after_ms, notice_ms);
        if (decision.do === 'stop') assert.ok(now - used_at >= after_ms);
        if (decision.do === 'warn') state = { ...state, warned_ms: state.idle_ms };
      }
    }),
  );
});
