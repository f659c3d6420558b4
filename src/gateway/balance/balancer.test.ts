/**
 * Where requests go: to who has the fewest, works, and gets on with what it has.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { limits } from '../../contract/limits.ts';
import { runName } from '../../core/run.ts';
import { seededRandom } from '../../lib/random.ts';
import { digest } from '../../lib/secret.ts';
import { type Choice, createBalancer } from './balancer.ts';
import { counted, newPace, perMinute } from './pace.ts';

const no_choice: Choice = { not: new Set<string>(), affinity: null };

function given(slots: readonly (number | null)[]) {
  const clock = createFakeClock();
  const balancer = createBalancer(seededRandom(4), clock);
  const all = slots.map((count, replica) => ({
    run: { workload_id: 'w'.repeat(26), replica, run_epoch: replica + 1 },
    slots: count,
  }));
  const of = (replica: number) => all[replica]?.run ?? assert.fail();
  const choose = (choice: Partial<Choice> = {}) =>
    balancer.choose(all, { ...no_choice, ...choice })?.run.replica ?? null;
  /** Which ones are taken in many choices. */
  const taken = () => [...new Set(Array.from({ length: 60 }, () => choose()))].toSorted();
  const fail = (replica: number, how: 'failed' | 'unreachable' = 'failed', times = 3) => {
    for (let count = 0; count < times; count += 1) balancer.begin(of(replica)).ended(how);
  };
  return { clock, balancer, all, of, choose, taken, fail };
}

test('the one with the fewest requests is taken, and an end counts once', () => {
  const { balancer, of, choose, taken } = given([null, null, null]);
  const outings = [0, 0, 2].map((replica) => balancer.begin(of(replica)));
  assert.equal(choose(), 1);
  balancer.begin(of(1));
  balancer.begin(of(1));
  assert.equal(choose(), 2);
  for (const outing of outings) outing.ended('answered');
  outings[0]?.ended('answered');
  assert.deepEqual(taken(), [0, 2]);
  balancer.begin(of(0));
  assert.deepEqual(taken(), [2], 'never fewer than none');
});

test('of equally busy ones each gets its share', () => {
  const { choose } = given([null, null, null]);
  const counts = [0, 0, 0];
  for (let count = 0; count < 300; count += 1) {
    const replica = choose() ?? 0;
    counts[replica] = (counts[replica] ?? 0) + 1;
  }
  assert.ok(
    counts.every((count) => count > 60),
    String(counts),
  );
});

test('none gets more than its slots while another has one free', () => {
  const { balancer, of, choose, all } = given([1, 4]);
  balancer.begin(of(0));
  for (let count = 0; count < 4; count += 1) {
    assert.equal(choose(), 1);
    balancer.begin(of(1));
  }
  assert.equal(balancer.capacity(all), 5);
  // Full both: four slots get free sooner than one.
  assert.deepEqual([balancer.begin(of(0)), choose()].at(1), 1);
});

test('those asked already are passed over, and without another there is none', () => {
  const { balancer, all, of, choose } = given([null, null]);
  assert.equal(choose({ not: new Set([runName(of(0))]) }), 1);
  assert.equal(choose({ not: new Set(all.map(({ run }) => runName(run))) }), null);
  assert.equal(balancer.choose([], no_choice), null);
});

test('one that cannot be reached, or failed a few times, is left alone for a while', async () => {
  for (const [how, times] of [
    ['unreachable', 1],
    ['failed', limits.breaker_failures],
  ] as const) {
    const { clock, balancer, of, taken, fail } = given([null, null]);
    fail(0, how, times);
    assert.deepEqual(taken(), [1]);
    await clock.advance(limits.breaker_open_ms);
    assert.deepEqual(taken(), [0, 1], 'one probe');
    const probe = balancer.begin(of(0));
    assert.deepEqual(taken(), [1], 'and no more than one');
    probe.ended(how);
    await clock.advance(limits.breaker_open_ms);
    assert.deepEqual(taken(), [1], 'longer than before');
    await clock.advance(limits.breaker_open_ms);
    balancer.begin(of(0)).progress();
    balancer.begin(of(1));
    assert.deepEqual(taken(), [0, 1], 'a token is proof enough');
  }
});

test('what clients do trips nothing, however often, and frees a probe', async () => {
  const { clock, balancer, of, taken, fail } = given([null, null]);
  for (let count = 0; count < 100; count += 1) {
    balancer.begin(of(0)).ended('refused');
    balancer.begin(of(0)).ended('left');
  }
  assert.deepEqual(taken(), [0, 1]);
  fail(0);
  await clock.advance(limits.breaker_open_ms);
  balancer.begin(of(0)).ended('left');
  assert.deepEqual(taken(), [0, 1]);
});

test('where all failed the one that failed longest ago is asked', async () => {
  const { clock, choose, fail } = given([null, null, null]);
  for (const replica of [1, 2, 0]) {
    fail(replica);
    await clock.advance(10);
  }
  assert.equal(choose(), 1);
  fail(1, 'failed', 1);
  assert.equal(choose(), 2, 'and then the next');
});

test('one that takes requests and gives nothing is left alone, one that gives a token is not', async () => {
  const { clock, balancer, of, taken } = given([null, null]);
  const quiet = [balancer.begin(of(0)), balancer.begin(of(0))];
  for (let count = 0; count < 3; count += 1) balancer.begin(of(1));
  await clock.advance(limits.suspect_quiet_ms - 1);
  assert.deepEqual(taken(), [0]);
  const busy = balancer.begin(of(1));
  busy.progress();
  await clock.advance(1);
  assert.deepEqual(taken(), [1], 'whoever has fewer');
  quiet[0]?.progress();
  assert.deepEqual(taken(), [0]);
  await clock.advance(limits.suspect_quiet_ms);
  busy.progress();
  for (const outing of quiet) outing.ended('left');
  assert.deepEqual(taken(), [1], 'clients that gave up acquit nobody');
  await clock.advance(limits.suspect_forgotten_ms);
  assert.deepEqual(taken(), [0], 'another try');
});

test('time without requests makes nobody suspect', async () => {
  const { clock, balancer, of, taken } = given([null, null]);
  for (let count = 0; count < 10; count += 1) {
    const outing = balancer.begin(of(0));
    await clock.advance(10);
    outing.ended('left');
    await clock.advance(limits.suspect_forgotten_ms / 2);
  }
  assert.deepEqual(taken(), [0, 1]);
});

test('what begins alike goes to one replica, until that is busier by more than a little', () => {
  const { balancer, of, choose } = given([8, 8, 8]);
  const affinity = digest('a beginning');
  const home = choose({ affinity }) ?? assert.fail();
  for (let count = 0; count < 2; count += 1) {
    assert.equal(choose({ affinity }), home);
    balancer.begin(of(home));
  }
  assert.equal(choose({ affinity }), home, 'by a quarter of its slots');
  balancer.begin(of(home));
  const second = choose({ affinity });
  assert.notEqual(second, home);
  assert.equal(choose({ affinity }), second, 'the next best is always the same');
});

test('affinity leads to nobody who failed, is suspect or is full', async () => {
  const { clock, balancer, of, choose, fail } = given([1, 1]);
  const affinity = digest('a beginning');
  const home = choose({ affinity }) ?? assert.fail();
  const outing = balancer.begin(of(home));
  assert.equal(choose({ affinity }), 1 - home);
  outing.ended('answered');
  fail(home);
  assert.equal(choose({ affinity }), 1 - home);
  await clock.advance(limits.breaker_open_ms);
  assert.equal(choose({ affinity }), home);
});

test('what is at rest is forgotten before too many runs are remembered', () => {
  const { balancer, of, taken } = given([null, null]);
  balancer.begin(of(0));
  for (let epoch = 0; epoch < 2 * limits.runs_balanced; epoch += 1) {
    balancer.begin({ workload_id: 'v'.repeat(26), replica: 0, run_epoch: epoch }).ended('answered');
  }
  assert.deepEqual(taken(), [1], 'what has a request is kept');
});

test('a look says how a run stands, and what last went wrong with it', async () => {
  const { clock, balancer, of } = given([null]);
  const at_rest = { outstanding: 0, per_minute: 0, is_suspect: false, last_failure: null };
  assert.deepEqual(balancer.look(of(0)), { ...at_rest, breaker: 'closed' });
  const at = clock.now();
  balancer.begin(of(0)).ended('unreachable', 'engine_unreachable');
  balancer.begin(of(0));
  const last_failure = { at, code: 'engine_unreachable' };
  const seen = { outstanding: 1, per_minute: 2, is_suspect: false, last_failure };
  assert.deepEqual(balancer.look(of(0)), { ...seen, breaker: 'open' });
  await clock.advance(limits.suspect_quiet_ms);
  assert.deepEqual(balancer.look(of(0)), { ...seen, breaker: 'half_open', is_suspect: true });
});

test('a minute is counted as it passes', () => {
  const pace = newPace();
  for (let at = 0; at < 60_000; at += 1000) counted(pace, at);
  assert.equal(perMinute(pace, 59_999), 60);
  assert.equal(perMinute(pace, 90_000), 30);
  for (let at = 90_000; at < 100_000; at += 1000) counted(pace, at);
  assert.equal(perMinute(pace, 119_999), 10);
  assert.equal(perMinute(pace, 600_000), 0);
});

test('how many are left alone, and how many are tried again, is told', async () => {
  const { balancer, of, fail, clock } = given([null, null, null]);
  for (const replica of [0, 1]) balancer.begin(of(replica)).ended('answered');
  fail(2, 'unreachable', 1);
  assert.deepEqual(balancer.breakers(), { closed: 2, half_open: 0, open: 1 });
  await clock.advance(60_000);
  assert.deepEqual(balancer.breakers(), { closed: 2, half_open: 1, open: 0 });
});

test('a run that failed several times in a row of late, or gives nothing, is doubted; others not', async () => {
  const { balancer, clock, of, fail } = given([null, null, null]);
  const doubted = () => [0, 1, 2].filter((replica) => balancer.isDoubted(of(replica)));
  assert.deepEqual(doubted(), []);
  balancer.begin(of(1)).ended('answered');
  balancer.begin(of(1)).ended('failed');
  fail(0);
  const silent = balancer.begin(of(2));
  assert.deepEqual(doubted(), [0]);
  await clock.advance(limits.suspect_quiet_ms);
  assert.deepEqual(doubted(), [0, 2]);
  silent.progress();
  assert.deepEqual(doubted(), [0]);
  await clock.advance(limits.doubt_ms);
  assert.deepEqual(doubted(), [2], 'what nobody asks any more is left alone; that has a request');
  silent.ended('left');
  fail(0, 'failed', 1);
  assert.ok(doubted().includes(0), 'it failed once more');
  balancer.begin(of(0)).ended('answered');
  assert.ok(!doubted().includes(0));
});
