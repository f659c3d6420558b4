/**
 * Deadlines of a request, and the one reason why it is stopped.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { createDeadlines, type DeadlineKind, deadlineKinds } from './deadlines.ts';
import { createStop } from './stop.ts';

type Act =
  | { do: 'set'; kind: DeadlineKind; ms: number }
  | { do: 'touch'; kind: DeadlineKind }
  | { do: 'clear'; kind: DeadlineKind }
  | { do: 'wait'; ms: number };
const kind = fc.constantFrom(...deadlineKinds);
const ms = fc.integer({ min: 1, max: 50 });
const anyAct: fc.Arbitrary<Act> = fc.oneof(
  fc.record({ do: fc.constant('set' as const), kind, ms }),
  fc.record({ do: fc.constantFrom('touch' as const, 'clear' as const), kind }),
  fc.record({ do: fc.constant('wait' as const), ms }),
);

test('each fires exactly when it was due last, whatever was set, moved and cleared', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyAct, { maxLength: 40 }), async (acts) => {
      const clock = createFakeClock();
      const deadlines = createDeadlines(clock);
      const due = new Map<DeadlineKind, { at: number; ms: number }>();
      const fired: [DeadlineKind, number][] = [];
      const expected: [DeadlineKind, number][] = [];
      for (const act of acts) {
        const now = clock.monotonic();
        if (act.do === 'set') {
          due.set(act.kind, { at: now + act.ms, ms: act.ms });
          deadlines.set(act.kind, act.ms, () => fired.push([act.kind, clock.monotonic()]));
        } else if (act.do === 'touch') {
          const one = due.get(act.kind);
          if (one !== undefined) one.at = now + one.ms;
          deadlines.touch(act.kind);
        } else if (act.do === 'clear') {
          due.delete(act.kind);
          deadlines.clear(act.kind);
        } else {
          const over = [...due].filter(([, { at }]) => at <= now + act.ms);
          for (const [name, { at }] of over) {
            expected.push([name, at]);
            due.delete(name);
          }
          await clock.advance(act.ms);
        }
      }
      const sorted = (all: typeof fired) => all.map(String).toSorted();
      assert.deepEqual(sorted(fired), sorted(expected));
      deadlines.stop();
      assert.equal(clock.waiting(), 0);
    }),
  );
});

test('moving a deadline makes no timer', () => {
  const clock = createFakeClock();
  let made = 0;
  const counted = {
    monotonic: clock.monotonic,
    after(ms: number, fire: () => void) {
      made += 1;
      return clock.after(ms, fire);
    },
  };
  const deadlines = createDeadlines(counted);
  deadlines.set('silence', 1000, () => {});
  for (let count = 0; count < 1000; count += 1) deadlines.touch('silence');
  deadlines.set('silence', 2000, () => {});
  assert.equal(made, 1);
});

test('a stop has one reason, and each hears of it once', async () => {
  const stop = createStop();
  const heard: string[] = [];
  stop.on(() => heard.push('first'));
  stop.on(() => heard.push('undone'))();
  stop.now('client_left');
  stop.now('too_long');
  stop.on(() => heard.push('late'));
  stop.on(() => heard.push('late and undone'))();
  assert.deepEqual(heard, ['first']);
  await null;
  assert.deepEqual(heard, ['first', 'late']);
  assert.equal(stop.reason(), 'client_left');
});
