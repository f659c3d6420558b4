/**
 * An endpoint in a real container, through the same API: on a machine that has Docker and none of
 * what the native driver needs.
 */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import type { Workload } from '../../src/contract/workloads.ts';
import { createEngine } from '../../src/drivers/docker/engine.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { findProgram } from '../../src/lib/which.ts';
import { llamaImage } from '../lib/docker-catalog.ts';
import { dockerCommand } from '../lib/docker-harness.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { docker_socket, needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';

const real = { ...needs('docker', 'debootstrap', 'llama'), timeout: 600_000 };
const docker = (...args: string[]) => dockerCommand(docker_socket, args);

test(
  'llama.cpp in a container answers exactly, is adopted, and comes back when it was killed',
  real,
  async () => {
    const image = await llamaImage(createEngine(docker_socket, systemClock));
    const data_dir = temporaryFolder();
    const env = { PATH: barePath(data_dir) };
    let program = await startProgram({ data_dir, env });
    try {
      const model = join(data_dir, 'm.gguf');
      const { sentence } = writeKnownAnswerModel(model);
      const words = ['launch', 'endpoint', model, '--name', 'ans', '--image', 'llama-cpp'];
      const launched = await program.cli(words);
      assert.equal(launched.code, 0, launched.stdout + launched.stderr);
      const first = await show(program);
      assert.equal(first.placement?.driver, 'docker');
      assert.match(JSON.stringify(first), new RegExp(image));
      assert.equal((await program.cli(['chat', 'ans', 'hi'])).stdout, `${sentence}\n`);
      const container = await containerOf(first.id);
      const told = await docker(
        'inspect',
        '-f',
        '{{.HostConfig.NetworkMode}} {{.Config.User}}',
        container,
      );
      assert.equal(told, 'none 1000:1000');

      await program.kill();
      program = await startProgram({ data_dir, env });
      assert.equal((await program.cli(['chat', 'ans', 'hi'])).stdout, `${sentence}\n`);
      assert.equal(await containerOf(first.id), container);

      await docker('kill', container);
      await until(
        async () => {
          const { state, placement } = await show(program);
          return state === 'running' && (placement?.run_epoch ?? 0) > 1;
        },
        60_000,
        () => program.said(),
      );
      assert.equal((await program.cli(['chat', 'ans', 'hi'])).stdout, `${sentence}\n`);
      assert.match((await program.cli(['logs', 'ans'])).stdout, /einsora: serving at/);
      assert.equal((await program.cli(['rm', 'ans'])).code, 0);
      assert.equal(await containerOf(first.id), '');
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

/** A PATH with a shell and the tools of networks, and neither bubblewrap nor Python. */
function barePath(data_dir: string): string {
  const folder = join(data_dir, 'bin');
  mkdirSync(folder);
  for (const name of ['sh', 'nft', 'ip', 'nsenter']) {
    const path = findProgram(name, process.env.PATH);
    if (path !== null) symlinkSync(path, join(folder, basename(path)));
  }
  return folder;
}

async function show(program: Program): Promise<Workload> {
  return (await program.api<Workload>('/v1/workloads/ans')).body;
}

function containerOf(workload_id: string): Promise<string> {
  return docker('ps', '-aq', '--filter', `label=dev.einsora.workload=${workload_id}`);
}
