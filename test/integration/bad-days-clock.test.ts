/**
 * Somebody sets the machine's clock while the program runs: an hour, a year and more, both ways.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { keeperOf } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';
import { settableClock } from '../lib/settable-clock.ts';

const hour_ms = 3600_000;
const steps = [-hour_ms, hour_ms, 400 * 24 * hour_ms, -400 * 24 * hour_ms, 0];

test(
  'the clock is set back and forth: what runs runs on, and the timeline never goes back',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const model = join(data_dir, 'known.gguf');
    writeKnownAnswerModel(model);
    const clock = settableClock(data_dir);
    let program = await startProgram({ data_dir, env: clock.env });
    try {
      const steady = await launch(program, 'steady', model);
      const keeper = keeperOf(data_dir, `${steady.id}.0.1`);
      for (const [index, step] of steps.entries()) {
        clock.set(step);
        await checkRound(program, `w-${index}`, model);
        const still = await show(program, 'steady');
        assert.equal(still.state, 'running', `after ${step} ms`);
        assert.equal(still.heard_of, true, `after ${step} ms`);
        assert.equal(keeperOf(data_dir, `${steady.id}.0.1`), keeper);
        await program.kill(); // and a restart under the clock as it now is
        program = await startProgram({ data_dir, env: clock.env });
        assert.equal((await show(program, 'steady')).restarts, 0);
      }
      await checkTimeline(program, 'steady');
    } finally {
      clock.set(0);
      await cleanUp(data_dir, program);
    }
  },
);

/** A launch, a stop, a start and a removal under a clock that was just set. */
async function checkRound(program: Program, name: string, model: string): Promise<void> {
  await launch(program, name, model);
  await program.api(`/v1/workloads/${name}/stop`, { method: 'POST' });
  await untilState(program, name, 'stopped');
  await program.api(`/v1/workloads/${name}/start`, { method: 'POST' });
  await untilState(program, name, 'running');
  await checkTimeline(program, name);
  const { id } = await show(program, name);
  await program.api(`/v1/workloads/${name}`, { method: 'DELETE' });
  await untilState(program, id, 'deleted');
}

async function launch(program: Program, name: string, model: string): Promise<Workload> {
  const body = { kind: 'endpoint', name, model, gpu_class: 'cpu-1c-2g' };
  const { status, body: made } = await program.api<Workload>('/v1/workloads', { body });
  assert.equal(status, 201, JSON.stringify(made));
  await untilState(program, name, 'running');
  return made;
}

async function show(program: Program, name: string): Promise<Workload> {
  return (await program.api<Workload>(`/v1/workloads/${name}`)).body;
}

async function untilState(program: Program, name: string, state: string): Promise<void> {
  let seen: Workload | null = null;
  await until(
    async () => {
      seen = await show(program, name);
      return seen.state === state;
    },
    20_000,
    () => `${name} is not ${state}: ${JSON.stringify(seen)}`,
  );
}

async function checkTimeline(program: Program, name: string): Promise<void> {
  const path = `/v1/workloads/${name}/events?limit=200`;
  const { body } = await program.api<{ items: WorkloadEvent[] }>(path);
  const times = body.items.map(({ at }) => at);
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );
}
