/**
 * The real program on Postgres: launched, killed, started again, refused twice, told what is wrong.
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload } from '../../src/contract/workloads.ts';
import { exec } from '../../src/lib/exec.ts';
import { needs } from '../lib/parts.ts';
import { createDatabase, type TestDatabase } from '../lib/postgres.ts';
import {
  mainFile,
  type Program,
  startProgram,
  temporaryFolder,
  test_cache,
  until,
} from '../lib/program.ts';

const real = needs('postgres');

const start = (data_dir: string, { url }: TestDatabase) =>
  startProgram({
    data_dir,
    args: ['--dev'],
    env: { EINSORA_DATABASE_URL: url.reveal() },
  });

test('what it acknowledged survives kill -9 after kill -9', real, async () => {
  const data_dir = temporaryFolder();
  const database = await createDatabase();
  let program: Program | null = null;
  const acknowledged: string[] = [];
  try {
    for (let round = 0; round < 3; round += 1) {
      program = await start(data_dir, database);
      for (const id of acknowledged) {
        assert.equal((await program.api(`/v1/workloads/${id}`)).status, 200, `${id} is lost`);
      }
      const asked = Array.from({ length: 12 }, async (_, index) => {
        const answer = await launch(program, `w-${round}-${index}`);
        if (answer?.status === 201) acknowledged.push(answer.body.id);
      });
      // Some have their answer, the others are cut off.
      await until(
        () => acknowledged.length >= round * 12 + 4,
        30_000,
        () => 'no launch was answered',
      );
      await program.kill();
      await Promise.allSettled(asked);
    }
    program = await start(data_dir, database);
    const { body } = await program.api<{ items: Workload[] }>('/v1/workloads?limit=200');
    const ids = body.items.map(({ id }) => id);
    for (const id of acknowledged) assert.ok(ids.includes(id), `${id} is lost`);
    const names = body.items.map(({ name }) => name);
    assert.equal(new Set(names).size, names.length);
    await program.interrupt();
  } finally {
    await program?.kill();
    await database.free();
    rmSync(data_dir, { recursive: true, force: true });
  }
});

function launch(program: Program | null, name: string) {
  return program
    ?.api<Workload>('/v1/workloads', {
      body: { kind: 'endpoint', name, model: 'smollm2-135m' },
      headers: { 'idempotency-key': name },
    })
    .catch(() => null);
}

test('a second control plane on one database is refused by code and command', real, async () => {
  const [first_dir, second_dir] = [temporaryFolder(), temporaryFolder()];
  const database = await createDatabase();
  const first = await start(first_dir, database);
  try {
    assert.match(first.said(), /store +postgres:\/\/einsora@\/t\d+_\d+\?host=/);
    const second = await runUp(second_dir, database.url.reveal());
    assert.notEqual(second.code, 0);
    assert.match(second.stderr, /is served by another control plane already: einsora on /);
    assert.match(second.stderr, /EINSORA_DATABASE_URL, then: bin\/einsora .*up/);
    const looked = await first.cli(['doctor', '--json']);
    const found = JSON.parse(looked.stdout).groups.find(
      ({ name }: { name: string }) => name === 'store',
    );
    assert.equal(found.findings[0].status, 'ok');
    assert.match(found.findings[0].message, /^Postgres 1\d\S* at postgres:\/\/einsora@\//);
  } finally {
    await first.interrupt();
    await database.free();
    for (const folder of [first_dir, second_dir]) rmSync(folder, { recursive: true, force: true });
  }
});

test('a database that does not answer is said so, and its password is nowhere', async () => {
  const data_dir = temporaryFolder();
  try {
    const url = 'postgres://ada:s3cret@127.0.0.1:1/einsora';
    const refused = await runUp(data_dir, url);
    assert.match(refused.stderr, /postgres:\/\/ada@127\.0\.0\.1:1\/einsora does not answer/);
    const looked = await runMain(['doctor', '--data-dir', data_dir], url);
    assert.match(looked.stdout, /✘ postgres:\/\/ada@127\.0\.0\.1:1\/einsora does not answer/);
    const log = await exec('cat', [join(data_dir, 'einsora.log')], { timeout_ms: 5000 });
    const said = [refused, looked].map(({ stdout, stderr }) => stdout + stderr).join();
    assert.doesNotMatch(said + log.stdout, /s3cret/);
  } finally {
    rmSync(data_dir, { recursive: true, force: true });
  }
});

const runUp = (data_dir: string, url: string) =>
  runMain(['up', '--no-open', '--port', '0', '--data-dir', data_dir], url);

function runMain(args: string[], url: string) {
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: process.env.HOME ?? '/',
    EINSORA_CACHE_DIR: test_cache,
    EINSORA_DATABASE_URL: url,
  };
  const base = ['--disable-warning=ExperimentalWarning', mainFile];
  return exec(process.execPath, [...base, ...args], { env, timeout_ms: 60_000 });
}
