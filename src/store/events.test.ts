/**
 * The timeline: moved by the table alone, noted without moving, refused when somebody was faster.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { openTestStore, type RigStore, seed, storeKinds } from '../../test/lib/rig.ts';
import { beginStory, eventsOf, take, workloadsOf } from '../../test/lib/store-model.ts';
import type { State, StateEvent } from '../core/states.ts';
import { seededRandom } from '../lib/random.ts';
import { listEvents, noteWorkload, type WorkloadRow } from './events.ts';
import { openMemoryStore } from './memory.ts';
import { moveTogether, moveWorkload } from './moves.ts';
import type { Sql } from './sql.ts';
import { transactions } from './transactions.ts';

const cause = { now: 1, actor: 'controller', request_id: null };

/** Moves and notes by hand, on a store in memory that has them as transactions. */
const byHand = {
  ...transactions,
  write: (sql: Sql, args: { text: string }) => sql.run(args.text),
  move: (sql: Sql, args: { row: WorkloadRow; event: 'ready' | 'stop' | 'queue' }) =>
    moveWorkload(sql, args.row, { event: args.event, code: null }, cause),
  together: (sql: Sql, { ids, from, event }: { ids: string[]; from: State; event: StateEvent }) =>
    moveTogether(sql, ids, from, { event, code: 'machine_busy', details: {} }, cause),
  note: (sql: Sql, args: { row: WorkloadRow }) =>
    noteWorkload(sql, args.row, { code: 'machine_busy', details: { free: 'none' } }, cause),
};

async function oneWorkload() {
  const store = openMemoryStore({ transactions: byHand });
  const rig = store as unknown as RigStore;
  const clock = createFakeClock();
  const ids = await seed(rig, clock, seededRandom(1));
  await take({ store: rig, clock, random: seededRandom(2), ids, proven: new Set() }, launch);
  const [row] = await workloadsOf(rig);
  assert.ok(row);
  return { store, rig, row };
}
const launch = { do: 'launch', which: 0, clock_ms: 0 } as const;

test('an event that the table of states refuses writes nothing', async () => {
  const { store, rig, row } = await oneWorkload();
  assert.equal(await store.transact('move', { row, event: 'ready' }), null);
  assert.deepEqual(await workloadsOf(rig), [row]);
  assert.equal((await eventsOf(rig, row.id)).length, 1);
  await store.close();
});

test('of two that saw the same revision, the second is refused and leaves no trace', async () => {
  const { store, rig, row } = await oneWorkload();
  await store.transact('move', { row, event: 'queue' });
  await assert.rejects(store.transact('move', { row, event: 'stop' }), /changed meanwhile/);
  await assert.rejects(store.transact('note', { row }), /changed meanwhile/);
  assert.deepEqual(
    (await eventsOf(rig, row.id)).map((event) => event.event),
    ['launch', 'queue'],
  );
  await store.close();
});

test('what does more than move one is not done to many, and of many all move or none', async () => {
  const { store, rig, row } = await oneWorkload();
  const together = (from: State, event: StateEvent, ids = [row.id]) =>
    store.transact('together', { ids, from, event });
  // It would begin or end what is metered, what replicas wait for, or nothing at all.
  await assert.rejects(together('provisioning', 'ready'), /not moved together/);
  await assert.rejects(together('running', 'stop'), /not moved together/);
  await assert.rejects(together('stopped', 'start'), /not moved together/);
  await assert.rejects(together('stopping', 'parked'), /not moved together/);
  await assert.rejects(together('pending', 'ready'), /not moved together/);
  await assert.rejects(together('pending', 'queue', [row.id, 'gone']), /changed meanwhile/);
  await assert.rejects(together('queued', 'queue'), /changed meanwhile/);
  assert.deepEqual(await workloadsOf(rig), [row]);
  assert.equal((await eventsOf(rig, row.id)).length, 1);
  await together('pending', 'queue');
  const [queued] = await workloadsOf(rig);
  assert.deepEqual([queued?.state, queued?.revision], ['queued', row.revision + 1]);
  assert.equal(queued?.event_at, row.event_at, 'a clock that is behind moves no time back');
  await store.close();
});

test('a note is on the timeline and leaves the state as it is', async () => {
  const { store, rig, row } = await oneWorkload();
  const noted = await store.transact('note', { row });
  assert.deepEqual([noted.state, noted.code, noted.event_number], [row.state, row.code, 2]);
  assert.equal(noted.event_at, row.event_at, 'a clock that is behind moves no time back');
  const [, note] = await eventsOf(rig, row.id);
  assert.deepEqual([note?.kind, note?.code, note?.to_state], ['note', 'machine_busy', null]);
  await store.close();
});

for (const kind of storeKinds) {
  describe(`timelines on a store in ${kind}`, () => {
    test('pages show every event once, in order', async () => {
      const { store, close } = await openTestStore(kind);
      const story = await beginStory(store);
      await take(story, launch);
      for (let round = 0; round < 6; round += 1) {
        await take(story, { do: 'stop', which: 0, clock_ms: 5 });
        await take(story, { do: 'start', which: 0, clock_ms: 5 });
      }
      const [row] = await workloadsOf(store);
      const numbers: number[] = [];
      for (let after = 0; ; ) {
        const asked = { workload_id: row?.id ?? '', after, limit: 4 };
        const page = await store.read(listEvents, asked);
        numbers.push(...page.map((event) => event.number));
        after = page.at(-1)?.number ?? after;
        if (page.length === 0) break;
      }
      assert.deepEqual(
        numbers,
        Array.from({ length: row?.event_number ?? 0 }, (_, index) => index + 1),
      );
      await close();
    });

    test('each event says who did it, and by which request', async () => {
      const { store, close } = await openTestStore(kind);
      const story = await beginStory(store);
      await take(story, launch);
      await take(story, { do: 'place', which: 0, clock_ms: 1 });
      const [row] = await workloadsOf(store);
      const events = await eventsOf(store, row?.id ?? '');
      assert.deepEqual(
        events.map(({ event, actor, request_id }) => [event, actor, request_id]),
        [
          ['launch', 'user:ada', 'r'],
          ['place', 'controller', null],
        ],
      );
      await close();
    });
  });
}
