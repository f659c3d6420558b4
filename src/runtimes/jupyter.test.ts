/**
 * JupyterLab's environment and command: pinned, without a secret in the argv, read-only.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../lib/clock.ts';
import { systemRandom } from '../lib/random.ts';
import { jupyterCommand } from './jupyter/command.ts';
import { jupyterPin } from './jupyter/pin.ts';
import { createJupyter } from './jupyter.ts';

test('every package of the environment is pinned with the hashes of its files', () => {
  const { requirements = '', version, builds } = jupyterPin({ version: '3.11.7' });
  const pins = requirements.split('\n').filter((line) => /^[a-z]/.test(line));
  assert.ok(pins.length > 80);
  for (const line of pins) assert.match(line, /^[a-z0-9-]+==\S+ (?:; .*)?\\$/);
  assert.match(version, /^4\.\d+\.\d+-py3\.11$/);
  assert.notEqual(jupyterPin({ version: '3.12.1' }).version, version);
  assert.match(builds.any?.sha256 ?? '', /^[0-9a-f]{64}$/);
});

test('it opens a Unix socket and no port, asks nobody for news, and takes its token elsewhere', () => {
  const { argv, own_env, env } = jupyterCommand(null, '/workspace');
  assert.deepEqual(argv.slice(3, 6), ['notebook', 'jupyter', 'lab']);
  assert.ok(argv.includes('--ServerApp.sock=/run/einsora/web.sock'));
  assert.ok(argv.includes('--ServerApp.sock_mode=0600'));
  assert.ok(argv.includes('--ConnectionFileMixin.transport=ipc'));
  assert.ok(!argv.some((word) => /token|--ServerApp\.(?:ip|port)=/i.test(word)));
  assert.equal(own_env.HOME, '/workspace');
  assert.equal(env.PATH, undefined, "an image's own PATH stays");
});

test("the machine's environment is shown read-only, and pip installs into the workspace", () => {
  const { env, mounts, argv } = jupyterCommand(
    {
      ...{ label: 'x', program: ['/py', '-m', 'jupyterlab'], path: '/opt/bin', env: { X: 'y' } },
      mounts: [{ source: '/a', target: '/opt/a', writable: false }],
    },
    '/workspace',
  );
  assert.deepEqual(argv.slice(3, 7), ['notebook', '/py', '-m', 'jupyterlab']);
  assert.match(env.PATH ?? '', /^\/workspace\/\.local\/bin:\/opt\/bin:/);
  assert.equal(env.PIP_USER, '1');
  assert.ok(mounts.every(({ writable }) => !writable));
});

test('without a Python nothing is installed, and it is said what is missing', async () => {
  const tools_folder = mkdtempSync(join(tmpdir(), 'einsora-jupyter-'));
  try {
    const jupyter = createJupyter({
      ...{ tools_folder, platform: 'linux-x64', env: { PATH: tools_folder } },
      ...{ clock: systemClock, random: systemRandom },
    });
    const found = await jupyter.install(() => {}, new AbortController().signal);
    assert.equal(found.ok, false);
    assert.equal(found.ok ? '' : found.code, 'environment_missing');
  } finally {
    rmSync(tools_folder, { recursive: true });
  }
});
