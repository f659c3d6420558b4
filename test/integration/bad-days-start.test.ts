/**
 * Starts that are refused: each says its code, its sentence and the command that helps, and leaves
 * everything as it was.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { exec } from '../../src/lib/exec.ts';
import { upOnce } from '../lib/bad-day.ts';
import { startProgram, temporaryFolder } from '../lib/program.ts';

test('a port in use is named, with a command that takes another one', async () => {
  const data_dir = temporaryFolder();
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const { port } = other.address() as AddressInfo;
  try {
    const { outcome, code, said } = await upOnce(data_dir, port);
    assert.deepEqual({ outcome, code }, { outcome: 'exited', code: 1 });
    assert.match(said, /^error port_in_use: /m);
    assert.ok(said.includes(`Port ${port} on 127.0.0.1 is taken by another program.`), said);
    assert.ok(said.includes(`fix: bin/einsora up --port ${port + 1}`), said);
    const free = await startProgram({ data_dir });
    assert.equal(await free.interrupt(), 0, 'the folder is free after the refusal');
  } finally {
    other.close();
    rmSync(data_dir, { recursive: true });
  }
});

test('a second up on one folder is refused, and the first goes on', async () => {
  const data_dir = temporaryFolder();
  const first = await startProgram({ data_dir });
  try {
    const { code, said } = await upOnce(data_dir);
    assert.equal(code, 1);
    assert.match(said, /^error data_dir_in_use: /m);
    assert.ok(said.includes(data_dir) && said.includes(first.url), said);
    assert.match(said, /fix: .*--data-dir/);
    assert.equal((await first.api('/v1/machines')).status, 200);
    const listed = await first.cli(['ls', '--json']);
    assert.equal(listed.code, 0, listed.stderr);
  } finally {
    assert.equal(await first.interrupt(), 0);
    rmSync(data_dir, { recursive: true });
  }
});

test('a folder of a newer version is refused, and not a byte of its store changes', async () => {
  const data_dir = temporaryFolder();
  try {
    await (await startProgram({ data_dir })).interrupt();
    const store = join(data_dir, 'einsora.db');
    const newer = `
      const { DatabaseSync } = require('node:sqlite');
      const store = new DatabaseSync(process.argv[1]);
      store.exec("insert into schema_migrations values (99, 'later', 'sum', 0)");
      store.close();`;
    const made = await exec(process.execPath, ['-e', newer, store], { timeout_ms: 10_000 });
    assert.equal(made.code, 0, made.stderr);
    const before = sumOf(store);
    const { code, said } = await upOnce(data_dir);
    assert.equal(code, 1);
    assert.match(said, /^error data_dir_newer: .*schema 99/m);
    assert.match(said, /fix: git pull, then bin\/einsora .*up/);
    assert.equal(sumOf(store), before);
  } finally {
    rmSync(data_dir, { recursive: true });
  }
});

test('a data folder that cannot be written is refused with a command that helps', async () => {
  const folder = temporaryFolder();
  try {
    const file = join(folder, 'file');
    writeFileSync(file, 'mine');
    const { code, said } = await upOnce(join(file, 'data'));
    assert.equal(code, 1);
    assert.match(said, /^error data_dir_unwritable: /m);
    assert.match(said, /fix: .*bin\/einsora up --data-dir/);
    assert.equal(readFileSync(file, 'utf8'), 'mine');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a command without an up says the command that starts one, and ends with 3', async () => {
  const data_dir = temporaryFolder();
  try {
    const program = await startProgram({ data_dir });
    await program.interrupt();
    const { code, stdout } = await program.cli(['launch', 'endpoint', 'smollm2-135m', '--json']);
    assert.equal(code, 3);
    const { error } = JSON.parse(stdout) as { error: { code: string; fix: string } };
    assert.equal(error.code, 'control_plane_unreachable');
    assert.equal(error.fix, `bin/einsora up --data-dir ${data_dir}`);
  } finally {
    rmSync(data_dir, { recursive: true });
  }
});

function sumOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}
