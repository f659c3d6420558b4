/**
 * The file store: its contract, and what happens when the disk, the worker or the process fails.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { failureOf, storeContract } from '../../test/contracts/store.ts';
import { countBoxes, listBoxes, transactions } from '../../test/contracts/store-transactions.ts';
import { exec, spawnChild } from '../lib/exec.ts';
import type { Sql } from './sql.ts';
import { isSupportedSqlite, lockFolder, openSqliteStore } from './sqlite.ts';

const suite_url = new URL('../../test/contracts/store-transactions.ts', import.meta.url).href;
const child_path = new URL('../../test/lib/store-child.ts', import.meta.url).pathname;

const folders: string[] = [];
process.once('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-store-'));
  folders.push(folder);
  return folder;
}

function open(folder: string, page_limit?: number) {
  const limit = page_limit === undefined ? {} : { page_limit };
  return openSqliteStore({ folder, transactions_url: suite_url, transactions, ...limit });
}

storeContract('a SQLite file', () => open(newFolder()));

test('what was written is there after the store was closed and opened again', async () => {
  const folder = newFolder();
  const before = await open(folder);
  await before.transact('addBox', { id: 'kept', size: 1 });
  await before.close();
  const after = await open(folder);
  assert.equal(await after.read(countBoxes, { prefix: 'kept' }), 1);
  await after.close();
});

test('of a batch that one transaction took down, only that one fails', async () => {
  const store = await open(newFolder());
  await store.transact('addBox', { id: 'anchor' });
  const calls = [
    store.transact('addBox', { id: 'beside-1' }),
    store.transact('endAll', { id: 'beside-2', taken: 'anchor' }),
    store.transact('addBox', { id: 'beside-3' }),
  ];
  const settled = await Promise.allSettled(calls);
  assert.deepEqual(
    settled.map((one) => one.status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.equal((await failureOf(calls[1])).code, 'unique');
  await store.close();
});

test('the file is private to its user and keeps a write-ahead log', async () => {
  const folder = newFolder();
  const store = await open(folder);
  const query = (sql: Sql) => sql.get('select journal_mode as mode from pragma_journal_mode');
  assert.deepEqual(await store.read(query, null), { mode: 'wal' });
  for (const name of ['einsora.db', 'einsora.db-wal']) {
    assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600, name);
  }
  await store.close();
});

test('the writer waits for the disk at each commit and checks foreign keys', async () => {
  const store = await open(newFolder());
  const settings = await store.transact('writerSettings', undefined as never);
  assert.deepEqual(settings, { synchronous: 2, foreign_keys: 1 });
  await store.close();
});

test('a full disk fails what needs room and nothing else, until there is room again', async () => {
  const store = await open(newFolder(), 64);
  await store.transact('addBox', { id: 'small' });
  const calls = Array.from({ length: 100 }, (_, index) =>
    store.transact('grow', { id: `big-${index}`, bytes: 8000 }),
  );
  const settled = await Promise.allSettled(calls);
  const full = settled.filter((one) => one.status === 'rejected');
  assert.ok(full.length > 0 && full.length < 100, `${full.length} of 100 failed`);
  for (const one of full) assert.equal(one.reason.code, 'store_full');
  assert.equal(await store.read(countBoxes, { prefix: 'big-' }), 100 - full.length);
  await store.transact('clear', { prefix: 'big-' });
  await store.transact('grow', { id: 'again', bytes: 8000 });
  assert.equal(await store.read(countBoxes, { prefix: 'again' }), 1);
  await store.close();
});

test('a disk that is really full is told as such, and the store goes on when it is not', async (t) => {
  const folder = newFolder();
  const mounted = await exec('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', folder], {
    timeout_ms: 5000,
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  if (mounted.code !== 0) {
    t.diagnostic('skipped: a small tmpfs can be mounted only by root');
    return t.skip('no tmpfs');
  }
  try {
    const store = await open(folder);
    writeFileSync(join(folder, 'ballast'), Buffer.alloc(2_500_000));
    let written = 0;
    const failure = await failureOf(
      (async () => {
        for (; ; written += 1)
          await store.transact('grow', { id: `big-${written}`, bytes: 50_000 });
      })(),
    );
    assert.equal(failure.code, 'store_full');
    assert.equal(await store.read(countBoxes, { prefix: 'big-' }), written);
    rmSync(join(folder, 'ballast'));
    await store.transact('grow', { id: 'big-again', bytes: 50_000 });
    assert.equal(await store.read(countBoxes, { prefix: 'big-' }), written + 1);
    await store.close();
  } finally {
    const path = '/usr/sbin:/usr/bin:/sbin:/bin';
    await exec('umount', ['-l', folder], { timeout_ms: 5000, env: { PATH: path } });
  }
});

test('when the worker dies, what was under way is unknown and what waited never began', async () => {
  const folder = newFolder();
  const store = await open(folder);
  await store.transact('addBox', { id: 'before' });
  const under_way = [
    store.transact('addBox', { id: 'beside' }),
    store.transact('endProcess', { id: 'last' }),
  ];
  for (const call of under_way) assert.equal((await failureOf(call)).code, 'outcome_unknown');
  assert.equal((await store.failed).code, 'outcome_unknown');
  assert.equal((await failureOf(store.transact('addBox', { id: 'x' }))).code, 'store_failing');
  assert.equal(await store.read(countBoxes, { prefix: 'before' }), 1);
  await store.close();
  const again = await open(folder);
  assert.deepEqual(await again.read(listBoxes, { ids: ['beside', 'last', 'x'] }), []);
  await again.close();
});

test('damage found while writing is an unknown outcome and the end of the store', async () => {
  const folder = newFolder();
  const store = await open(folder);
  await store.transact('addBox', { id: 'before' });
  await store.close();
  const path = join(folder, 'einsora.db');
  const pages = readFileSync(path);
  // Beyond the schema and its history, which are read before any transaction runs.
  writeFileSync(path, pages.fill(0xff, 2 * 4096));
  const damaged = await open(folder);
  const call = damaged.transact('addBox', { id: 'after' });
  assert.equal((await failureOf(call)).code, 'outcome_unknown');
  assert.match((await damaged.failed).message, /the file is damaged/);
  await damaged.close();
});

test('a store that was closed leaves no mark, one that was killed is looked through', async () => {
  const folder = newFolder();
  const marker = join(folder, 'store-open');
  const store = await open(folder);
  assert.equal(existsSync(marker), true);
  await store.transact('grow', { id: 'big', bytes: 40_000 });
  await store.close();
  assert.equal(existsSync(marker), false);
  const path = join(folder, 'einsora.db');
  const pages = readFileSync(path);
  writeFileSync(path, pages.fill(0xff, 4 * 4096, 4 * 4096 + 200));
  await (await open(folder)).close();
  writeFileSync(marker, '');
  await assert.rejects(open(folder), { code: 'store_damaged' });
  assert.equal(existsSync(marker), true, 'the next start looks again');
});

test('a file that is no database is a damaged store, and the process goes on', async () => {
  const folder = newFolder();
  writeFileSync(join(folder, 'einsora.db'), 'this is not a database. '.repeat(100));
  await assert.rejects(open(folder), { code: 'store_damaged' });
});

test('a queue that is full refuses at once', async () => {
  const store = await open(newFolder());
  const calls = Array.from({ length: 10_050 }, (_, value) => store.transact('echo', { value }));
  const settled = await Promise.allSettled(calls);
  assert.equal(settled.filter((one) => one.status === 'fulfilled').length, 10_000);
  assert.equal((await failureOf(calls.at(-1))).code, 'store_failing');
  await store.close();
});

test('whatever was acknowledged is there after kill -9', async () => {
  const folder = newFolder();
  const child = spawnChild(process.execPath, [child_path, 'commits', folder], { env: {} });
  assert.ok(child.stdout);
  const acknowledged: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    acknowledged.push(line);
    if (acknowledged.length === 300) child.kill('SIGKILL');
  }
  assert.ok(acknowledged.length >= 300);
  const store = await open(folder);
  for (let start = 0; start < acknowledged.length; start += 500) {
    const ids = acknowledged.slice(start, start + 500);
    assert.equal((await store.read(listBoxes, { ids })).length, ids.length);
  }
  await store.close();
});

test('a folder is locked by one process, until it ends however it ends', async () => {
  const folder = newFolder();
  const child = spawnChild(process.execPath, [child_path, 'lock', folder], { env: {} });
  assert.ok(child.stdout);
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  assert.equal(line, 'locked');
  assert.equal(lockFolder(folder), null);
  child.kill('SIGKILL');
  await once(child, 'exit');
  const lock = lockFolder(folder);
  assert.ok(lock);
  assert.equal(lockFolder(folder), null);
  lock.release();
  lock.release();
  const again = lockFolder(folder);
  assert.ok(again);
  again.release();
});

test('a lock in a folder that is not there is an error, not a lock', () => {
  const folder = newFolder();
  mkdirSync(join(folder, 'there'));
  assert.throws(() => lockFolder(join(folder, 'elsewhere')), /ENOENT/);
});

test('SQLite before 3.51.3 is refused', () => {
  assert.equal(isSupportedSqlite('3.51.2'), false);
  assert.equal(isSupportedSqlite('3.9.9'), false);
  assert.equal(isSupportedSqlite('3.51.3'), true);
  assert.equal(isSupportedSqlite('3.53.0'), true);
  assert.equal(isSupportedSqlite('4.0.0'), true);
});
