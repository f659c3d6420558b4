/**
 * The real program: secrets over a kill and a restart, its key missing or wrong; and an activity
 * log that proves itself after a kill, and tells of a hand in the database.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';
import { keepingLog } from '../lib/rig.ts';
import { transactions } from '../lib/rig-transactions.ts';

const value = 'hf_canaryOfTheRealProgram';

async function given(body: (data_dir: string, start: () => Promise<Program>) => Promise<void>) {
  const data_dir = temporaryFolder();
  let program: Program | null = null;
  const start = async () => {
    program = await startProgram({ data_dir, args: ['--dev'], until_ready: false });
    return program;
  };
  try {
    await body(data_dir, start);
  } finally {
    await (program as Program | null)?.kill();
    rmSync(data_dir, { recursive: true, force: true });
  }
}

/** Writes the database of a program that has ended. */
async function byHand(folder: string, text: string): Promise<void> {
  const transactions_url = new URL('../lib/rig-transactions.ts', import.meta.url).href;
  const log = keepingLog([]);
  const store = await openSqliteStore({ folder, transactions_url, transactions, log });
  await store.transact('write', { text, params: [] });
  await store.close();
}

const set = (program: Program) =>
  program.api('/v1/secrets/hf-token', { method: 'PUT', body: { value } });

test('a secret outlives a kill, stands nowhere in plain text, and its key is needed', () =>
  given(async (data_dir, start) => {
    let program = await start();
    assert.equal((await set(program)).status, 200);
    await program.kill();
    for (const name of readdirSync(data_dir)) {
      const path = join(data_dir, name);
      if (!statSync(path).isFile()) continue;
      assert.equal(readFileSync(path).includes(value), false, name);
    }
    const key = join(data_dir, 'deployment-key');
    renameSync(key, `${key}.away`);
    await assert.rejects(start(), /error deployment_key_missing: .*\n {2}fix: /);
    writeFileSync(key, `${'0'.repeat(64)}\n`, { mode: 0o600 });
    await assert.rejects(start(), /error deployment_key_wrong: /);
    renameSync(`${key}.away`, key);
    program = await start();
    const list = await program.cli(['secrets', 'ls', '--json']);
    assert.equal(JSON.parse(list.stdout).items[0].name, 'hf-token');
  }));

test('after a kill the log proves itself, with its anchors, and goes on', () =>
  given(async (data_dir, start) => {
    let program = await start();
    await set(program);
    const anchors = join(data_dir, 'activity-anchors.jsonl');
    await until(
      () => statSync(anchors, { throwIfNoEntry: false }) !== undefined,
      20_000,
      () => 'no anchor was written',
    );
    await set(program);
    await program.kill();

    program = await start();
    await set(program);
    const verify = async () => {
      const { code, stdout } = await program.cli(['audit', 'verify', '--json']);
      return { code, ...(JSON.parse(stdout) as { rows: number; anchors: number }) };
    };
    let report = await verify();
    await until(
      async () => {
        report = await verify();
        return report.rows >= 4;
      },
      20_000,
      () => JSON.stringify(report),
    );
    assert.equal(report.code, 0);
    assert.ok(report.anchors >= 2);
    assert.equal(await program.interrupt(), 0);

    await byHand(data_dir, "update activity set target = 'secret:another' where seq = 1");
    program = await start();
    const told = await program.cli(['audit', 'verify']);
    assert.equal(told.code, 1);
    assert.match(told.stdout, /✘ seal_changed: rows 1 to /);
  }));
