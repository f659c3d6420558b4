/**
 * How the agent of a made-up machine brings runs up: through the driver and nothing else. No
 * sandbox, no image and no model is looked for, so that it takes no more than its script says.
 *
 * Invariants: those of `RunWork`; ready means that its port answered, which the script decides.
 */
import type { RunTarget } from '../contract/sync.ts';
import { runtimeFor } from '../core/images.ts';
import type { RunKey } from '../core/run.ts';
import { type Driver, DriverError } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { digest } from '../lib/secret.ts';
import { callEngine } from './engine-client.ts';
import { type Patience, untilAnswered, type Watched, watchRun } from './run-watch.ts';
import { failure, type Outcome, type RunWork } from './run-work.ts';

export type SimWorkDeps = { clock: Clock; patience: Patience };

/** One work for all kinds. */
export function createSimWork(deps: SimWorkDeps): RunWork<RunTarget> {
  return {
    async start(driver, { run, spec }, stages, signal) {
      stages.begin('start');
      const started = await begin(driver, run, spec, signal);
      if (started.ok) stages.done('made up');
      return started;
    },
    async awaitReady(driver, { run, spec }, stages, signal) {
      stages.begin('ready');
      const watched = watchedOf(deps, driver, run, spec);
      const answered = await untilAnswered(watched, (status) => status === 200, signal);
      if (answered.ok) stages.done();
      return answered;
    },
    watch: (driver, { run, spec }, signal, tell) =>
      watchRun(watchedOf(deps, driver, run, spec), signal, tell),
  };
}

async function begin(
  driver: Driver,
  run: RunKey,
  spec: RunTarget,
  signal: AbortSignal,
): Promise<Outcome> {
  const { memory_bytes, cpu_millis, gpu_uuids = [] } = spec;
  const caps = { memory_bytes, cpu_millis, gpu_uuids, network: 'none' as const };
  const spec_hash = digest(JSON.stringify({ ...spec, env: {} }));
  const made = { run, spec_hash, argv: ['sim'], env: {}, mounts: [], ports: portsOf(spec) };
  try {
    await driver.start({ ...made, ...caps, workspace: workspaceOf(spec) }, signal);
    return { ok: true };
  } catch (error) {
    if (!(error instanceof DriverError)) throw error;
    return failure(error.code, { why: error.message, ...error.details });
  }
}

function watchedOf(
  { clock, patience }: SimWorkDeps,
  driver: Driver,
  run: RunKey,
  spec: RunTarget,
): Watched {
  const call = { method: 'GET' as const, path: '/health', timeout_ms: patience.health_ms };
  const [port = ''] = portsOf(spec);
  return {
    ...{ driver, run, clock, patience, codes: codes[spec.kind] },
    ask: (signal) => callEngine(clock, () => driver.dial(run, port), call, signal),
  };
}

const codes = {
  endpoint: {
    exited: 'engine_exited',
    never_ready: 'engine_never_ready',
    hangs: 'engine_hangs',
  },
  notebook: {
    exited: 'notebook_exited',
    never_ready: 'notebook_never_ready',
    hangs: 'notebook_hangs',
  },
  instance: {
    exited: 'instance_exited',
    never_ready: 'instance_exited',
    hangs: 'instance_exited',
  },
} as const;

/** An instance has no port that Einsora knows; its made-up program answers all the same. */
function portsOf({ kind }: RunTarget): string[] {
  return kind === 'endpoint' ? ['api'] : ['web'];
}

function workspaceOf(spec: RunTarget) {
  if (spec.kind === 'endpoint') return null;
  const runtime = spec.runtime ?? runtimeFor(spec.kind, spec.image_id, 'sim', null);
  const { uid = 0, gid = 0, workspace = null } = runtime ?? {};
  const target = workspace ?? '/workspace';
  return { target, uid, gid, disk_bytes: spec.disk_bytes };
}
