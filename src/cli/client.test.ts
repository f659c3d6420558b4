import assert from 'node:assert/strict';
import { chmodSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { workload } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';

let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
});
afterEach(() => api.close());

const found = () => join(api.data_dir, 'control-plane.json');
const token = () => join(api.data_dir, 'owner-token');

async function unreachableLs() {
  const { code, stdout, stderr } = await runCli(['ls'], api);
  assert.equal(code, 3);
  assert.equal(stdout, '');
  assert.ok(
    stderr.startsWith(
      `error control_plane_unreachable: No control plane answers for ${api.data_dir}`,
    ),
  );
  assert.ok(stderr.includes(`fix: bin/einsora up --data-dir ${api.data_dir}\n`), stderr);
}

test('without a control plane the command that starts one is said, with exit code 3', async () => {
  rmSync(found());
  await unreachableLs();
});

test('the token is not sent to whoever took the port of a control plane that died', async () => {
  // A process number above the limit of Linux: nobody can have it.
  writeFileSync(found(), JSON.stringify({ url: api.url, pid: 2 ** 22 + 1, version: '0.1.0' }));
  await unreachableLs();
  assert.equal(api.calls.length, 0);
});

test('a port where nobody listens is no control plane', async () => {
  writeFileSync(found(), JSON.stringify({ url: 'http://127.0.0.1:1', pid: process.pid }));
  await unreachableLs();
});

test('damaged files in the data folder are no control plane', async () => {
  for (const text of ['', '{', '[]', '{"url":5,"pid":1}', '{"url":"x","pid":1}', 'null']) {
    writeFileSync(found(), text);
    await unreachableLs();
  }
});

test('a token that others can read is refused, with the command that helps', async () => {
  chmodSync(token(), 0o644);
  const { code, stderr } = await runCli(['ls'], api);
  assert.equal(code, 5);
  assert.match(stderr, /error owner_token_exposed: Others on this machine can read/);
  assert.ok(stderr.includes(`fix: chmod 600 ${token()}`));
  assert.equal(api.calls.length, 0);
});

test('a token behind a link is refused', async () => {
  writeFileSync(join(api.data_dir, 'elsewhere'), 'x', { mode: 0o600 });
  rmSync(token());
  symlinkSync('elsewhere', token());
  assert.equal((await runCli(['ls'], api)).code, 5);
});

test('a broken connection is tried once more, and only once', async () => {
  api.reset_paths = ['/v1/workloads'];
  assert.equal((await runCli(['ls'], api)).code, 0);
  assert.equal(api.calls.length, 2);
  api.reset_paths = ['/v1/workloads', '/v1/workloads'];
  assert.equal((await runCli(['ls'], api)).code, 3);
  assert.equal(api.calls.length, 4);
});

test('a start whose answer is lost is repeated with the same key', async () => {
  api.workloads.set('w1', workload({ state: 'stopped' }));
  api.reset_paths = ['/v1/workloads/w1/start'];
  assert.equal((await runCli(['start', 'w1', '--detach'], api)).code, 0);
  const keys = api.calls.map((call) => call.idempotency_key);
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  assert.notEqual(keys[0], null);
});

test('an error shows code, sentence, fix and request; its status picks the exit code', async () => {
  const failing = async (status: number, code: string) => {
    api.failures.set('GET /v1/workloads', { status, code, message: 'It is so.', fix: 'do this' });
    return runCli(['ls', '--json'], api);
  };
  const refused = await failing(403, 'forbidden');
  assert.equal(refused.code, 5);
  assert.equal(refused.stderr, 'error forbidden: It is so.\n  fix: do this\n  request: req-1\n');
  assert.deepEqual(JSON.parse(refused.stdout), {
    error: { code: 'forbidden', message: 'It is so.', fix: 'do this', request_id: 'req-1' },
  });
  assert.equal((await failing(500, 'internal')).code, 1);
  assert.equal((await failing(400, 'bad_request')).code, 2);
  assert.equal((await failing(503, 'outcome_unknown')).code, 1);
});
