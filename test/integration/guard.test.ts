/**
 * The owner of a machine presses pause: a real engine stands still, is not taken for hung, stays so
 * over a kill of the program, and goes on where it was.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { enginesOf } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';

const real = needs('llama', 'bwrap', 'cgroup');

test(
  'a paused endpoint stands still, over a kill of the program, and goes on where it was',
  real,
  async () => {
    const data_dir = temporaryFolder();
    let program = await startProgram({ data_dir });
    try {
      const { id, sentence } = await launchKnown(program, 'known');
      assert.equal((await program.cli(['pause', '--all'])).code, 0);
      await untilNoted(program, 'run_paused');
      const engine = enginesOf(data_dir, id)[0] ?? 0;
      const burnt = ticksOf(engine);
      const began = performance.now();
      const refused = await program.cli(['chat', 'known', 'Who?']);
      assert.notEqual(refused.code, 0);
      assert.ok(performance.now() - began < 30_000, 'nobody waits for what stands still');
      assert.equal(ticksOf(engine), burnt, 'it executes nothing');
      const paused = await show(program, 'known');
      assert.equal(paused.state, 'running');
      assert.match(paused.held_back ?? '', /stands still/);

      await launch(program, 'waiting');
      await until(
        async () => (await show(program, 'waiting')).reason?.code === 'machine_low',
        30_000,
        () => 'a new one does not wait',
      );

      await program.kill();
      program = await startProgram({ data_dir });
      assert.equal((await show(program, 'known')).state, 'running');
      assert.equal(ticksOf(engine), burnt, 'it still stands still');
      assert.equal((await program.cli(['resume'])).code, 0);
      await untilNoted(program, 'run_resumed');
      await until(
        async () => (await program.cli(['chat', 'known', 'Who?'])).stdout === `${sentence}\n`,
        60_000,
        () => 'it does not answer again',
      );
      assert.deepEqual(enginesOf(data_dir, id), [engine], 'the very same engine');
      await until(
        async () => (await show(program, 'waiting')).state === 'running',
        60_000,
        () => 'the one that waited does not run',
      );
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

async function launchKnown(program: Program, name: string) {
  const { id, sentence } = await launch(program, name);
  await until(
    async () => (await show(program, name)).state === 'running',
    30_000,
    () => 'it does not run',
  );
  return { id, sentence };
}

async function launch(program: Program, name: string) {
  const model = join(program.data_dir, 'known.gguf');
  const { sentence } = writeKnownAnswerModel(model);
  const body = { kind: 'endpoint', name, model, gpu_class: 'cpu-1c-2g' };
  const launched = await program.api<Workload>('/v1/workloads', { body });
  assert.equal(launched.status, 201, JSON.stringify(launched.body));
  return { id: launched.body.id, sentence };
}

async function show(program: Program, name: string): Promise<Workload> {
  return (await program.api<Workload>(`/v1/workloads/${name}`)).body;
}

function untilNoted(program: Program, code: string): Promise<void> {
  return until(
    async () => {
      const path = '/v1/workloads/known/events';
      const { body } = await program.api<{ items: WorkloadEvent[] }>(path);
      return body.items.some((event) => event.code === code);
    },
    60_000,
    () => `there is no ${code}`,
  );
}

/** CPU time that a process has used, in the kernel's ticks. */
function ticksOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}
