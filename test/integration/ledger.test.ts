/**
 * What the real program counts of an endpoint that ran while the clock was set, while the program
 * was killed and away, and what it counts of one that ended meanwhile.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { UsagePage } from '../../src/contract/usage.ts';
import type { Workload } from '../../src/contract/workloads.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { killRun, runProcesses } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';
import { settableClock } from '../lib/settable-clock.ts';

const hour_ms = 3600_000;
/** What a machine with other things to do may take from one poll of a test to the next. */
const slack_ms = 1500;

test(
  'usage is what ran, whatever was done to the clock and the program',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const model = join(data_dir, 'known.gguf');
    writeKnownAnswerModel(model);
    const clock = settableClock(data_dir);
    let program = await startProgram({ data_dir, env: clock.env });
    try {
      const body = { kind: 'endpoint', name: 'chat', model, gpu_class: 'cpu-1c-2g' };
      const { body: made } = await program.api<Workload>('/v1/workloads', { body });
      const began = await whenState(program, 'running');

      for (const step of [400 * 24 * hour_ms, -400 * 24 * hour_ms, -hour_ms, 0]) {
        clock.set(step);
        await systemClock.sleep(400);
        assertNear(await meteredOf(program), systemClock.monotonic() - began, `after ${step} ms`);
      }

      await program.kill();
      await systemClock.sleep(2000);
      program = await startProgram({ data_dir, env: clock.env });
      await whenState(program, 'running');
      await program.api('/v1/workloads/chat/stop', { method: 'POST' });
      const ran = systemClock.monotonic() - began;
      await whenState(program, 'stopped');
      const metered = await meteredOf(program);
      assertNear(metered, ran, 'with the time that the program was away');
      await systemClock.sleep(1000);
      assert.equal(await meteredOf(program), metered, 'what is over is over');

      await program.api('/v1/workloads/chat/start', { method: 'POST' });
      const again = await whenState(program, 'running');
      await program.kill();
      const proven = systemClock.monotonic() - again;
      killRun(data_dir, `${made.id}.0.2`, ['engine']);
      await until(
        () => runProcesses(data_dir).length === 0,
        10_000,
        () => 'its keeper did not end',
      );
      await systemClock.sleep(3000);
      program = await startProgram({ data_dir, env: clock.env });
      await until(
        async () => (await show(program)).placement?.run_epoch === 3,
        30_000,
        () => 'it was not placed again',
      );
      await program.api('/v1/workloads/chat/stop', { method: 'POST' });
      await whenState(program, 'stopped');
      const exported = await program.api<{ ledger: Entry[] }>('/v1/workloads/chat/export');
      const second = exported.body.ledger.find(
        (entry) => entry.run_epoch === 2 && entry.kind === 'metered',
      );
      const length = (second?.ended_at ?? 0) - (second?.started_at ?? 0);
      assert.ok(length <= proven + 200, `${length} ms of ${proven} that were proven`);
    } finally {
      clock.set(0);
      await cleanUp(data_dir, program);
    }
  },
);

type Entry = { run_epoch: number; kind: string; started_at: number; ended_at: number };

/** Of all time: intervals lie where the wall clock was when they began. */
async function meteredOf(program: Program): Promise<number> {
  const window = `from=2020-01-01&to=2029-12-01`;
  return (await program.api<UsagePage>(`/v1/usage?${window}`)).body.total.metered_ms;
}

async function show(program: Program): Promise<Workload> {
  return (await program.api<Workload>('/v1/workloads/chat')).body;
}

/** When it was first seen in this state. */
async function whenState(program: Program, state: string): Promise<number> {
  await until(
    async () => (await show(program)).state === state,
    30_000,
    () => `it is not ${state}`,
  );
  return systemClock.monotonic();
}

function assertNear(counted: number, truth: number, when: string): void {
  const off = Math.round(counted - truth);
  assert.ok(Math.abs(off) <= slack_ms, `${when}: ${counted} ms counted, off by ${off}`);
}
