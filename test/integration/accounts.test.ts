/**
 * People at the real program: invited, signed in by the command line, cut off at once, and still
 * known after a kill.
 */
import assert from 'node:assert/strict';
import { get } from 'node:http';
import { after, before, test } from 'node:test';
import { exec } from '../../src/lib/exec.ts';
import { cleanUp, mainFile, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const password = 'a long enough word';
let program: Program;
let home: string;

before(async () => {
  home = temporaryFolder();
  program = await startProgram({ data_dir: temporaryFolder(), until_ready: false });
});
after(() => cleanUp(program.data_dir, program));

/** The command line of somebody who has no access to the data folder. */
function away(argv: string[], input = '') {
  const env = { PATH: process.env.PATH ?? '', HOME: home };
  const args = ['--disable-warning=ExperimentalWarning', mainFile, ...argv];
  return exec(process.execPath, args, { env, input, timeout_ms: 60_000 });
}

test('an invited person works from elsewhere, and is known after a kill', {
  timeout: 120_000,
}, async () => {
  const invited = await program.cli(['invite', '--json']);
  const { url } = JSON.parse(invited.stdout) as { url: string };
  const login = ['login', '--invite', '--name', 'grace', '--password-stdin', '--json'];
  const joined = await away(login, `${url}\n${password}\n`);
  assert.equal(joined.code, 0, joined.stderr);
  assert.deepEqual(JSON.parse(joined.stdout).role, 'member');
  const spent = await away(login, `${url}\n${password}\n`);
  assert.equal(spent.code, 5, 'the invitation is spent');
  const before = await away(['context', 'show', '--json']);
  await program.kill();
  const { port } = new URL(program.url);
  program = await startProgram({
    data_dir: program.data_dir,
    args: ['--port', port],
    until_ready: false,
  });
  assert.equal((await away(['context', 'show', '--json'])).stdout, before.stdout);
  const again = await away(
    ['login', '--url', program.url, '--name', 'grace', '--password-stdin'],
    `${password}\n`,
  );
  assert.equal(again.code, 0, again.stderr);
});

test('a held stream ends within a second when its token is revoked', {
  timeout: 60_000,
}, async () => {
  const made = await program.api<{ id: string; token: string }>('/v1/tokens', {
    method: 'POST',
    body: { name: 'stream', scopes: ['workloads:read'] },
  });
  const { status, ended } = await hold('/v1/events', made.body.token);
  assert.equal(status, 200);
  const began = performance.now();
  await program.api(`/v1/tokens/${made.body.id}`, { method: 'DELETE' });
  await ended;
  assert.ok(performance.now() - began < 1000);
  assert.equal((await hold('/v1/events', made.body.token)).status, 401);
});

function hold(path: string, token: string): Promise<{ status: number; ended: Promise<void> }> {
  const headers = { authorization: `Bearer ${token}` };
  return new Promise((resolve, reject) => {
    const asked = get(`${program.url}${path}`, { headers, agent: false }, (answer) => {
      const ended = new Promise<void>((done) => answer.once('close', () => done()));
      answer.on('error', () => {});
      answer.resume();
      resolve({ status: answer.statusCode ?? 0, ended });
    });
    asked.on('error', reject);
  });
}
