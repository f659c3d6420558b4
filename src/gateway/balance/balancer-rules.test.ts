/**
 * Whatever happened before: the rules of choosing hold.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createFakeClock } from '../../../test/lib/fake-clock.ts';
import { limits } from '../../contract/limits.ts';
import { runName } from '../../core/run.ts';
import { seededRandom } from '../../lib/random.ts';
import { digest } from '../../lib/secret.ts';
import { createBalancer, type Outing, type OutingEnd } from './balancer.ts';

type Act =
  | { do: 'ask'; affinity: string | null; not: number[] }
  | { do: 'end'; which: number; how: OutingEnd }
  | { do: 'progress'; which: number }
  | { do: 'wait'; ms: number };

const anyAct: fc.Arbitrary<Act> = fc.oneof(
  fc.record({
    do: fc.constant('ask' as const),
    affinity: fc.option(fc.constantFrom(digest('a'), digest('b'), digest('c'))),
    not: fc.subarray([0, 1, 2, 3]),
  }),
  fc.record({
    do: fc.constant('end' as const),
    which: fc.nat(20),
    how: fc.constantFrom<OutingEnd>('answered', 'failed', 'unreachable', 'refused', 'left'),
  }),
  fc.record({ do: fc.constant('progress' as const), which: fc.nat(20) }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 1000, 6000, 70_000) }),
);
const anySlots = fc.array(fc.option(fc.integer({ min: 1, max: 4 })), {
  minLength: 1,
  maxLength: 4,
});

/** What is known from outside: requests that are with each, and failures in a row. */
type Seen = { outstanding: number; failed: number };

test('none gets more than its slots where a blameless one has a free one, and there is always one', async () => {
  await fc.assert(
    fc.asyncProperty(anySlots, fc.array(anyAct, { maxLength: 60 }), async (slots, acts) => {
      const clock = createFakeClock();
      const balancer = createBalancer(seededRandom(1), clock);
      const workload_id = 'w'.repeat(26);
      const all = slots.map((count, replica) => ({
        ...{ run: { workload_id, replica, run_epoch: 1 }, slots: count },
      }));
      const seen: Seen[] = all.map(() => ({ outstanding: 0, failed: 0 }));
      const open: { outing: Outing; replica: number }[] = [];
      const hasFree = (replica: number) =>
        (seen[replica]?.outstanding ?? 0) < (all[replica]?.slots ?? Number.POSITIVE_INFINITY);
      const waited_ms = acts.reduce((sum, act) => sum + (act.do === 'wait' ? act.ms : 0), 0);
      const is_quick = waited_ms < limits.suspect_quiet_ms;
      for (const act of acts) {
        if (act.do === 'wait') await clock.advance(act.ms);
        else if (act.do === 'ask') {
          const not = new Set(
            act.not.map((replica) => runName({ workload_id, replica, run_epoch: 1 })),
          );
          const chosen = balancer.choose(all, { not, affinity: act.affinity });
          const left = all.filter(({ run }) => !act.not.includes(run.replica));
          assert.equal(chosen === null, left.length === 0);
          if (chosen === null) continue;
          const { replica } = chosen.run;
          assert.ok(!act.not.includes(replica));
          const blameless = left.filter(({ run }) => seen[run.replica]?.failed === 0);
          if (is_quick && blameless.some(({ run }) => hasFree(run.replica))) {
            assert.ok(hasFree(replica), 'a slot was free elsewhere');
          }
          open.push({ outing: balancer.begin(chosen.run), replica });
          const mine = seen[replica];
          if (mine) mine.outstanding += 1;
        } else {
          const found = open[act.which % Math.max(1, open.length)];
          if (found === undefined) continue;
          if (act.do === 'progress') found.outing.progress();
          else {
            found.outing.ended(act.how);
            open.splice(open.indexOf(found), 1);
            const mine = seen[found.replica];
            if (!mine) continue;
            mine.outstanding -= 1;
            if (act.how === 'failed' || act.how === 'unreachable') mine.failed += 1;
          }
        }
      }
    }),
    { seed: 7, numRuns: 300 },
  );
});

test('replicas that never fail share endless work evenly', () => {
  const clock = createFakeClock();
  const balancer = createBalancer(seededRandom(2), clock);
  const all = [0, 1, 2].map((replica) => ({
    ...{ run: { workload_id: 'w'.repeat(26), replica, run_epoch: 1 }, slots: 4 },
  }));
  const open: { outing: Outing; replica: number }[] = [];
  const counts = [0, 0, 0];
  const random = seededRandom(3);
  for (let count = 0; count < 3000; count += 1) {
    const chosen = balancer.choose(all, { not: new Set(), affinity: null });
    const { run } = chosen ?? assert.fail();
    open.push({ outing: balancer.begin(run), replica: run.replica });
    counts[run.replica] = (counts[run.replica] ?? 0) + 1;
    const [byte = 0] = random.bytes(1);
    if (open.length > 8) open.splice(byte % open.length, 1)[0]?.outing.ended('answered');
  }
  assert.ok(
    counts.every((count) => count > 900 && count < 1100),
    String(counts),
  );
});
