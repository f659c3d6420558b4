/**
 * How a machine is taken back: by word, by time and by its guard.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type Advanced,
  advance,
  askFor,
  guardOf,
  hearGuard,
  isTakenBack,
  letGo,
  nextIn_ms,
  type Reclaim,
  type ReclaimAsk,
  type ReclaimStart,
  type ReclaimStep,
  viewOf,
} from './reclaim.ts';

const minute_ms = 60_000;
/** The wall clock is a day ahead of the steady one. */
const day_ms = 24 * 60 * minute_ms;
const at = (steady: number, wall = steady + day_ms) => ({ now: wall, steady });

const ask = (start: ReclaimStart, more: Partial<ReclaimAsk> = {}): ReclaimAsk => ({
  ...{ by: 'ada', asked_at: day_ms, scope: 'guests', grace_ms: 5 * minute_ms, start, until: null },
  ...more,
});
const now = { when: 'now' } as const;
const active = { when: 'active' } as const;
const in_use = { parks: false, why: 'owner_active', grace_ms: minute_ms } as const;
const parks = { parks: true, why: 'on_battery', grace_ms: minute_ms } as const;

/** What came of it: its phase and what was to be done. */
const came = ({ after, steps }: Advanced): [string, ...ReclaimStep[]] => [
  after?.phase ?? 'nothing',
  ...steps,
];
function taken(more: Partial<ReclaimAsk> = {}): Reclaim {
  const begun = askFor(null, ask(now, more), at(0)).after;
  const { after } = advance(begun, at(60 * minute_ms));
  assert.equal(after?.phase, 'held');
  return after;
}

test('guests are told, given grace, stopped, and go on once it is released', () => {
  const asked = askFor(null, ask(now), at(0));
  assert.deepEqual(came(asked), ['grace', 'announce']);
  assert.equal(nextIn_ms(asked.after ?? taken(), at(minute_ms)), 4 * minute_ms);
  const early = advance(asked.after, at(5 * minute_ms - 1));
  assert.deepEqual(came(early), ['grace']);
  const due = advance(early.after, at(5 * minute_ms));
  assert.deepEqual(came(due), ['held', 'take']);
  assert.equal(nextIn_ms(due.after ?? taken(), at(5 * minute_ms)), null);
  assert.deepEqual(came(letGo(due.after, at(9 * minute_ms))), ['nothing', 'release']);
});

test('without grace they are stopped at once', () => {
  assert.deepEqual(came(askFor(null, ask(now, { grace_ms: 0 }), at(0))), ['held', 'take']);
});

test('released during the grace it is called off, and nobody is stopped', () => {
  const { after } = askFor(null, ask(now), at(0));
  assert.deepEqual(came(letGo(after, at(minute_ms))), ['nothing', 'called_off']);
  assert.deepEqual(came(letGo(null, at(0))), ['nothing']);
});

test('asked for later it begins then, whatever the wall clock does meanwhile', () => {
  const start = { when: 'in', due: 60 * minute_ms, at: day_ms + 60 * minute_ms } as const;
  const asked = askFor(null, ask(start), at(0));
  assert.deepEqual(came(asked), ['idle', 'planned']);
  assert.equal(viewOf(asked.after), null, 'until then guests may come');
  const stepped = advance(asked.after, at(minute_ms, 400 * day_ms));
  assert.deepEqual(came(stepped), ['idle']);
  const begun = advance(stepped.after, at(60 * minute_ms));
  assert.deepEqual(came(begun), ['grace', 'announce']);
  assert.deepEqual(came(letGo(asked.after, at(1))), ['nothing', 'called_off']);
});

test('at a moment it begins by the wall clock, and one that steps back undoes nothing', () => {
  const start = { when: 'at', at: day_ms + 60 * minute_ms } as const;
  const { after } = askFor(null, ask(start), at(0));
  assert.equal(after === null ? 0 : nextIn_ms(after, at(0)), 60 * minute_ms);
  const begun = advance(after, at(1, day_ms + 60 * minute_ms));
  assert.deepEqual(came(begun), ['grace', 'announce']);
  assert.deepEqual(came(advance(begun.after, at(2, 0))), ['grace']);
  assert.deepEqual(came(advance(begun.after, at(1 + 5 * minute_ms, 0))), ['held', 'take']);
});

test('it is over by itself at the moment that the owner named', () => {
  const held = taken({ until: day_ms + 120 * minute_ms });
  assert.equal(nextIn_ms(held, at(100 * minute_ms)), 20 * minute_ms);
  assert.deepEqual(came(advance(held, at(120 * minute_ms))), ['nothing', 'release']);
});

test('a second word replaces the first: its grace counts from then', () => {
  const { after } = askFor(null, ask(now), at(0));
  const longer = askFor(after, ask(now, { grace_ms: 30 * minute_ms }), at(minute_ms));
  assert.deepEqual(came(longer), ['grace', 'announce']);
  assert.deepEqual(came(advance(longer.after, at(30 * minute_ms))), ['grace']);
  const at_once = askFor(longer.after, ask(now, { grace_ms: 0 }), at(2 * minute_ms));
  assert.deepEqual(came(at_once), ['held', 'take']);
  const again = askFor(at_once.after, ask(now), at(3 * minute_ms));
  assert.deepEqual(came(again), ['held'], 'who is stopped already is told nothing');
});

test('asked for all after guests, the others are told and given grace; and the other way', () => {
  const wider = askFor(taken(), ask(now, { scope: 'all' }), at(90 * minute_ms));
  assert.deepEqual(came(wider), ['grace', 'announce']);
  assert.equal(isTakenBack(wider.after, 'owner', 'owner'), true);
  assert.equal(isTakenBack(wider.after, 'owner', 'guest'), true, 'guests do not come back');
  const all = advance(wider.after, at(95 * minute_ms)).after;
  const narrower = askFor(all, ask(now), at(96 * minute_ms));
  assert.deepEqual(came(narrower), ['held', 'release']);
  assert.equal(isTakenBack(narrower.after, 'owner', 'owner'), false);
});

test('when active: begins as its owner uses it, ends when they leave, and begins again', () => {
  const armed = askFor(null, ask(active), at(0));
  assert.deepEqual(came(armed), ['idle']);
  const used = hearGuard(armed.after, in_use, at(minute_ms));
  assert.deepEqual(came(used), ['grace', 'announce']);
  assert.equal(used.after?.why, 'owner_active');
  assert.deepEqual(came(hearGuard(used.after, null, at(2 * minute_ms))), ['idle', 'called_off']);
  const held = advance(used.after, at(6 * minute_ms));
  assert.deepEqual(came(held), ['held', 'take']);
  const left = hearGuard(held.after, null, at(60 * minute_ms));
  assert.deepEqual(came(left), ['idle', 'release']);
  assert.deepEqual(came(hearGuard(left.after, in_use, at(70 * minute_ms))), ['grace', 'announce']);
  const warm = { ...in_use, why: 'hot' } as const;
  assert.deepEqual(came(hearGuard(left.after, warm, at(70 * minute_ms))), ['idle'], 'no use');
});

test('a guard parks guests by itself, and only until it needs nothing any more', () => {
  const parked = hearGuard(null, parks, at(0));
  assert.deepEqual(came(parked), ['grace', 'announce']);
  const held = advance(parked.after, at(minute_ms)).after;
  assert.equal(isTakenBack(held, 'owner', 'owner'), false, 'the owner stays');
  const less = hearGuard(held, { ...parks, parks: false }, at(2 * minute_ms));
  assert.deepEqual(came(less), ['held'], 'guests would get nothing there yet');
  assert.deepEqual(came(letGo(less.after, at(3 * minute_ms))), ['held']);
  assert.deepEqual(came(hearGuard(less.after, null, at(3 * minute_ms))), ['nothing', 'release']);
  assert.deepEqual(came(hearGuard(null, in_use, at(0))), ['nothing'], 'level 1 stops nobody');
});

test('what the owner asked for stays until they release it, whatever the guard says', () => {
  const held = hearGuard(taken(), parks, at(61 * minute_ms));
  assert.deepEqual(came(held), ['held']);
  assert.deepEqual(came(hearGuard(held.after, null, at(62 * minute_ms))), ['held']);
  assert.deepEqual(came(letGo(held.after, at(62 * minute_ms))), ['held'], 'the guard still parks');
});

test('of a guard the use of the machine says more than its health; level 5 gives no grace', () => {
  const said = { level: 4, why: ['hot', 'owner_active'], grace_ms: 30_000 } as const;
  assert.deepEqual(guardOf(said), { parks: true, why: 'owner_active', grace_ms: 30_000 });
  assert.equal(guardOf({ ...said, level: 5 })?.grace_ms, 0);
  assert.equal(guardOf({ ...said, level: 1 })?.parks, false);
  assert.equal(guardOf({ level: 0, why: [], grace_ms: 0 }), null);
});

type Word =
  | { do: 'ask'; start: ReclaimStart['when']; grace: number; all: boolean; until: number | null }
  | { do: 'let-go' | 'wait' }
  | { do: 'guard'; says: 'free' | 'use' | 'park' };
const anyWord: fc.Arbitrary<Word & { passes_ms: number; steps_ms: number }> = fc
  .tuple(
    fc.oneof<[fc.Arbitrary<Word>, fc.Arbitrary<Word>, fc.Arbitrary<Word>]>(
      fc.record({
        do: fc.constant('ask' as const),
        start: fc.constantFrom('now', 'at', 'in', 'active'),
        grace: fc.constantFrom(0, 1000, 60_000),
        all: fc.boolean(),
        until: fc.constantFrom(null, 5000, 100_000),
      }),
      fc.record({ do: fc.constantFrom('let-go', 'wait') }),
      fc.record({ do: fc.constant('guard'), says: fc.constantFrom('free', 'use', 'park') }),
    ),
    fc.integer({ min: 0, max: 90_000 }),
    fc.integer({ min: -100_000, max: 100_000 }),
  )
  .map(([word, passes_ms, steps_ms]) => ({ ...word, passes_ms, steps_ms }));

test('whatever is said and whatever the clocks do, what is to be done fits how it stands', () => {
  fc.assert(
    fc.property(fc.array(anyWord, { maxLength: 30 }), (words) => {
      let state: Reclaim | null = null;
      let [steady, wall] = [0, day_ms];
      for (const word of words) {
        steady += word.passes_ms;
        wall += word.passes_ms + (word.do === 'wait' ? word.steps_ms : 0);
        const before: Reclaim | null = state;
        const done = act(before, word, { now: wall, steady });
        state = done.after;
        checkStep(before, done, steady);
        const again = advance(state, { now: wall, steady });
        assert.deepEqual(again, { after: state, steps: [] }, 'a repeat changes nothing');
      }
      const released = letGo(state, { now: wall, steady }).after;
      assert.deepEqual(hearGuard(released, null, { now: wall, steady }).after, null);
    }),
  );
});

function act(before: Reclaim | null, word: Word, instant: { now: number; steady: number }) {
  if (word.do === 'let-go') return letGo(before, instant);
  if (word.do === 'guard') {
    const guard = word.says === 'free' ? null : word.says === 'use' ? in_use : parks;
    return hearGuard(before, guard, instant);
  }
  if (word.do !== 'ask') return advance(before, instant);
  const later = { at: instant.now + 10_000, due: instant.steady + 10_000 };
  const start = { when: word.start, ...later } as ReclaimStart;
  const until = word.until === null ? null : instant.now + word.until;
  const scope = word.all ? 'all' : 'guests';
  return askFor(before, ask(start, { grace_ms: word.grace, scope, until }), instant);
}

function checkStep(before: Reclaim | null, { after, steps }: Advanced, steady: number): void {
  const phase = after?.phase ?? 'idle';
  if (steps.includes('take')) assert.equal(phase, 'held');
  if (steps.includes('announce')) assert.notEqual(phase, 'idle');
  if (before?.phase === 'held' && phase === 'idle') assert.ok(steps.includes('release'));
  if (before?.phase !== 'held' && phase === 'held') assert.ok(steps.includes('take'));
  if (phase === 'grace') assert.ok((after?.due ?? 0) > steady, 'what is due is done');
}
