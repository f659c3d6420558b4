/**
 * `einsora keys` and `einsora limits` against a real API.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { ask, createRig, type Rig } from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { runCli } from '../../test/lib/run-cli.ts';

let rig: Rig;
let served: RigServer;
beforeEach(async () => {
  rig = await createRig();
  served = await serveRig(rig);
  for (const name of ['chat', 'code']) {
    const body = { kind: 'endpoint', model: 'smollm2-135m', gpu_class: 'cpu-1c-2g', name };
    assert.equal((await ask(rig, 'POST', '/v1/workloads', { body })).status, 201);
  }
});
afterEach(async () => {
  await served.close();
  await rig.close();
});

const einsora = (...args: string[]) => runCli(args, { data_dir: served.data_dir });
const limited = ['--rpm', '60', '--tpm', '20000', '--concurrency', '4', '--expires', '30d'];

test('a key is made for several models, with limits, and printed alone', async () => {
  const made = await einsora('keys', 'create', '--model', 'chat', '--model', 'code', ...limited);
  assert.equal(made.code, 0, made.stderr);
  assert.match(made.stdout, /^ept_[0-9A-Za-z]+\n$/);
  assert.match(made.stderr, /It opens chat, code and nothing else/);
  assert.match(made.stderr, /60 requests\/min, 20000 tokens\/min, 4 at a time/);
  const listed = await einsora('keys', 'ls');
  assert.match(listed.stdout, /chat code/);
  assert.match(listed.stdout, /0 of 60 requests\/min, 0 of 20000 tokens\/min, 0 of 4 at a time/);
  const body = { models: ['chat', 'nothing'] };
  const none = await ask(rig, 'POST', '/v1/model-keys', { body });
  assert.equal(none.body.error?.message, 'There is no model nothing.');
  assert.equal((await keys()).length, 1, 'all of the models or none');
});

test('limits of a key are changed and lifted', async () => {
  await einsora('keys', 'create', '--model', 'chat', ...limited);
  const [key] = await keys();
  const id = key?.id ?? '';
  const changed = await einsora('keys', 'limit', id, '--rpm', '5', '--tpm', 'none');
  assert.match(changed.stderr, /from its next request on: 5 requests\/min, 4 at a time/);
  assert.deepEqual((await keys())[0]?.limits, { rpm: 5, tpm: null, concurrency: 4 });
  const nothing = await einsora('keys', 'limit', id);
  assert.equal(nothing.code, 2);
  assert.match(nothing.stderr, /no limit is given/);
  assert.notEqual((await einsora('keys', 'limit', 'other', '--rpm', '5')).code, 0);
});

test('users and models are limited by name, shown with what is used, and freed', async () => {
  assert.match((await einsora('limits', 'show')).stderr, /Nothing is limited/);
  const user = await einsora('limits', 'set', '--user', 'op', '--rpm', '600');
  assert.match(user.stderr, /user op from the next request on: 600 requests\/min/);
  await einsora('limits', 'set', '--model', 'chat', '--concurrency', '8');
  const shown = await einsora('limits', 'show');
  assert.match(shown.stdout, /user +op +0 of 600 requests\/min\nmodel +chat +0 of 8 at a time/);
  const json = JSON.parse((await einsora('limits', 'show', '--json')).stdout);
  assert.equal(json.items.length, 2);
  await einsora('limits', 'set', '--model', 'chat', '--concurrency', 'none');
  assert.doesNotMatch((await einsora('limits', 'show')).stdout, /chat/);
  const both = await einsora('limits', 'set', '--model', 'chat', '--user', 'op', '--rpm', '1');
  assert.match(both.stderr, /one of --user and --model/);
  const nobody = await einsora('limits', 'set', '--user', 'nobody', '--rpm', '1');
  assert.match(nobody.stderr, /There is no user nobody/);
});

type Listed = { id: string; limits: object };
async function keys(): Promise<Listed[]> {
  return JSON.parse((await einsora('keys', 'ls', '--json')).stdout).items;
}
