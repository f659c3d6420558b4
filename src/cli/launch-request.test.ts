/**
 * What a launch sends, from options and files.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CliError } from './cli-error.ts';
import { launchRequest, type RequestOptions, shownRequest } from './launch-request.ts';

const folder = mkdtempSync(join(tmpdir(), 'einsora-request-'));
after(() => rmSync(folder, { recursive: true }));

const sent = (options: RequestOptions, command: string[] = []) =>
  launchRequest(folder, 'instance', { command }, options);

test('nothing that was not asked for is sent', () => {
  assert.deepEqual(sent({}), { kind: 'instance' });
  assert.deepEqual(launchRequest(folder, 'notebook', {}, { name: 'lab' }), {
    kind: 'notebook',
    name: 'lab',
  });
});

test('options become the fields of the request', () => {
  writeFileSync(join(folder, 'id.pub'), 'ssh-ed25519 AAAA me\n');
  const options = { image: 'debian', cpu: 1.5, disk: 2 ** 30, idle: 7_200_000, sshKey: ['id.pub'] };
  assert.deepEqual(sent(options, ['sh', '-c', 'x']), {
    ...{ kind: 'instance', image_id: 'debian', cpu_millis: 1500, disk_bytes: 2 ** 30 },
    ...{ idle_policy: { after_ms: 7_200_000 }, ssh_public_key: 'ssh-ed25519 AAAA me' },
    command: ['sh', '-c', 'x'],
  });
});

test('variables come from files and options, the options last, and may be secrets', () => {
  writeFileSync(
    join(folder, 'env'),
    '# a comment\n\nA=from the file\nB=x=y\r\nC=secret:hf-token\n',
  );
  const { env } = sent({ envFile: ['env'], env: ['A=given', 'EMPTY='] });
  assert.deepEqual(env, { A: 'given', B: 'x=y', C: { secret: 'hf-token' }, EMPTY: '' });
  const shown = shownRequest(sent({ env: ['A=given', 'C=secret:hf'] }));
  assert.deepEqual(shown.env, { A: 'REDACTED', C: { secret: 'hf' } });
});

test('what is malformed is refused without repeating it', () => {
  for (const options of [{ env: ['pass-word'] }, { env: ['1A=b'] }, { envFile: ['missing'] }]) {
    assert.throws(
      () => sent(options),
      (error) => error instanceof CliError && !error.message.includes('pass-word'),
    );
  }
});

test('GPUs are asked for by class, by number, and to be shared', () => {
  assert.deepEqual(sent({ class: 'l40s-48gb', gpus: 2 }), {
    ...{ kind: 'instance', gpu_class: 'l40s-48gb', gpu_count: 2 },
  });
  assert.deepEqual(sent({ gpuClass: 'l40s-48gb', shareGpu: true }), {
    ...{ kind: 'instance', gpu_class: 'l40s-48gb', share_device: true },
  });
  assert.throws(() => sent({ class: 'a', gpuClass: 'b' }), CliError);
});
