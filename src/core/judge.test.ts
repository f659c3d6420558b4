/**
 * What a report means: proof moves things, silence and old words do not.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  attempt_limit,
  backOff_ms,
  howItEnded,
  judgeReport,
  steady_ms,
  type Verdict,
} from './judge.ts';
import { reasons } from './reasons.ts';
import { nextState, states } from './states.ts';

type Run = Parameters<typeof judgeReport>[0];
type Workload = Parameters<typeof judgeReport>[1];
type Reported = Parameters<typeof judgeReport>[2];

const now = 1_800_000_000_000;
const at = { now, machine: 'desk' };
const placed: Run = {
  current: true,
  observed: 'absent',
  ready_at: null,
  ended_at: null,
  removed_at: null,
};
const serving: Run = { ...placed, observed: 'present', ready_at: now - 5000 };
const running: Workload = { state: 'running', intent: 'running', attempts: 0 };
const ended: Reported = {
  state: 'ended',
  stages: [],
  exit: { code: 1, signal: null, out_of_memory: false },
  reason: null,
  details: {},
  log_tail: 'last words',
};
const said = (more: Partial<Reported>): Reported => ({ ...ended, exit: null, ...more });

const moment = fc.option(fc.integer({ min: now - 10 ** 7, max: now }), { nil: null });
const anyRun: fc.Arbitrary<Run> = fc.record({
  current: fc.boolean(),
  observed: fc.constantFrom('present', 'absent', 'unknown'),
  ready_at: moment,
  ended_at: moment,
  removed_at: fc.constant(null),
});
const anyWorkload: fc.Arbitrary<Workload> = fc.record({
  state: fc.constantFrom(...states),
  intent: fc.constantFrom('running', 'stopped', 'deleted'),
  attempts: fc.nat(attempt_limit),
});
const anyReport: fc.Arbitrary<Reported> = fc.record({
  state: fc.constantFrom('preparing', 'ready', 'ended', 'parked', 'removed', 'unknown'),
  stages: fc.constant([]),
  exit: fc.option(
    fc.record({
      code: fc.option(fc.nat(255), { nil: null }),
      signal: fc.option(fc.constantFrom('SIGKILL', 'SIGSEGV'), { nil: null }),
      out_of_memory: fc.boolean(),
    }),
    { nil: null },
  ),
  reason: fc.option(fc.constantFrom(...Object.keys(reasons), 'made_up'), { nil: null }),
  details: fc.constant({}),
  log_tail: fc.constant(null),
});

function always(check: (verdict: Verdict | null, run: Run, work: Workload, rep: Reported) => void) {
  fc.assert(
    fc.property(anyRun, anyWorkload, anyReport, (run, workload, reported) => {
      check(judgeReport(run, workload, reported, at), run, workload, reported);
    }),
    { seed: 7, numRuns: 2000 },
  );
}

test('a superseded run never moves the workload', () => {
  always((verdict, run) => {
    if (!run.current) assert.deepEqual(verdict?.moves ?? [], []);
  });
});

test('unknown proves nothing: no end, no move, no readiness', () => {
  always((verdict, _run, _workload, reported) => {
    if (reported.state !== 'unknown' || verdict === null) return;
    const nothing = { ready: false, ended: false, removed: false, replica: null, note: null };
    assert.deepEqual({ ...verdict }, { ...nothing, observed: 'unknown', moves: [] });
  });
});

test('an end is only said by a report of an end', () => {
  always((verdict, _run, _workload, reported) => {
    const is_end = ['ended', 'parked', 'removed'].includes(reported.state);
    if (verdict !== null) assert.equal(verdict.ended, is_end);
  });
});

test('an end that was proven once is proven for ever', () => {
  always((verdict, run, _workload, reported) => {
    if (run.ended_at === null || verdict === null) return;
    assert.equal(reported.state, 'removed');
    assert.deepEqual(verdict.moves, []);
  });
});

test('every move of every verdict is one that the table of states has', () => {
  always((verdict, _run, workload) => {
    let state = workload.state;
    for (const move of verdict?.moves ?? []) {
      const next = nextState(state, move.event);
      assert.notEqual(next, null, `${move.event} in ${state}`);
      state = next ?? state;
    }
  });
});

test('a repeat of what was applied says nothing new', () => {
  always((verdict, run, workload, reported) => {
    if (verdict === null || verdict.removed) return;
    const applied: Run = {
      ...run,
      observed: verdict.observed,
      ready_at: verdict.ready ? (run.ready_at ?? now) : run.ready_at,
      ended_at: verdict.ended ? (run.ended_at ?? now) : run.ended_at,
    };
    assert.equal(judgeReport(applied, workload, reported, at), null);
  });
});

test('attempts are bounded: at the limit a person is asked', () => {
  let attempts = 0;
  const events: string[] = [];
  for (let round = 0; round < 10; round += 1) {
    const verdict = judgeReport(serving, { ...running, attempts }, ended, at);
    const [move] = verdict?.moves ?? [];
    events.push(move?.event ?? 'none');
    if (move?.event !== 'replace') break;
    assert.equal(move.set?.not_before, now + backOff_ms(attempts + 1));
    attempts = move.set?.attempts ?? 0;
  }
  assert.deepEqual(events, ['replace', 'replace', 'fail']);
});

test('too many restarts say how often, and what the last one was', () => {
  const workload = { ...running, attempts: attempt_limit - 1 };
  const [move] = judgeReport(serving, workload, ended, at)?.moves ?? [];
  assert.equal(move?.code, 'too_many_restarts');
  assert.equal(move?.details?.count, attempt_limit);
  assert.match(String(move?.details?.last), /exit code 1/);
});

test('a run that was ready for long has earned its attempts back', () => {
  const workload = { ...running, attempts: attempt_limit - 1 };
  const steady = { ...serving, ready_at: now - steady_ms };
  const [move] = judgeReport(steady, workload, ended, at)?.moves ?? [];
  assert.equal(move?.event, 'replace');
  assert.equal(move?.set?.attempts, 1);
});

test('each attempt waits longer than the one before', () => {
  assert.deepEqual([1, 2, 3].map(backOff_ms), [1000, 4000, 16000]);
});

test('out of memory is not tried again, and is said before any other reason', () => {
  const exit = { code: null, signal: 'SIGKILL', out_of_memory: true };
  const reported = said({ exit, reason: 'engine_exited' });
  const [move] = judgeReport(serving, running, reported, at)?.moves ?? [];
  assert.deepEqual([move?.event, move?.code], ['fail', 'out_of_memory']);
});

test('what another attempt would only repeat fails at once', () => {
  for (const reason of ['sandbox_missing', 'model_file_invalid', 'disk_full'] as const) {
    const provisioning = { ...running, state: 'provisioning' as const };
    const [move] = judgeReport(placed, provisioning, said({ reason }), at)?.moves ?? [];
    assert.deepEqual([move?.event, move?.code], ['fail', reason]);
  }
});

test('a reboot costs no attempt and no wait', () => {
  const reported = said({ reason: 'machine_rebooted' });
  const workload = { ...running, attempts: attempt_limit - 1 };
  const [move] = judgeReport(serving, workload, reported, at)?.moves ?? [];
  assert.deepEqual([move?.event, move?.code], ['replace', 'machine_rebooted']);
  assert.deepEqual(move?.set, { not_before: 0 });
});

test('a confirmed stop parks, and lets a start that waited go on', () => {
  const stopping = { ...running, state: 'stopping' as const, intent: 'stopped' as const };
  const events = (workload: Workload) =>
    judgeReport(serving, workload, said({ state: 'parked' }), at)?.moves.map((one) => one.event);
  assert.deepEqual(events(stopping), ['parked']);
  assert.deepEqual(events({ ...stopping, intent: 'running' }), ['parked', 'start']);
});

test('only the first answer of a placed run makes its workload running', () => {
  const provisioning = { ...running, state: 'provisioning' as const };
  const ready = said({ state: 'ready' });
  assert.deepEqual(
    judgeReport(placed, provisioning, ready, at)?.moves.map((move) => move.event),
    ['ready'],
  );
  assert.equal(judgeReport(serving, running, ready, at), null);
});

test('a made-up reason is not believed', () => {
  const [move] = judgeReport(serving, running, said({ reason: 'made_up' }), at)?.moves ?? [];
  assert.equal(move?.code, 'run_vanished');
});

test('how it ended is said as far as anybody saw', () => {
  assert.equal(howItEnded(null), 'nobody saw how');
  assert.equal(howItEnded({ code: null, signal: null, out_of_memory: false }), 'nobody saw how');
  assert.equal(howItEnded({ code: 3, signal: null, out_of_memory: false }), 'exit code 3');
  assert.equal(
    howItEnded({ code: 139, signal: 'SIGSEGV', out_of_memory: false }),
    'signal SIGSEGV',
  );
});
