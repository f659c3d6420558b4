/**
 * Completion in a real bash: commands, options, live names, in silence where there are none.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type FakeApi, openFakeApi } from '../../test/lib/fake-api.ts';
import { workload } from '../../test/lib/fake-records.ts';
import { exec } from '../lib/exec.ts';
import { shellWord } from './cli-error.ts';
import { filesOf } from './completion-names.ts';
import { packageEnv } from './config.ts';

const repository = join(import.meta.dirname, '../..');
let api: FakeApi;

before(async () => {
  api = await openFakeApi();
  for (const [id, name] of [
    ['w1', 'chat-one'],
    ['w2', 'chat-two'],
    ['w3', 'other'],
  ]) {
    const one = workload({ id: id ?? '', name: name ?? '' });
    api.workloads.set(one.id, one);
  }
});
after(() => api.close());

/** A machine that is busy must not decide about a test: names have all the time they need. */
const patient = { ...packageEnv(), EINSORA_COMPLETION_MS: '10000' };

async function bash(text: string, env: Record<string, string> = patient) {
  const options = { env, cwd: repository, timeout_ms: 60_000 };
  return exec('bash', ['--norc', '--noprofile', '-c', text], options);
}

/** What bash offers for the last word, by the script that a user loads. */
const offered = (...words: string[]) => offeredIn(patient, words);

async function offeredIn(env: Record<string, string>, words: string[]): Promise<string[]> {
  const all = ['einsora', ...words];
  const { stdout, stderr, code } = await bash(
    `
    source <(bin/einsora completion bash)
    COMP_WORDS=(${all.map(shellQuoted).join(' ')})
    COMP_CWORD=${all.length - 1}
    "$(complete -p einsora | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
    printf '%s\\n' "\${COMPREPLY[@]}"`,
    env,
  );
  assert.deepEqual([code, stderr], [0, '']);
  return stdout.split('\n').filter((line) => line !== '');
}

const shellQuoted = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;
const here = () => ['--data-dir', api.data_dir];

test('commands, and the commands below them', async () => {
  assert.deepEqual((await offered('mach')).sort(), ['machine', 'machines']);
  assert.deepEqual(await offered('machine', 'ref'), ['refresh']);
  assert.deepEqual(await offered('launch', 'no'), ['notebook']);
  assert.ok((await offered('')).length > 20);
  assert.equal((await offered('')).includes('complete'), false, 'what is hidden stays hidden');
});

test('options, and what they may be', async () => {
  assert.deepEqual(await offered('events', '--fol'), ['--follow']);
  assert.deepEqual(await offered('launch', 'endpoint', '--accelerator', 'n'), ['nvidia']);
  assert.deepEqual(await offered('launch', 'endpoint', '--class', 'cpu-8'), ['cpu-8c-32g']);
});

test('names of workloads that are there right now', async () => {
  assert.deepEqual(await offered('show', ...here(), 'chat'), ['chat-one', 'chat-two']);
  assert.deepEqual(await offered(...here(), 'stop', 'other', 'chat-t'), ['chat-two']);
});

test('where nothing serves there are no names, and not a word is said', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-none-'));
  assert.deepEqual(await offered('show', '--data-dir', folder, ''), []);
  rmSync(folder, { recursive: true, force: true });
});

test('a control plane that does not answer is not waited for', async () => {
  const { openSilent } = await import('../../test/lib/silent-server.ts');
  const silent = await openSilent();
  const folder = mkdtempSync(join(tmpdir(), 'einsora-silent-'));
  writeFileSync(
    join(folder, 'control-plane.json'),
    JSON.stringify({ ...silent, pid: process.pid }),
  );
  writeFileSync(join(folder, 'owner-token'), 'own_x\n', { mode: 0o600 });
  assert.deepEqual(await offeredIn(packageEnv(), ['show', '--data-dir', folder, '']), []);
  await silent.close();
  rmSync(folder, { recursive: true, force: true });
});

test('nothing that is typed is run', async () => {
  const mark = join(tmpdir(), `einsora-run-${process.pid}`);
  await offered('show', `$(touch ${mark})`, '`touch x`', "';touch x;'", '');
  const { code } = await bash(`test ! -e ${shellWord(mark)} && test ! -e x`);
  assert.equal(code, 0);
});

test('a path to a model is completed as one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-files-'));
  for (const name of ['a.gguf', 'b.txt', '$(x).gguf']) writeFileSync(join(folder, name), '');
  assert.deepEqual(filesOf('/', `${folder}/`), [`${folder}/a.gguf`]);
  assert.deepEqual(filesOf(folder, './'), ['./a.gguf']);
  assert.deepEqual(filesOf(folder, 'a'), [], 'a bare word is a name of the catalog');
  assert.deepEqual(await offered('launch', 'endpoint', `${folder}/a`), [`${folder}/a.gguf`]);
  rmSync(folder, { recursive: true, force: true });
});

test('zsh and fish get a script that calls this very program', async () => {
  for (const shell of ['zsh', 'fish']) {
    const { stdout } = await bash(`bin/einsora completion ${shell}`);
    assert.ok(stdout.includes(`${join(repository, 'bin/einsora')} complete -- `), shell);
    const which = await bash(`command -v ${shell}`);
    if (which.code !== 0) continue;
    const checked = await bash(`bin/einsora completion ${shell} | ${shell} -n /dev/stdin`);
    assert.equal(checked.code, 0, checked.stderr);
  }
  const { code } = await bash('bin/einsora completion csh');
  assert.equal(code, 2);
});
