/**
 * The store on a real Postgres: its contract, and what happens when connections, the server or
 * another control plane get in the way.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { failureOf, storeContract } from '../../test/contracts/store.ts';
import {
  countBoxes,
  listBoxes,
  migrations,
  type SuiteTable,
  transactions,
} from '../../test/contracts/store-transactions.ts';
import { createFakeClock, type FakeClock } from '../../test/lib/fake-clock.ts';
import { needs } from '../../test/lib/parts.ts';
import { administer, createDatabase, startCluster, urlOf } from '../../test/lib/postgres.ts';
import { stretchWire, type Wire } from '../../test/lib/postgres-wire.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { Secret } from '../lib/secret.ts';
import { connectPostgres, openPostgresStore } from './postgres.ts';
import { shownUrl } from './postgres-open.ts';
import type { PgConnection } from './postgres-sql.ts';
import type { Sql, Store } from './sql.ts';

const real = needs('postgres');
const folder = mkdtempSync(join(tmpdir(), 'einsora-postgres-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

function open(url: Secret, takeover_ms = 5000, clock: Clock = systemClock) {
  return openPostgresStore({ url, folder, transactions, migrations, takeover_ms, clock });
}

type Given = { store: Store<SuiteTable>; url: Secret; wire: Wire; beside: PgConnection };

/** A store over a wire that can be cut, and a connection of somebody else beside it. */
function given(name: string, body: (given: Given) => Promise<void>): void {
  test(name, real, async () => {
    const database = await createDatabase();
    const wire = await stretchWire(database);
    const store = await open(wire.url, 500);
    const beside = await connectPostgres(database.url);
    try {
      await body({ store, wire, beside, url: database.url });
    } finally {
      await beside.end();
      await store.close();
      await wire.close();
      await database.free();
    }
  });
}

describe('with a server', real, () => {
  storeContract('Postgres', async () => open((await createDatabase()).url));
});

given('what was written is there for the next one', async ({ store, url }) => {
  await store.transact('addBox', { id: 'kept', size: 1 });
  await store.close();
  const next = await open(url);
  assert.equal(await next.read(countBoxes, { prefix: 'kept' }), 1);
  await next.close();
});

given('a second control plane is refused, and told who is the first', async ({ store, url }) => {
  await assert.rejects(open(url, 0), (error: { code?: string; details?: { holder: string } }) => {
    assert.equal(error.code, 'database_in_use');
    assert.match(error.details?.holder ?? '', new RegExp(`process ${process.pid}`));
    return true;
  });
  await store.transact('addBox', { id: 'undisturbed' });
});

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

given('two that wait for each other are told apart, and both are done', async (here) => {
  const { store, beside } = here;
  await store.transact('addBox', { id: 'x' });
  await store.transact('addBox', { id: 'y' });
  await beside.tell(`begin; set local deadlock_timeout = '1h'`);
  await beside.tell(`update boxes set size = 1 where id = 'y'`);
  const writing = store.transact('growBoth', { first: 'x', second: 'y' });
  // Once the store's own transaction has x and waits for y, wanting x closes the circle.
  await untilWaiting(beside, 1);
  const wanting = beside.tell(`update boxes set size = 2 where id = 'x'`);
  await wanting;
  await beside.tell('commit');
  await writing;
  const rows = await store.read(listBoxes, { ids: ['x', 'y'] });
  assert.deepEqual(
    rows.map(({ size }) => size),
    [12, 11],
  );
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

given('numbers beyond what is safe, and columns of other types, are refused', async ({ store }) => {
  const ask = (text: string) => store.read((sql: Sql) => sql.get(text), null);
  await assert.rejects(ask('select 9007199254740993 as n'), /no safe integer/);
  await assert.rejects(ask('select true as t'), /cast it/);
  await assert.rejects(ask('select sum(size) as s from boxes'), /cast it/);
  assert.deepEqual(await ask('select 9007199254740991 as n'), { n: 9007199254740991 });
});

given('reads wait for no write', async ({ store, beside }) => {
  await store.transact('addBox', { id: 'seen' });
  await beside.tell(`begin; update boxes set size = 9 where id = 'seen'`);
  const writing = store.transact('growBoth', { first: 'seen', second: 'seen' });
  await untilWaiting(beside, 1);
  const [box] = await store.read(listBoxes, { ids: ['seen'] });
  assert.equal(box?.size, 0);
  await beside.tell('rollback');
  await writing;
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

test(
  'a database that sorts or writes otherwise is refused before anything is done',
  real,
  async () => {
    const database = await createDatabase();
    for (const [name, how, why] of [
      ['latin', `encoding 'LATIN1' locale 'C'`, /its encoding is LATIN1/],
      ['icu', `locale_provider icu icu_locale 'en' locale 'C'`, /it sorts by ICU/],
    ] as const) {
      await administer(
        database.at,
        `create database ${database.name}_${name} template template0 ${how}`,
      );
      const url = new Secret(urlOf(database.at, `${database.name}_${name}`));
      await assert.rejects(open(url), (error: { code?: string; message: string }) => {
        assert.equal(error.code, 'database_unsuitable');
        assert.match(error.message, why);
        return true;
      });
    }
    await database.free();
  },
);

test('a server that is not there is said to be so, without the password', async () => {
  const url = new Secret('postgres://ada:s3cret@127.0.0.1:1/einsora?sslmode=disable');
  await assert.rejects(open(url), (error: { code?: string; message: string }) => {
    assert.equal(error.code, 'database_unreachable');
    assert.match(error.message, /ECONNREFUSED/);
    assert.doesNotMatch(JSON.stringify(error) + error.message, /s3cret/);
    return true;
  });
  assert.equal(shownUrl(url), 'postgres://ada@127.0.0.1:1/einsora');
  const socket = new Secret('postgres://ada:s3cret@/einsora?host=/run/postgresql&password=s3cret');
  assert.equal(shownUrl(socket), 'postgres://ada@/einsora?host=/run/postgresql');
  assert.equal(shownUrl(new Secret('s3cret')), 'an address that cannot be read');
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

/** Lets time pass until it settles, in steps that leave the server time to answer. */
async function passing(clock: FakeClock, work: Promise<unknown>): Promise<void> {
  let settled = false;
  const settle = () => {
    settled = true;
  };
  work.then(settle, settle);
  while (!settled) {
    await clock.advance(20);
    await systemClock.sleep(2);
  }
}

/** Until so many sessions wait for a lock. */
async function untilWaiting(beside: PgConnection, count: number): Promise<void> {
  await untilSql(beside, `select count(*) as n from pg_locks where granted = false`, count);
}

async function untilFree(beside: PgConnection): Promise<void> {
  const text = `select count(*) as n from pg_locks where locktype = 'advisory' and database =
    (select oid from pg_database where datname = current_database())`;
  await untilSql(beside, text, 0);
}

async function untilSql(beside: PgConnection, text: string, count: number): Promise<void> {
  for (let turn = 0; turn < 500; turn += 1) {
    const { rows } = await beside.ask(text, [], null);
    if (rows[0]?.n === count) return;
    await systemClock.sleep(10);
  }
  assert.fail(`never so: ${text}`);
}
