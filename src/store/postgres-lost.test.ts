/**
 * The store on a Postgres that is lost: cut wires, a silent server, a killed one, another control
 * plane.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failureOf } from '../../test/contracts/store.ts';
import { countBoxes, listBoxes, type SuiteTable } from '../../test/contracts/store-transactions.ts';
import { createFakeClock } from '../../test/lib/fake-clock.ts';
import { createDatabase, startCluster } from '../../test/lib/postgres.ts';
import { given, open, passing, real, untilFree } from '../../test/lib/postgres-given.ts';
import { systemClock } from '../lib/clock.ts';
import type { Store } from './sql.ts';

given('cut between two writes, it goes on by itself', async ({ store, wire }) => {
  await store.transact('addBox', { id: 'cut-1' });
  wire.cut();
  await store.transact('addBox', { id: 'cut-2' });
  assert.equal(await store.read(countBoxes, { prefix: 'cut-' }), 2);
});

given('cut in the middle of many, each is done once', async ({ store, wire }) => {
  const calls = Array.from({ length: 300 }, (_, index) =>
    store.transact('addBox', { id: `amid-${index}` }).then(
      () => 'done',
      (error) => error.code,
    ),
  );
  await calls[40];
  wire.cut();
  const ends = await Promise.all(calls);
  const done = ends.filter((end) => end === 'done').length;
  const unknown = ends.filter((end) => end === 'outcome_unknown').length;
  assert.equal(done + unknown, 300, String(new Set(ends)));
  const written = await store.read(countBoxes, { prefix: 'amid-' });
  assert.ok(written >= done && written <= done + unknown, `${written} of ${done} + ${unknown}`);
});

for (const when of ['before', 'after'] as const) {
  given(`cut ${when} the server had COMMIT: the outcome is unknown`, async ({ store, wire }) => {
    wire.cutAtCommit(when);
    const calls = ['one', 'two'].map((id) => store.transact('addBox', { id: `c-${id}` }));
    for (const call of calls) assert.equal((await failureOf(call)).code, 'outcome_unknown');
    await store.transact('addBox', { id: 'c-three' });
    const expected = when === 'before' ? 1 : 3;
    assert.equal(await store.read(countBoxes, { prefix: 'c-' }), expected);
    const unfailed = Promise.race([store.failed, Promise.resolve('goes on')]);
    assert.equal(await unfailed, 'goes on');
  });
}

given('while the server is away nothing is done, and afterwards all is', async (here) => {
  const { store, wire } = here;
  wire.refuse(true);
  const waiting = store.transact('addBox', { id: 'away' });
  const reading = await failureOf(store.read(countBoxes, { prefix: '' }));
  assert.equal(reading.code, 'store_failing');
  wire.refuse(false);
  await waiting;
  assert.equal(await store.read(countBoxes, { prefix: 'away' }), 1);
});

given(
  'a call that waits too long for a server is refused, and later ones are taken',
  async (here) => {
    const clock = createFakeClock();
    await here.store.close();
    const store = await open(here.wire.url, 500, clock);
    here.wire.refuse(true);
    const waiting = failureOf(store.transact('addBox', { id: 'long-1' }));
    await passing(clock, waiting);
    assert.equal((await waiting).code, 'store_failing');
    here.wire.refuse(false);
    const later = store.transact('addBox', { id: 'long-2' });
    await passing(clock, later);
    assert.equal(await store.read(countBoxes, { prefix: 'long-' }), 1);
    await store.close();
  },
);

given('a server that owes an answer for too long is given up', async (here) => {
  const clock = createFakeClock();
  await here.store.close();
  const store = await open(here.wire.url, 500, clock);
  await store.transact('addBox', { id: 'mute-1' });
  here.wire.hush();
  const next = store.transact('addBox', { id: 'mute-2' });
  await clock.advance(20_000);
  await passing(clock, next);
  await next;
  assert.equal(await store.read(countBoxes, { prefix: 'mute-' }), 2);
  await store.close();
});

given('closing does not wait for ever for a silent server', async (here) => {
  const clock = createFakeClock();
  await here.store.close();
  const store = await open(here.wire.url, 500, clock);
  await store.read(countBoxes, { prefix: '' });
  here.wire.hush();
  const closing = store.close();
  await clock.advance(10_000);
  await passing(clock, closing);
});

given('a database that another took over is given up', async ({ store, wire, url, beside }) => {
  wire.refuse(true);
  await untilFree(beside);
  const other = await open(url);
  wire.refuse(false);
  assert.match((await store.failed).message, /is served by/);
  assert.equal((await failureOf(store.transact('addBox', { id: 'late' }))).code, 'store_failing');
  await other.transact('addBox', { id: 'mine' });
  await other.close();
});

given('a lock that our own lost connection still holds is taken from it', async (here) => {
  const { store, wire } = here;
  await store.transact('addBox', { id: 'half-1' });
  wire.cutUnnoticed();
  await store.transact('addBox', { id: 'half-2' });
  assert.equal(await store.read(countBoxes, { prefix: 'half-' }), 2);
});

test('a server that was killed and came back has all that was answered', real, async () => {
  const cluster = await startCluster({ durable: true });
  try {
    const database = await createDatabase(cluster.folder);
    const store = await open(database.url);
    const done: string[] = [];
    let goes_on = true;
    const callers = Array.from({ length: 8 }, async (_, caller) => {
      for (let turn = 0; goes_on; turn += 1) {
        const id = `k-${caller}-${turn}`;
        await store.transact('addBox', { id });
        done.push(id);
      }
    });
    const ended = Promise.allSettled(callers);
    while (done.length < 50) await systemClock.sleep(1);
    await cluster.crash();
    goes_on = false;
    await cluster.restart();
    await ended;
    await untilTaken(store);
    for (let start = 0; start < done.length; start += 500) {
      const ids = done.slice(start, start + 500);
      assert.equal((await store.read(listBoxes, { ids })).length, ids.length);
    }
    await store.close();
  } finally {
    await cluster.stop();
  }
});

/** A server that recovers may take longer than a call waits. */
async function untilTaken(store: Store<SuiteTable>): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) {
    const refused = await store.transact('addBox', { id: `back-${turn}` }).then(
      () => null,
      (error) => error.code,
    );
    if (refused === null) return;
    assert.equal(refused, 'store_failing');
  }
  assert.fail('it never came back');
}
