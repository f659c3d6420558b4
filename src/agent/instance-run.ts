/**
 * An instance's run: the program of an image, or one of the user's, in a container.
 *
 * Invariants: ready means that it ran for a while, for there is nothing to ask a program that
 * nobody knows; one that ends before that is told apart from one that ends later, for it would do
 * so each time.
 */
import type { InstanceSpec } from '../contract/sync.ts';
import { runtimeFor } from '../core/images.ts';
import type { Driver } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { acceleratorOf, bringImage, placeOf, startRun, variablesOf } from './image-run.ts';
import { type Patience, watchRun } from './run-watch.ts';
import { failure, hasEnded, type Order, type Outcome, type RunWork } from './run-work.ts';
import type { Stages } from './stages.ts';

export type InstanceDeps = { clock: Clock; patience: Patience };

/** So long it has to run to be running. */
const settle_ms = 1000;

export function createInstanceWork(deps: InstanceDeps): RunWork<InstanceSpec> {
  const { clock, patience } = deps;
  return {
    start,
    async awaitReady(driver, { run }, stages, signal) {
      stages.begin('ready');
      const begun = clock.monotonic();
      for (;;) {
        if (await hasEnded(driver, run)) return failure('instance_exited_at_once');
        const left_ms = settle_ms - (clock.monotonic() - begun);
        if (left_ms <= 0 || signal.aborted) break;
        await clock.sleep(Math.min(left_ms, patience.look_every_ms), signal);
      }
      stages.done();
      return { ok: true };
    },
    watch: (driver, { run }, signal, tell) =>
      watchRun({ ...{ driver, run, clock, patience, codes }, ask: null }, signal, tell),
  };
}

const codes = {
  exited: 'instance_exited',
  never_ready: 'instance_exited',
  hangs: 'instance_exited',
} as const;

async function start(
  driver: Driver,
  order: Order<InstanceSpec>,
  stages: Stages,
  signal: AbortSignal,
): Promise<Outcome> {
  const { run, spec } = order;
  const runtime =
    spec.runtime ?? runtimeFor('instance', spec.image_id, driver.name, acceleratorOf(spec));
  if (runtime === null || runtime.reference === null) {
    return failure('start_failed', { why: `${driver.name} cannot run ${spec.image_id}` });
  }
  const variables = variablesOf(order);
  if (!variables.ok) return variables;
  const image = await bringImage(driver, runtime.reference, stages, signal, order.secrets);
  if (!image.ok) return image;
  stages.begin('start');
  const argv = spec.command.length > 0 ? spec.command : [...runtime.command];
  const started = await startRun(
    driver,
    {
      ...{ run, argv, env: variables.env, mounts: [], network: 'fenced' },
      ...placeOf(spec, runtime),
      image: runtime.reference,
    },
    signal,
  );
  if (started.ok) stages.done();
  return started;
}
