/**
 * Signing in from the command line against a real API: by invitation, by password, by context.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { addPerson, invite, logIn, password, said } from '../../test/lib/accounts-rig.ts';
import { now_ms } from '../../test/lib/fake-records.ts';
import { ask, createRig, type Rig } from '../../test/lib/rig.ts';
import { type RigServer, serveRig } from '../../test/lib/rig-server.ts';
import { type CliOptions, type CliResult, runCli } from '../../test/lib/run-cli.ts';

let rig: Rig;
let served: RigServer;
let home: string;
beforeEach(async () => {
  rig = await createRig();
  rig.clock.stepWall(now_ms - rig.clock.now()); // both ends have the same time
  served = await serveRig(rig);
  home = mkdtempSync(join(tmpdir(), 'einsora-home-'));
});
afterEach(async () => {
  await served.close();
  await rig.close();
  rmSync(home, { recursive: true, force: true });
});

/** Elsewhere than at the control plane: nothing names its data folder. */
function away(argv: string[], more: Partial<CliOptions> = {}): Promise<CliResult> {
  const env = { TERM: 'xterm', XDG_CONFIG_HOME: home, XDG_DATA_HOME: home, ...more.env };
  return runCli(argv, { data_dir: served.data_dir, unnamed: true, ...more, env });
}

const stored = () => JSON.parse(readFileSync(join(home, 'einsora', 'contexts.json'), 'utf8'));
const login = (name: string, more: string[] = [], input = `${password}\n`) =>
  away(['login', '--url', served.url, '--name', name, '--password-stdin', ...more], { input });

test('a password from stdin signs in; the token is the file of this user alone', async () => {
  await addPerson(rig, 'grace');
  const { code, stdout, stderr } = await login('grace');
  assert.deepEqual([code, stdout], [0, '']);
  assert.match(stderr, /Signed in to http:\/\/127\.0\.0\.1:\d+ as grace \(member of local\)/);
  const path = join(home, 'einsora', 'contexts.json');
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(statSync(join(home, 'einsora')).mode & 0o777, 0o700);
  const { current, contexts } = stored();
  assert.equal(contexts[current].user, 'grace');
  assert.equal(readFileSync(path, 'utf8').includes(password), false);
  assert.equal(stderr.includes(contexts[current].token), false);
  const list = await away(['ls', '--json']);
  assert.deepEqual([list.code, JSON.parse(list.stdout)], [0, { items: [] }]);
  const shown = await away(['context', 'show']);
  assert.match(shown.stdout, /user +grace\nrole +member\ntenant +local/);
});

test('an invitation is typed unseen, with a new password twice', async () => {
  const link = `${served.url}/join#t=${await invite(rig, { role: 'viewer' })}`;
  const typed = `${link}\rgrace\r${password}\r${password}\r`;
  const { code, stdout, stderr } = await away(['login', '--invite'], { tty: true, input: typed });
  assert.deepEqual([code, stdout], [0, ''], stderr);
  assert.match(stderr, /User name: grace\n/, 'what may be seen is');
  assert.match(stderr, /Welcome, grace\.\nSigned in .* as grace \(viewer of local\)/);
  assert.equal(stderr.includes('eat_') || stderr.includes(password), false);
  const again = await away(['login', '--invite', '--name', 'linus', '--password-stdin'], {
    input: `${link}\n${password}\n`,
  });
  assert.equal(again.code, 5);
  assert.match(again.stderr, /error invitation_spent/);
});

test('two passwords that differ, a wrong one and no terminal say so, and change nothing', async () => {
  await addPerson(rig, 'grace');
  const link = `${served.url}/join#t=${await invite(rig)}`;
  const differing = await away(['login', '--invite'], {
    tty: true,
    input: `${link}\rlinus\r${password}\r${password}x\r`,
  });
  assert.equal(differing.code, 2);
  assert.match(differing.stderr, /not the same/);
  const wrong = await login('grace', [], 'a wrong password\n');
  assert.deepEqual([wrong.code, /error sign_in_wrong/.test(wrong.stderr)], [5, true]);
  const silent = await away(['login', '--url', served.url, '--name', 'grace'], { input: '' });
  assert.deepEqual([silent.code, /--password-stdin/.test(silent.stderr)], [2, true]);
  const nowhere = await away(['login', '--name', 'grace', '--password-stdin'], { input: 'x\n' });
  assert.deepEqual([nowhere.code, /give --url/.test(nowhere.stderr)], [2, true]);
  const nobody = await away(['ls']);
  assert.equal(nobody.code, 3, 'nothing was signed in to');
});

test('an address in the clear, or with a password in it, is never spoken to', async () => {
  for (const url of ['http://einsora.example', 'http://a:b@localhost:1', 'ftp://localhost', 'x']) {
    const { code } = await away(['login', '--url', url, '--name', 'a', '--password-stdin'], {
      input: 'x\n',
    });
    assert.equal(code, 2, url);
  }
  const bare = await away(['login', '--url', 'localhost:4600']);
  assert.match(bare.stderr, /localhost:4600 is no address: give one such as http:/);
  const far = await away(['login', '--url', 'http://lab.example:4700']);
  assert.match(
    far.stderr,
    /fix: ssh -L 4700:localhost:4700 lab\.example, then: bin\/einsora login/,
  );
});

test('a named data folder wins over contexts; --context and its variable choose', async () => {
  await addPerson(rig, 'grace');
  await login('grace', ['--context', 'lab']);
  await addPerson(rig, 'linus');
  await login('linus', ['--context', 'second']);
  const who = async (argv: string[], more: Partial<CliOptions> = {}) => {
    const { code, stdout } = await away(['context', 'show', '--json', ...argv], more);
    return code === 0 ? JSON.parse(stdout).name : `exit ${code}`;
  };
  assert.equal(await who([]), 'linus', 'the last login is current');
  assert.equal(await who(['--context', 'lab']), 'grace');
  assert.equal(await who([], { env: { EINSORA_CONTEXT: 'lab' } }), 'grace');
  assert.equal(
    await who(['--context', 'lab'], { unnamed: false }),
    'op',
    'the owner of the folder',
  );
  assert.equal(await who([], { env: { EINSORA_DATA_DIR: served.data_dir } }), 'op');
  const both = { EINSORA_DATA_DIR: served.data_dir, EINSORA_CONTEXT: 'lab' };
  assert.equal(await who([], { env: both }), 'op');
  assert.equal(await who(['--context', 'second'], { env: both }), 'linus');
  assert.equal(await who(['--context', 'local'], { env: both }), 'op');
  assert.equal(await who(['--context', 'none']), 'exit 4');
  await away(['context', 'use', 'lab']);
  assert.equal(await who([]), 'grace');
  const list = await away(['context', 'ls']);
  assert.match(list.stdout, /\n\* +lab +http\S+ +grace +local +for 90 days\n/);
  assert.match(list.stdout, /\n- +local +not serving/);
  await away(['context', 'use', 'local']);
  assert.equal(await who([]), 'exit 3');
  const removed = await away(['context', 'rm', 'lab']);
  assert.match(removed.stderr, /works until it ends or is revoked/);
  assert.deepEqual(Object.keys(stored().contexts), ['second']);
});

test('logging out revokes the token; signing in anew revokes the one before', async () => {
  const grace = await addPerson(rig, 'grace');
  await login('grace', ['--context', 'lab']);
  const first: string = stored().contexts.lab.token;
  await login('grace', ['--context', 'lab']);
  const second: string = stored().contexts.lab.token;
  assert.equal(said(await ask(rig, 'GET', '/v1/me', { token: first })), '401 sign_in_required');
  const out = await away(['logout']);
  assert.deepEqual([out.code, stored()], [0, { current: null, contexts: {} }]);
  assert.equal(said(await ask(rig, 'GET', '/v1/me', { token: second })), '401 sign_in_required');
  assert.equal(said(await ask(rig, 'GET', '/v1/me', { token: grace.token })), '200');
  const none = await away(['logout']);
  assert.deepEqual([none.code, /data folder/.test(none.stderr)], [2, true]);
});

test('guessers of a name do not slow the command line that signed in before', async () => {
  await addPerson(rig, 'grace');
  assert.equal((await login('grace', ['--context', 'lab'])).code, 0);
  for (let tries = 0; tries < 8; tries += 1) await logIn(rig, 'grace', 'a wrong password');
  const stranger = await login('grace', ['--context', 'other']);
  assert.deepEqual([stranger.code, /sign_in_slow/.test(stranger.stderr)], [5, true]);
  const again = await login('grace', ['--context', 'lab']);
  assert.equal(again.code, 0, again.stderr);
});

test('a context whose token ended says how to sign in there again', async () => {
  await addPerson(rig, 'grace');
  await login('grace', ['--context', 'lab']);
  await ask(rig, 'POST', '/v1/users/grace/disable');
  const { code, stderr } = await away(['ls']);
  assert.equal(code, 5);
  assert.match(stderr, /fix: bin\/einsora login --url http:\/\/127\.0\.0\.1:\d+ --context lab/);
  const out = await away(['logout']);
  assert.equal(out.code, 0, 'and can be forgotten');
});

test('contexts that others can read, or that are damaged, are not used', async () => {
  await addPerson(rig, 'grace');
  await login('grace');
  const path = join(home, 'einsora', 'contexts.json');
  chmodSync(path, 0o644);
  const exposed = await away(['ls']);
  assert.deepEqual([exposed.code, /chmod 600/.test(exposed.stderr)], [5, true]);
  chmodSync(path, 0o600);
  writeFileSync(path, '{ not json');
  const damaged = await away(['ls']);
  assert.deepEqual([damaged.code, /is damaged/.test(damaged.stderr)], [1, true]);
});

test('passwd sets a first password, and then wants the current one', async () => {
  const { data_dir } = served;
  const set = (input: string) => runCli(['passwd', '--password-stdin'], { data_dir, input });
  assert.equal((await set(`${password}\n`)).code, 0);
  assert.equal(said(await logIn(rig, 'op')), '201');
  const missing = await set('another long word\n');
  assert.deepEqual([missing.code, /2 are wanted/.test(missing.stderr)], [2, true]);
  assert.equal((await set('a wrong word\nanother long word\n')).code, 5);
  assert.equal((await set(`${password}\nanother long word\n`)).code, 0);
  const typed = `another long word\r${password}\r${password}\r`;
  const asked = await runCli(['passwd'], { data_dir, tty: true, input: typed });
  assert.equal(asked.code, 0, asked.stderr);
  assert.equal(said(await logIn(rig, 'op')), '201');
});
