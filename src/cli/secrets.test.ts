/**
 * `einsora secrets` against a real API: set by a pipe or a prompt, listed, removed, never shown.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { createRig, type Rig } from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { runCli } from '../../test/lib/run-cli.ts';

let rig: Rig;
let served: RigServer;
beforeEach(async () => {
  rig = await createRig();
  served = await serveRig(rig);
});
afterEach(async () => {
  await served.close();
  await rig.close();
});

const value = 'hf_canaryOfTheCommandLine';
const stored = async (name: string) =>
  (await rig.apiDeps.secrets.reveal(rig.ids.tenant_id, name))?.reveal();

test('a value that is piped in is set without its last line break, and never printed', async () => {
  const { data_dir } = served;
  const { code, stdout, stderr } = await runCli(['secrets', 'set', 'hf-token'], {
    data_dir,
    input: `${value}\n`,
  });
  assert.deepEqual([code, stdout], [0, '']);
  assert.match(stderr, /hf-token is sealed/);
  assert.equal(stderr.includes(value), false);
  assert.equal(await stored('hf-token'), value);
  const list = await runCli(['secrets', 'ls'], { data_dir });
  assert.match(list.stdout, /^NAME +SET +BY\nhf-token .* op\n$/);
  const json = await runCli(['secrets', 'ls', '--json'], { data_dir });
  assert.equal(JSON.parse(json.stdout).items[0].name, 'hf-token');
  assert.equal((list.stdout + json.stdout).includes(value), false);
});

test('a value that is typed is not echoed, and backspace takes back', async () => {
  const { code, stdout, stderr } = await runCli(['secrets', 'set', 'hf-token'], {
    data_dir: served.data_dir,
    input: 'abcx\u007fd\r',
    tty: true,
  });
  assert.equal(code, 0);
  assert.equal(await stored('hf-token'), 'abcd');
  assert.equal(stdout, '');
  assert.doesNotMatch(stderr, /abc/);
});

test('Ctrl-C and an empty value change nothing', async () => {
  const { data_dir } = served;
  const left = await runCli(['secrets', 'set', 'a'], { data_dir, input: 'ab\u0003', tty: true });
  assert.equal(left.code, 130);
  const empty = await runCli(['secrets', 'set', 'a'], { data_dir, input: '\n' });
  assert.equal(empty.code, 2);
  assert.equal(await stored('a'), undefined);
});

test('rm removes it, and says so where there is none', async () => {
  const { data_dir } = served;
  await runCli(['secrets', 'set', 'a'], { data_dir, input: 'x' });
  assert.equal((await runCli(['secrets', 'rm', 'a'], { data_dir })).code, 0);
  const again = await runCli(['secrets', 'rm', 'a'], { data_dir });
  assert.equal(again.code, 4);
  assert.match(again.stderr, /There is no secret a\./);
  const none = await runCli(['secrets', 'ls'], { data_dir });
  assert.deepEqual([none.stdout, none.code], ['', 0]);
});
