/**
 * Users, tenants, invitations, tokens and sessions from the command line, against a real API.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { addPerson, cookiesOf, join, said, signIn } from '../../test/lib/accounts-rig.ts';
import { now_ms } from '../../test/lib/fake-records.ts';
import { ask, createRig, type Rig } from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { type CliResult, runCli } from '../../test/lib/run-cli.ts';
import { checkToken } from '../core/token.ts';

let rig: Rig;
let served: RigServer;
beforeEach(async () => {
  rig = await createRig();
  rig.clock.stepWall(now_ms - rig.clock.now()); // both ends have the same time
  served = await serveRig(rig);
});
afterEach(async () => {
  await served.close();
  await rig.close();
});

let seed = 0;
const cli = (...argv: string[]): Promise<CliResult> => {
  seed += 1; // as another process has
  return runCli(argv, { data_dir: served.data_dir, seed });
};
const parsed = async (...argv: string[]) => JSON.parse((await cli(...argv, '--json')).stdout);
const cells = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => line.trim().split(/ {2,}/));

test('a tenant, its admin by an invitation, and who is there then', async () => {
  const made = await cli('tenants', 'create', 'lab', '--name', 'The lab');
  assert.match(made.stderr, /bin\/einsora invite --tenant lab --role tenant-admin --data-dir/);
  const invited = await cli(
    'invite',
    '--tenant',
    'lab',
    '--role',
    'tenant-admin',
    '--expires',
    '2d',
  );
  assert.match(invited.stdout, /^http:\/\/localhost:4600\/join#t=eat_\w{36}\n$/);
  assert.match(invited.stderr, /Makes one person tenant-admin of lab, for 2 days\./);
  const token = invited.stdout.trim().split('#t=')[1] ?? '';
  assert.equal(said(await join(rig, token, 'grace')), '201');
  const listed = cells((await cli('users', 'ls')).stdout);
  assert.deepEqual(listed[0], ['NAME', 'ROLE', 'TENANT', 'PASSWORD', 'LAST USED', 'STATE']);
  const grace = listed.find(([name]) => name === 'grace');
  assert.deepEqual(grace, ['grace', 'tenant-admin', 'lab', 'yes', 'never', 'active']);
  assert.equal((await parsed('users', 'ls', '--tenant', 'lab')).items.length, 1);
  const [open] = (await parsed('invite', 'ls')).items;
  assert.deepEqual([open.state, open.used_by], ['used', 'grace']);
  await cli('tenants', 'rename', 'lab', 'Lab & co');
  const tenants = cells((await cli('tenants', 'ls')).stdout);
  const lab = tenants.find(([slug]) => slug === 'lab');
  assert.deepEqual(lab?.slice(0, 3), ['lab', 'Lab & co', '1']);
  assert.match((await cli('tenants', 'disable', 'lab')).stderr, /nothing of its users/);
  assert.match((await cli('tenants', 'enable', 'lab')).stderr, /sign in again/);
  assert.equal((await cli('tenants', 'disable', 'local')).code, 5);
});

test('an invitation can be taken back', async () => {
  const made = await parsed('invite');
  assert.equal((await cli('invite', 'revoke', made.id)).code, 0);
  assert.equal((await parsed('invite', 'ls')).items[0].state, 'revoked');
  assert.equal((await cli('invite', 'revoke', 'none')).code, 4);
  assert.equal((await cli('invite', '--role', 'king')).code, 2);
});

test('users are shown, given roles, disabled, enabled and given a reset link', async () => {
  await addPerson(rig, 'grace');
  const shown = await cli('users', 'show', 'grace');
  assert.match(shown.stdout, /name +grace\nid +\w{26}\nrole +member\ntenant +local\npassword +set/);
  assert.match((await cli('users', 'set-role', 'grace', 'viewer')).stderr, /grace is viewer now/);
  assert.equal((await parsed('users', 'disable', 'grace')).disabled_at > 0, true);
  assert.equal((await parsed('users', 'enable', 'grace')).disabled_at, null);
  const reset = await cli('users', 'reset', 'grace');
  assert.match(reset.stdout, /^http:\/\/localhost:4600\/reset#t=eat_\w{36}\n$/);
  assert.match(reset.stderr, /once, for 24 hours/);
  const missing = await cli('users', 'show', 'nobody');
  assert.deepEqual([missing.code, missing.stdout], [4, '']);
});

test('a token is printed alone on stdout, listed without it, and revoked', async () => {
  const made = await cli('tokens', 'create', 'ci', '--scope', 'workloads:read,machines:read');
  const token = made.stdout.trim();
  assert.equal(checkToken('tsk_', token), true);
  assert.match(
    made.stderr,
    /^ci: workloads:read machines:read, at most as operator, for 90 days\. It is shown once/,
  );
  const listed = await cli('tokens', 'ls');
  assert.equal(listed.stdout.includes(token), false);
  const row = cells(listed.stdout).find(([, name]) => name === 'ci');
  assert.deepEqual(row?.slice(2, 6), [
    `…${token.slice(-4)}`,
    'operator',
    'workloads:read machines:read',
    'never',
  ]);
  assert.equal((await cli('tokens', 'revoke', row?.[0] ?? '')).code, 0);
  assert.equal(said(await ask(rig, 'GET', '/v1/me', { token })), '401 sign_in_required');
  assert.equal(
    cells((await cli('tokens', 'ls')).stdout).some(([, name]) => name === 'ci'),
    false,
  );
  assert.equal((await parsed('tokens', 'ls', '--all')).items.length, 2);
  const never = await parsed('tokens', 'create', 'robot', '--never', '--role', 'viewer');
  assert.deepEqual([never.expires_at, never.role], [null, 'viewer']);
  assert.equal((await cli('tokens', 'create', 'x', '--never', '--expires', '1d')).code, 2);
  assert.equal((await cli('tokens', 'create', 'x', '--scope', 'everything')).code, 2);
});

test('sessions are listed, also of others, and signed out', async () => {
  await addPerson(rig, 'grace');
  const cookie = cookiesOf(await signIn(rig, 'grace'));
  assert.match((await cli('sessions', 'ls')).stderr, /No browser is signed in/);
  const [one] = (await parsed('sessions', 'ls', '--user', 'grace')).items;
  assert.equal(one.user, 'grace');
  assert.equal((await cli('sessions', 'revoke')).code, 2);
  assert.equal((await parsed('sessions', 'revoke', '--all', '--user', 'grace')).revoked, 1);
  const me = await ask(rig, 'GET', '/v1/me', { token: null, headers: { cookie } });
  assert.equal(said(me), '401 sign_in_required');
  await signIn(rig, 'grace');
  const [again] = (await parsed('sessions', 'ls', '--user', 'grace')).items;
  assert.match((await cli('sessions', 'revoke', again.id)).stderr, /One browser is signed out/);
});
