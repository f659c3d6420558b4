/**
 * The ledger: what ran is counted once and to the millisecond, whatever is done to clocks,
 * machines and reports.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { checkLedger } from '../../test/lib/ledger-check.ts';
import { beginTale, type Tale } from '../../test/lib/ledger-tale.ts';
import { openTestStore, select, storeKinds } from '../../test/lib/rig.ts';
import type { EventRow } from './events.ts';
import type { LedgerRow } from './ledger.ts';

const minute = 60_000;
const hour = 60 * minute;
const year = 365 * 24 * hour;

for (const kind of storeKinds) {
  describe(`the ledger of a store in ${kind}`, () => {
    const inTale = (name: string, body: (tale: Tale) => Promise<void>) =>
      test(name, async () => {
        const { store, close } = await openTestStore(kind);
        try {
          await body(await beginTale(store));
        } finally {
          await close();
        }
      });

    inTale('metered is what is running, held is what is reserved', async (tale) => {
      await tale.launch();
      await tale.pass(minute);
      await tale.place();
      await tale.pass(2 * minute);
      await tale.report('ready');
      await tale.pass(30_000);
      await tale.stop();
      await tale.pass(5000);
      await tale.report('parked');
      await tale.pass(hour);
      assert.deepEqual(await tale.lengths(), { metered: [30_000], held: [2 * minute + 35_000] });
    });

    inTale('a second run is a second interval, and neither overlaps', async (tale) => {
      await tale.launch();
      await tale.run(minute);
      await tale.start();
      await tale.run(2 * minute);
      assert.deepEqual((await tale.lengths()).metered, [minute, 2 * minute]);
      const [first, second] = await tale.intervals('metered');
      assert.ok((first?.ended_at ?? Infinity) <= (second?.started_at ?? 0));
    });

    for (const step_ms of [hour, -hour, 400 * 24 * hour, -400 * 24 * hour]) {
      inTale(`a wall clock that moves by ${step_ms / hour} h changes no length`, async (tale) => {
        await tale.launch();
        await tale.place();
        await tale.report('ready');
        await tale.pass(10_000);
        const before = await tale.openLength();
        tale.clock.stepWall(step_ms);
        assert.ok(Math.abs((await tale.openLength()) - before) <= 1000, 'an open one stays');
        await tale.pass(20_000);
        await tale.stop();
        await tale.report('parked');
        assert.deepEqual(await tale.lengths(), { metered: [30_000], held: [30_000] });
        const closed = await tale.intervals('metered');
        tale.clock.stepWall(-step_ms);
        await tale.start();
        await tale.run(minute);
        assert.deepEqual((await tale.lengths()).metered, [30_000, minute]);
        assert.deepEqual((await tale.intervals('metered'))[0], closed[0], 'a closed one stays');
        const notes = await select<EventRow>(
          tale.store,
          "select * from workload_events where code = 'clock_stepped'",
        );
        assert.equal(notes.length, 1, 'the timeline says so, once');
      });
    }

    inTale('across a restart the wall clock counts, and never backwards', async (tale) => {
      await tale.launch();
      await tale.place();
      await tale.report('ready');
      await tale.pass(10_000);
      await tale.prove();
      await tale.restart({ away_ms: minute });
      await tale.report('ready');
      await tale.pass(10_000);
      await tale.stop();
      assert.deepEqual((await tale.lengths()).metered, [minute + 20_000]);
      await tale.report('parked');
      await tale.start();
      await tale.place();
      await tale.report('ready');
      await tale.pass(10_000);
      await tale.prove();
      await tale.restart({ away_ms: -year });
      await tale.report('ready');
      await tale.pass(10_000);
      await tale.stop();
      assert.deepEqual((await tale.lengths()).metered[1], 20_000);
    });

    inTale('what ended while nobody could see it ran until it was last proven', async (tale) => {
      await tale.launch();
      await tale.place();
      await tale.report('ready');
      await tale.pass(10_000);
      await tale.prove();
      await tale.pass(hour);
      await tale.report('ended');
      assert.deepEqual(await tale.lengths(), { metered: [10_000], held: [hour + 10_000] });
      const [interval] = await tale.intervals('metered');
      assert.equal(interval?.ended_by, 'last_proof');
    });

    inTale('the first word after a silence tells no end, however short that was', async (tale) => {
      await tale.launch();
      await tale.place();
      await tale.report('ready');
      await tale.pass(3000);
      await tale.prove();
      await tale.pass(4000);
      await tale.report('ended', { heard: null });
      assert.deepEqual((await tale.lengths()).metered, [3000]);
    });

    inTale('a report proves only the runs that it names', async (tale) => {
      await tale.launch();
      await tale.place();
      await tale.report('ready');
      await tale.pass(minute);
      // A restored store: the agent knows nothing of this run, and says so after its first report.
      const another = `${(await tale.workload()).id}.0.2`;
      const heard = { mono: tale.at().mono, runs: [another] };
      await tale.report('ended', { heard });
      assert.deepEqual((await tale.lengths()).metered, [0]);
    });

    inTale('an end that the agent saw is where it saw it', async (tale) => {
      await tale.launch();
      await tale.place();
      await tale.report('ready');
      await tale.pass(hour);
      await tale.report('ended', { ended_ago_ms: 20 * minute });
      assert.deepEqual((await tale.lengths()).metered, [40 * minute]);
      await tale.report('ended', { ended_ago_ms: 10 * minute });
      assert.deepEqual((await tale.lengths()).metered, [40 * minute], 'and not a second time');
    });

    inTale('later evidence is an entry of its own, and counts once', async (tale) => {
      await tale.launch();
      await tale.place();
      await tale.report('ready');
      await tale.pass(hour); // not heard of
      await tale.stop();
      assert.deepEqual((await tale.lengths()).metered, [0]);
      const [closed] = await tale.intervals('metered');
      await tale.pass(minute);
      await tale.report('ready'); // it came back, and ran all the while
      await tale.report('ready');
      await tale.pass(minute);
      await tale.report('ready');
      assert.deepEqual((await tale.lengths()).metered, [0, hour]);
      const [first, correction] = await tale.intervals('metered');
      assert.deepEqual(first, closed, 'what was closed is as it was');
      assert.deepEqual(
        [correction?.reason, correction?.sign, correction?.ended_by],
        ['ran_on', 1, 'evidence'],
      );
      await tale.report('parked', { ended_ago_ms: 0 });
      assert.deepEqual((await tale.lengths()).metered, [0, hour], 'stopping is not metered');
    });

    inTale(
      'what a machine slept is taken off what runs there, and off nothing else',
      async (tale) => {
        await tale.launch();
        await tale.run(10_000);
        await tale.start();
        await tale.place();
        await tale.report('ready');
        await tale.pass(hour);
        const woke = { ...tale.cause(), machine_id: tale.ids.machine_id, runs: [] };
        await tale.pass(20_000);
        await tale.store.transact('deductSleep', { ...woke, slept_ms: 40 * minute });
        await tale.store.transact('deductSleep', {
          ...woke,
          machine_id: 'other',
          slept_ms: minute,
        });
        await tale.prove();
        await tale.stop();
        const rows = await tale.intervals('metered');
        assert.deepEqual(
          rows.map((row) => row.sign * ((row.ended_at ?? 0) - row.started_at)),
          [10_000, hour + 20_000, -40 * minute],
        );
        assert.equal(rows[2]?.ended_at, (rows[1]?.ended_at ?? 0) - 20_000, 'it ended when it woke');
        await checkLedger(tale.store);
      },
    );

    inTale('what sleep is taken off was measured, also where the end is not seen', async (tale) => {
      await tale.launch();
      await tale.place();
      await tale.report('ready');
      await tale.pass(hour);
      const runs = [`${(await tale.workload()).id}.0.1`];
      const woke = { ...tale.cause(), machine_id: tale.ids.machine_id, runs };
      await tale.store.transact('deductSleep', { ...woke, slept_ms: 50 * minute });
      await tale.pass(hour);
      await tale.report('ended', { heard: null });
      assert.deepEqual((await tale.lengths()).metered, [hour, 50 * minute]);
      await checkLedger(tale.store);
    });

    inTale('a sleep is taken off an interval that was closed since', async (tale) => {
      await tale.launch();
      await tale.place();
      await tale.report('ready');
      await tale.pass(hour);
      const woke = { ...tale.cause(), machine_id: tale.ids.machine_id, runs: [] };
      await tale.prove();
      await tale.stop();
      await tale.pass(20_000);
      await tale.store.transact('deductSleep', { ...woke, slept_ms: 50 * minute });
      assert.deepEqual((await tale.lengths()).metered, [hour, 50 * minute]);
    });

    inTale('no more is taken off than was measured until then', async (tale) => {
      await tale.launch();
      await tale.place();
      await tale.pass(minute);
      const woke = { ...tale.cause(), machine_id: tale.ids.machine_id, runs: [] };
      await tale.pass(10_000);
      await tale.report('ready');
      await tale.pass(10_000);
      const later = { ...tale.cause(), machine_id: tale.ids.machine_id, runs: [] };
      await tale.store.transact('deductSleep', { ...woke, slept_ms: minute });
      assert.equal((await tale.intervals('metered')).length, 1, 'it slept before this ran');
      await tale.store.transact('deductSleep', { ...later, slept_ms: minute });
      assert.deepEqual((await tale.lengths()).metered[1], 10_000);
    });

    inTale('a repeated, late or foreign report opens and closes nothing', async (tale) => {
      await tale.launch();
      await tale.place();
      for (let count = 0; count < 3; count += 1) await tale.report('ready');
      await tale.pass(minute);
      await tale.report('ready', {}, 'another-machine');
      for (let count = 0; count < 3; count += 1) {
        await tale.report('ended');
        await tale.report('ready');
        await tale.pass(10_000);
      }
      assert.deepEqual(await tale.lengths(), { metered: [minute], held: [minute] });
    });

    inTale(
      'the store itself refuses a second open interval, and one that ends early',
      async (t) => {
        await t.launch();
        await t.place();
        const [open] = await t.intervals('held');
        assert.ok(open);
        const copy = { ...open, id: 'again', entry: 9 } satisfies LedgerRow;
        await assert.rejects(t.insert(copy), { code: 'unique' });
        const early = { ...copy, ended_at: copy.started_at - 1, ended_by: 'event' as const };
        await assert.rejects(t.insert(early), { code: 'check' });
      },
    );

    test('after any tale, what was counted is what ran, and the books are in order', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(anyTurn, { maxLength: 30 }), async (turns) => {
          const { store, close } = await openTestStore(kind);
          try {
            await tellAndCheck(await beginTale(store), turns);
          } finally {
            await close();
          }
        }),
        { seed: 19, numRuns: kind === 'memory' ? 60 : 6 },
      );
    });
  });
}

type Turn =
  | { do: 'pass'; ms: number }
  | { do: 'step'; ms: number }
  | { do: 'restart'; ms: number }
  | { do: 'start' | 'stop' | 'place' | 'ready' | 'parked' | 'ended' };

const anyTurn: fc.Arbitrary<Turn> = fc.oneof(
  fc.record({ do: fc.constant('pass' as const), ms: fc.nat(50_000) }),
  fc.record({ do: fc.constant('step' as const), ms: fc.integer({ min: -year, max: year }) }),
  fc.record({ do: fc.constant('restart' as const), ms: fc.nat(50_000) }),
  fc.record({
    do: fc.constantFrom(
      'start' as const,
      'stop',
      'place',
      'place',
      'ready',
      'ready',
      'parked',
      'ended',
    ),
  }),
);

/** Takes each turn, and counts beside it how long the workload was running by its state. */
async function tellAndCheck(tale: Tale, turns: Turn[]): Promise<void> {
  await tale.launch();
  let truth = 0;
  for (const turn of turns) {
    const { state } = await tale.workload();
    if (turn.do === 'pass') await tale.pass(turn.ms);
    else if (turn.do === 'step') tale.clock.stepWall(turn.ms);
    else if (turn.do === 'restart') {
      await tale.prove();
      await tale.restart({ away_ms: turn.ms });
    } else if (turn.do === 'place') {
      if (state === 'pending') await tale.place();
    } else if (turn.do === 'start') {
      if (state !== 'deleted') await tale.start();
    } else if (turn.do === 'stop') await tale.stop();
    else await tale.report(turn.do);
    if ('ms' in turn && turn.do !== 'step' && state === 'running') truth += turn.ms;
    await tale.prove();
    await checkLedger(tale.store);
  }
  if ((await tale.workload()).state === 'running') await tale.stop();
  const { metered } = await tale.lengths();
  const counted = metered.reduce((all, length) => all + length, 0);
  assert.equal(counted, truth);
}
