/**
 * The store on a real Postgres: its contract, others in the same database, and databases that will
 * not do.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { failureOf, storeContract } from '../../test/contracts/store.ts';
import { countBoxes, listBoxes, type SuiteTable } from '../../test/contracts/store-transactions.ts';
import { administer, createDatabase, urlOf } from '../../test/lib/postgres.ts';
import { given, open, real, untilWaiting } from '../../test/lib/postgres-given.ts';
import { exec } from '../lib/exec.ts';
import { Secret } from '../lib/secret.ts';
import { shownUrl } from './postgres-open.ts';
import type { Sql, Store } from './sql.ts';

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

given('what the server gives up for another is tried again, and not for ever', async (here) => {
  const { store, beside } = here;
  const makeFlaky = (fails: number) =>
    beside.tell(`drop sequence if exists turns; create sequence turns;
      create or replace function flaky() returns int language plpgsql as $$ begin
        if nextval('turns') <= ${fails} then raise exception using errcode = '40001'; end if;
        return currval('turns'); end $$`);
  await makeFlaky(3);
  const calls = [
    store.transact('addBox', { id: 'f-1' }),
    store.transact('callFlaky', { id: 'f-2' }),
    store.transact('addBox', { id: 'f-3' }),
  ];
  assert.deepEqual(await Promise.all(calls), [{ id: 'f-1' }, 4, { id: 'f-3' }]);
  await makeFlaky(1000);
  const [good, bad] = [
    store.transact('addBox', { id: 'f-4' }),
    store.transact('callFlaky', { id: 'f-5' }),
  ];
  assert.equal((await failureOf(bad)).code, 'store_failing');
  await good;
  assert.equal(await store.read(countBoxes, { prefix: 'f-' }), 4);
});

given('a full disk fails what needs room and nothing else', async ({ store, beside }) => {
  const small = mkdtempSync(join(tmpdir(), 'einsora-small-'));
  const admin = { timeout_ms: 5000, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } };
  const mount = ['-t', 'tmpfs', '-o', 'size=2m,mode=777', 'tmpfs', small];
  if ((await exec('mount', mount, admin)).code !== 0) return;
  try {
    const { rows } = await beside.ask('select pg_backend_pid() as pid', [], null);
    const name = `small_${rows[0]?.pid}`;
    // The server's user owns it: tablespaces are taken from nobody else.
    await exec('sh', ['-c', `mkdir ${small}/in && chown nobody ${small}/in`], admin);
    await beside.tell(`create tablespace ${name} location '${small}/in'`);
    await beside.tell(`alter table boxes set tablespace ${name}`);
    const calls = Array.from({ length: 100 }, (_, index) =>
      store.transact('grow', { id: `big-${index}`, bytes: 2000 }),
    );
    const settled = await Promise.allSettled([...calls, ...(await fillUp(store))]);
    const full = settled.filter((one) => one.status === 'rejected');
    assert.ok(full.length > 0);
    for (const one of full) assert.equal(one.reason.code, 'store_full');
    const written = await store.read(countBoxes, { prefix: 'big-' });
    assert.equal(written, settled.length - full.length);
    await store.transact('echo', { value: 1 });
    await beside.tell('alter table boxes set tablespace pg_default');
    await beside.tell(`drop tablespace ${name}`);
    await store.transact('grow', { id: 'big-again', bytes: 2000 });
  } finally {
    await exec('umount', ['-l', small], admin);
    rmSync(small, { recursive: true, force: true });
  }
});

async function fillUp(store: Store<SuiteTable>) {
  return Array.from({ length: 1500 }, (_, index) =>
    store.transact('grow', { id: `big-more-${index}`, bytes: 1900 }),
  );
}

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

test('what is no address of a Postgres is looked up nowhere', async () => {
  for (const text of ['s3cret', 'mysql://ada:s3cret@localhost/einsora']) {
    await assert.rejects(open(new Secret(text)), /it is none such as postgres:\/\/user@host/);
  }
});
