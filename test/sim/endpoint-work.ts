/**
 * How an agent of the story brings a run up and watches it: the same steps as the program's,
 * with a process of the world in place of an engine.
 *
 * Invariants: it learns of a process only through the driver, but for being woken by its end.
 */
import type { Outcome, RunWork } from '../../src/agent/run-work.ts';
import type { RunTarget } from '../../src/contract/sync.ts';
import type { ReasonCode } from '../../src/core/reasons.ts';
import { type RunKey, runName } from '../../src/core/run.ts';
import { type Driver, DriverError } from '../../src/drivers/driver.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { MachineWorld } from './machine-world.ts';

const look_every_ms = 60_000;
const load_deadline_ms = 600_000;
const unknown_ms = 1000;

export function createSimWork(world: MachineWorld, clock: Clock): RunWork<RunTarget> {
  return {
    async start(driver, { run, spec }, stages, signal) {
      stages.begin('start');
      try {
        await driver.start(specOf(run, spec), signal);
      } catch (error) {
        if (error instanceof DriverError) return failure(error.code);
        throw error;
      }
      stages.done();
      return { ok: true };
    },

    async awaitReady(driver, { run }, stages, signal) {
      stages.begin('load');
      const began = clock.monotonic();
      while (!signal.aborted) {
        if (await hasEnded(driver, clock, run, signal)) return failure('engine_exited');
        const ready_at = world.processes.get(runName(run))?.ready_at ?? 0;
        const left = ready_at - clock.monotonic();
        if (left <= 0) break;
        if (clock.monotonic() - began >= load_deadline_ms) return failure('engine_never_ready');
        await wakened(world, clock, run, Math.min(left, look_every_ms), signal);
      }
      stages.done();
      return { ok: true };
    },

    async watch(driver, { run }, signal) {
      while (!signal.aborted) {
        await wakened(world, clock, run, look_every_ms, signal);
        if (signal.aborted) break;
        if (await hasEnded(driver, clock, run, signal)) return failure('engine_exited');
        // Its health is asked for by its port, whatever the driver can say.
        const process = world.processes.get(runName(run));
        if (process?.is_hanging || process?.is_alive === false) return failure('engine_hangs');
      }
      return { ok: true };
    },
  };
}

/** Waits at most `ms`, and less where the process ends meanwhile. */
async function wakened(
  world: MachineWorld,
  clock: Clock,
  run: RunKey,
  ms: number,
  signal: AbortSignal,
): Promise<void> {
  const woken = new AbortController();
  const wake = () => woken.abort('woken');
  const process = world.processes.get(runName(run));
  process?.ended.push(wake);
  signal.addEventListener('abort', wake, { once: true });
  if (process?.is_alive === false) wake();
  await clock.sleep(ms, woken.signal);
  signal.removeEventListener('abort', wake);
  if (process !== undefined) process.ended = process.ended.filter((other) => other !== wake);
}

/** A driver that cannot say says nothing: it is asked again a little later. */
async function hasEnded(
  driver: Driver,
  clock: Clock,
  run: RunKey,
  signal: AbortSignal,
): Promise<boolean> {
  const all = await driver.observe().catch(() => null);
  if (all === null) {
    // What has ended wakes at once: without this wait no time would pass any more.
    await clock.sleep(unknown_ms, signal);
    return false;
  }
  const found = all.find((entry) => runName(entry.run) === runName(run));
  return found === undefined || found.state === 'exited';
}

function specOf(run: RunKey, spec: RunTarget) {
  const { memory_bytes, cpu_millis, gpu_uuids = [] } = spec;
  const none = { env: {}, mounts: [], ports: ['api'], network: 'none' as const };
  return {
    run,
    spec_hash: spec.kind === 'endpoint' ? spec.model : spec.image_id,
    argv: ['serve'],
    ...none,
    memory_bytes,
    cpu_millis,
    gpu_uuids,
  };
}

function failure(code: ReasonCode): Outcome {
  return { ok: false, code, details: {} };
}
