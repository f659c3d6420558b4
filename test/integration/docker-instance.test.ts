/**
 * An instance in a real container, the whole way: launched, worked in, adopted, stopped, started,
 * removed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Workload } from '../../src/contract/workloads.ts';
import { createEngine } from '../../src/drivers/docker/engine.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { type ExecResult, exec } from '../../src/lib/exec.ts';
import { debianImage } from '../lib/docker-catalog.ts';
import { dockerCommand } from '../lib/docker-harness.ts';
import { docker_socket, needs } from '../lib/parts.ts';
import { cleanUp, mainFile, type Program, startProgram, temporaryFolder } from '../lib/program.ts';
import { openTerminal } from '../lib/terminal-page.ts';

const real = { ...needs('docker', 'debootstrap', 'nft'), timeout: 600_000 };
const env = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/' };
const docker = (...args: string[]) => dockerCommand(docker_socket, args);

test(
  'an instance: programs in it, ten megabytes out of it, files that stay, an end that is one',
  real,
  async () => {
    const image = await debianImage(createEngine(docker_socket, systemClock));
    const data_dir = temporaryFolder();
    let program = await startProgram({ data_dir });
    let id = '';
    try {
      const launched = await program.cli(['launch', 'instance', '--name', 'box', '--image', image]);
      assert.equal(launched.code, 0, launched.stdout + launched.stderr);
      ({ id } = await show(program));
      const container = await containerOf(id);
      assert.match(
        await docker('inspect', '-f', '{{.HostConfig.NetworkMode}}', container),
        /^einsora-/,
      );

      const script = 'echo kept > mine; id -u; pwd; cat /etc/debian_version';
      const said = await inBox(data_dir, 'sh', '-c', script);
      assert.equal(said.code, 0, said.stderr);
      assert.match(said.stdout, /^0\n\/workspace\n12\./);
      const failed = await inBox(data_dir, 'sh', '-c', 'exit 7');
      assert.equal(failed.code, 7);
      assert.equal(await bytesOf(data_dir, 'head -c 10000000 /dev/zero'), 10_000_000);

      // Killed, and begun anew: the same container goes on.
      await program.kill();
      program = await startProgram({ data_dir });
      assert.equal(await containerOf(id), container);
      assert.equal((await show(program)).state, 'running');

      assert.equal((await program.cli(['stop', 'box'])).code, 0);
      assert.equal(await containerOf(id), '');
      assert.equal((await program.cli(['start', 'box'])).code, 0);
      const kept = await inBox(data_dir, 'cat', 'mine');
      assert.equal(kept.stdout, 'kept\n', kept.stderr);

      assert.equal((await program.cli(['rm', 'box'])).code, 0);
      assert.equal(await containerOf(id), '');
      assert.equal(await docker('volume', 'ls', '-q', '--filter', `name=ein-${id}`), '');
    } finally {
      await cleanUp(data_dir, program);
      await removeAll(id);
    }
  },
);

test('the terminal of an instance in a browser: typed into, ten megabytes, cut by a stop', {
  ...needs('docker', 'debootstrap', 'nft', 'chromium'),
  timeout: 600_000,
}, async () => {
  const image = await debianImage(createEngine(docker_socket, systemClock));
  const data_dir = temporaryFolder();
  const program = await startProgram({ data_dir });
  let id = '';
  try {
    const launched = await program.cli(['launch', 'instance', '--name', 'box', '--image', image]);
    assert.equal(launched.code, 0, launched.stdout + launched.stderr);
    ({ id } = await show(program));
    const { browser, page, shows } = await openTerminal(program, id);
    try {
      await page.locator('.xterm-helper-textarea').waitFor({ timeout: 20_000 });
      await shows(/[$#]/);
      await page.keyboard.type('cat /etc/debian_version; pwd; echo it-$((40+2))\n');
      await shows(/12\.\d+.*\/workspace.*it-42/s);
      await page.keyboard.type('clear; yes flooding | head -c 10000000; echo flood-$((6*7))\n');
      await shows(/flood-42/);
      const stopped = program.cli(['stop', 'box']);
      await page
        .getByText(/was stopped|ended/)
        .first()
        .waitFor({ timeout: 60_000 });
      assert.equal((await stopped).code, 0);
    } finally {
      await browser.close();
    }
  } finally {
    await cleanUp(data_dir, program);
    await removeAll(id);
  }
});

test(
  'a container that is removed by hand, and an image that ends at once, are said to the user',
  real,
  async () => {
    const image = await debianImage(createEngine(docker_socket, systemClock));
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir });
    let id = '';
    try {
      const words = ['launch', 'instance', '--name', 'box', '--image', image];
      assert.equal((await program.cli(words)).code, 0);
      ({ id } = await show(program));
      await docker('rm', '-f', await containerOf(id));
      const again = async () => {
        const workload = await show(program);
        const epoch = workload.placement?.run_epoch ?? 0;
        return workload.state === 'running' && epoch > 1;
      };
      for (let tries = 0; !(await again()) && tries < 300; tries += 1) await systemClock.sleep(200);
      assert.ok(await again(), 'it was not brought up again');
      assert.notEqual(await containerOf(id), '');
      assert.equal((await program.cli(['rm', 'box'])).code, 0);
      await commandLine(
        data_dir,
        ['launch', 'instance', '--name', 'brief', '--image', image],
        ['true'],
      );
      const { body } = await program.api<Workload>('/v1/workloads/brief');
      assert.match(JSON.stringify(body.reason), /instance_exited/);
      await program.cli(['rm', 'brief']);
    } finally {
      await cleanUp(data_dir, program);
      await removeAll(id);
    }
  },
);

async function show(program: Program): Promise<Workload> {
  const { status, body } = await program.api<Workload>('/v1/workloads/box');
  assert.equal(status, 200);
  return body;
}

/** The id of a workload's container; empty where it has none. */
function containerOf(workload_id: string): Promise<string> {
  return docker('ps', '-aq', '--filter', `label=dev.einsora.workload=${workload_id}`);
}

function inBox(data_dir: string, ...argv: string[]): Promise<ExecResult> {
  return commandLine(data_dir, ['exec', 'box'], argv);
}

/** With words of the workload's own behind a `--`. */
function commandLine(data_dir: string, words: string[], argv: string[]): Promise<ExecResult> {
  const args = [mainFile, ...words, '--data-dir', data_dir, '--', ...argv];
  return exec(process.execPath, args, { env, timeout_ms: 120_000 });
}

/** How much the command line writes, through a pipe of its own. */
async function bytesOf(data_dir: string, script: string): Promise<number> {
  const words = [process.execPath, mainFile, 'exec', 'box', '--data-dir', data_dir, '--'];
  const line = `"$@" | wc -c`;
  const args = ['-c', line, 'sh', ...words, 'sh', '-c', script];
  const done = await exec('sh', args, { env, timeout_ms: 120_000 });
  return Number(done.stdout.trim());
}

async function removeAll(workload_id: string): Promise<void> {
  if (workload_id === '') return;
  const container = await containerOf(workload_id);
  if (container !== '') await docker('rm', '-f', ...container.split('\n'));
  await docker('volume', 'rm', '-f', `ein-${workload_id}`);
}
