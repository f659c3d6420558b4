/**
 * `einsora export` against a real API: to stdout or into a file, the same bytes as the API's.
 */
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { ask, createRig, type Rig } from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { runCli } from '../../test/lib/run-cli.ts';

let rig: Rig;
let served: RigServer;
beforeEach(async () => {
  rig = await createRig();
  served = await serveRig(rig);
  const body = { kind: 'endpoint', model: 'smollm2-135m', name: 'chat' };
  await ask(rig, 'POST', '/v1/workloads', { body });
  await ask(rig, 'POST', '/v1/workloads/chat/keys', { body: {} });
});
afterEach(async () => {
  await served.close();
  await rig.close();
});

test('the export is on stdout, and what it holds is said beside it', async () => {
  const { data_dir } = served;
  const { code, stdout, stderr } = await runCli(['export', 'chat'], { data_dir });
  assert.equal(code, 0, stderr);
  const { text } = await ask(rig, 'GET', '/v1/workloads/chat/export');
  assert.equal(stdout, `${text}\n`);
  assert.equal(stderr, '1 event, 0 runs, 2 actions; 1 redaction, each listed\n');
});

test('with -o it is a file for its owner alone, with the bytes of the API', async () => {
  const { data_dir } = served;
  const file = join(data_dir, 'chat.json');
  for (const _ of [1, 2]) {
    const { code, stdout } = await runCli(['export', 'chat', '-o', file], { data_dir });
    assert.deepEqual([code, stdout], [0, '']);
  }
  const { text } = await ask(rig, 'GET', '/v1/workloads/chat/export');
  assert.equal(readFileSync(file, 'utf8'), text);
  assert.equal(statSync(file).mode & 0o777, 0o600);
});

test('a file that cannot be written, and a workload that is none, are said by code', async () => {
  const { data_dir } = served;
  const nowhere = await runCli(['export', 'chat', '-o', '/nowhere/x.json'], { data_dir });
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.stderr, /error file_unwritable: It could not be written: ENOENT/);
  const none = await runCli(['export', 'chit'], { data_dir });
  assert.match(none.stderr, /error not_found/);
});
