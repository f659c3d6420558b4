import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runCli } from '../test/lib/run-cli.ts';
import { exec } from './lib/exec.ts';

const data_dir = mkdtempSync(join(tmpdir(), 'einsora-main-'));
after(() => rmSync(data_dir, { recursive: true }));
const program = fileURLToPath(new URL('./main.ts', import.meta.url));

/** Runs the program as its own process. */
function run(args: string[], before: string[] = []) {
  return exec(process.execPath, [...before, program, ...args], { env: {}, timeout_ms: 20_000 });
}

/** Prints each module that is loaded on stderr. */
const loads =
  'data:text/javascript,import { registerHooks } from "node:module";' +
  'registerHooks({ load(url, context, next) {' +
  'process.stderr.write(url + "\\n"); return next(url, context); } });';

test('help and a listing load no schema and no other command', async () => {
  const help = await run(['--help'], ['--import', loads]);
  assert.equal(help.code, 0);
  assert.match(help.stdout, /^Usage: einsora/);
  assert.doesNotMatch(help.stderr, /zod|hono|pino|cli\/ls\.ts/);
  const listing = await run(['ls', '--data-dir', data_dir], ['--import', loads]);
  assert.equal(listing.code, 3);
  assert.match(listing.stderr, /cli\/ls\.ts/);
  assert.doesNotMatch(listing.stderr, /zod|hono|pino|cli\/launch\.ts/);
});

test('without a command the help is printed', async () => {
  const result = await run([]);
  assert.equal(result.code, 0);
  assert.match(result.stdout, /Commands:/);
});

test('a reader that goes away ends the program quietly', async () => {
  const line = `"$1" "$2" --help | head -n 0; echo "\${PIPESTATUS[0]}"`;
  const args = ['-c', line, 'bash', process.execPath, program];
  const result = await exec('bash', args, { env: { PATH: '/usr/bin:/bin' }, timeout_ms: 20_000 });
  assert.equal(result.stderr, '');
  assert.equal(result.stdout.trim(), '0');
});

test('usage errors exit 2, say what is wrong and suggest', async () => {
  const unknown = await runCli(['lss'], { data_dir });
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /unknown command 'lss'\n {2}fix: did you mean ls\?\n$/);
  for (const argv of [
    ['launch'],
    ['launch', 'endpoint'],
    ['launch', 'endpoint', 'm', '--parallel', '0'],
    ['launch', 'endpoint', 'm', '--accelerator', 'tpu'],
    ['launch', 'endpoint', 'm', '--timeout', 'soon'],
    ['logs', 'w', '--tail', '-1'],
    ['ls', '--jsn'],
    ['stop'],
    ['up', '--port', '70000'],
  ]) {
    assert.equal((await runCli(argv, { data_dir })).code, 2, argv.join(' '));
  }
});

test('a command line that cannot be read names the help of what was called', async () => {
  const line = async (...argv: string[]) => (await runCli(argv, { data_dir })).stderr;
  assert.equal(
    await line('launch', 'endpoint'),
    "error bad_request: missing required argument 'model'\n" +
      '  fix: bin/einsora launch endpoint --help\n',
  );
  assert.match(await line('ls', '--jsn'), /unknown option '--jsn'\n {2}fix: did you mean --json\?/);
  assert.match(
    await line('users', 'set-role', 'ada', 'king'),
    /viewer, member[\s\S]*set-role --help/,
  );
  const both = await line('tokens', 'create', 'ci', '--never', '--expires', '3d');
  assert.match(both, /not both\n {2}fix: bin\/einsora tokens create --help/);
});

test('--data-dir works before and after the name of the command', async () => {
  const before = await run(['--data-dir', data_dir, 'ls']);
  const behind = await run(['ls', '--data-dir', data_dir]);
  assert.ok(before.stderr.includes(`fix: bin/einsora up --data-dir ${data_dir}`));
  assert.equal(before.stderr, behind.stderr);
});

test('version says what runs', async () => {
  const { code, stdout } = await runCli(['version', '--json'], { data_dir });
  const document = JSON.parse(stdout);
  assert.equal(code, 0);
  assert.match(document.version, /^\d+\.\d+\.\d+/);
  assert.equal(document.control_plane, null);
});
