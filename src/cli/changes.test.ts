import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { workload } from '../../test/lib/fake-records.ts';
import { runCli } from '../../test/lib/run-cli.ts';

let api: FakeApi;
beforeEach(async () => {
  api = await openFakeApi();
  api.workloads.set('w1', workload({ name: 'one', url: `${api.url}/v1` }));
  api.workloads.set('w2', workload({ id: 'w2', name: 'two' }));
});
afterEach(() => api.close());

test('stop asks all first, then waits until each is confirmed', async () => {
  api.script = [{}, { state: 'stopped' }, { state: 'stopped' }];
  const { code, stdout } = await runCli(['stop', 'one', 'two'], api);
  assert.equal(code, 0);
  assert.equal(stdout, 'one stopped\ntwo stopped\n');
  const paths = api.calls.map((call) => call.path);
  assert.deepEqual(paths.slice(0, 2), ['/v1/workloads/one/stop', '/v1/workloads/two/stop']);
  const keys = new Set(api.calls.slice(0, 2).map((call) => call.idempotency_key));
  assert.equal(keys.size, 2);
});

test('an unknown name among several is said, and the others are done', async () => {
  api.script = [{ state: 'stopped' }];
  const { code, stdout, stderr } = await runCli(['stop', 'onne', 'two', '--json'], api);
  const document = JSON.parse(stdout);
  assert.equal(code, 4);
  assert.match(stderr, /did you mean one\?/);
  assert.deepEqual(
    document.items.map((item: { name: string }) => item.name),
    ['two'],
  );
  assert.equal(document.errors[0].code, 'not_found');
});

test('a stop that is not confirmed in time says so and exits 1', async () => {
  const { code, stdout, stderr } = await runCli(['stop', 'one', '--timeout', '1s'], api);
  assert.equal(code, 1);
  assert.equal(stdout, 'one stopping\n');
  assert.match(stderr, /recorded, and on its way: bin\/einsora events one -f/);
});

test('a machine that is not heard of is not waited for', async () => {
  api.script = [{ heard_of: false }];
  const { code, stderr } = await runCli(['stop', 'one'], api);
  assert.equal(code, 0);
  assert.match(stderr, /recorded; it happens when box1 is back/);
});

test('rm waits until it is deleted, or gone from sight', async () => {
  api.script = [{}, { state: 'deleted' }];
  const first = await runCli(['rm', 'one'], api);
  assert.deepEqual([first.code, first.stdout], [0, 'one deleted\n']);
  assert.match(first.stderr, /its history: bin\/einsora events w1 /);
  const second = await runCli(['rm', 'two'], { ...api, onSleep: () => api.workloads.delete('w2') });
  assert.deepEqual([second.code, second.stdout], [0, 'two deleted\n']);
});

test('start stays until it runs, prints the url and makes no key', async () => {
  Object.assign(api.workloads.get('w1') ?? {}, { state: 'stopped', intent: 'stopped' });
  api.script = [{ state: 'provisioning' }, { state: 'running' }];
  const { code, stdout } = await runCli(['start', 'one'], api);
  assert.equal(code, 0);
  assert.ok(stdout.startsWith(`url  ${api.url}/v1\n`));
  assert.equal(api.keys.size, 0);
});

test('a start while stopping waits through stopped for the new run', async () => {
  api.script = [{ state: 'stopping' }, { state: 'stopped' }, {}, { state: 'running' }];
  const { code, stdout } = await runCli(['start', 'one', '--json'], api);
  assert.equal(code, 0);
  assert.equal(JSON.parse(stdout).items[0].state, 'running');
});

test('a start that somebody else undoes ends with 1', async () => {
  api.script = [{ state: 'stopping', intent: 'stopped' }];
  const { code, stderr } = await runCli(['start', 'one'], api);
  assert.equal(code, 1);
  assert.match(stderr, /one was stopped meanwhile\./);
});

test('start --detach leaves at once', async () => {
  const { code, stderr } = await runCli(['start', 'one', '--detach'], api);
  assert.equal(code, 0);
  assert.match(stderr, /Detached: one goes on\./);
  assert.equal(api.calls.length, 1);
});
