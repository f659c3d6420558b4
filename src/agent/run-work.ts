/**
 * How a run of one kind is brought up, known to be ready, and watched. The life of a run
 * (run-life.ts) is the same for all kinds and calls these.
 *
 * Contract of `RunWork`:
 * - `start` brings what is missing and starts the run; it is not yet ready when that resolves.
 * - `awaitReady` resolves once it can be used, also for a run that was there before the agent.
 * - `watch` resolves with why the run has to be ended, or has ended.
 * - Each ends early at the signal; expected failures are values with a code of core/reasons.
 */
import type {
  EndpointSpec,
  InstanceSpec,
  NotebookSpec,
  RunSecrets,
  RunTarget,
} from '../contract/sync.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import { type RunKey, runName } from '../core/run.ts';
import type { Driver } from '../drivers/driver.ts';
import type { Stages } from './stages.ts';

export type Outcome = { ok: true } | Failure;
export type Failure = { ok: false; code: ReasonCode; details: Details };

export type Order<Spec extends RunTarget> = {
  run: RunKey;
  spec: Spec;
  /** Null for a run that was taken over: those who need one were given it at their start. */
  secrets: RunSecrets | null;
};

/** What a watch tells while all goes on. */
export type WatchNews = { oom_kills: number };
export type Tell = (news: WatchNews) => void;

export type RunWork<Spec extends RunTarget> = {
  start(driver: Driver, order: Order<Spec>, stages: Stages, signal: AbortSignal): Promise<Outcome>;
  awaitReady(
    driver: Driver,
    order: Order<Spec>,
    stages: Stages,
    signal: AbortSignal,
  ): Promise<Outcome>;
  watch(driver: Driver, order: Order<Spec>, signal: AbortSignal, tell: Tell): Promise<Outcome>;
};

export type RunWorks = {
  endpoint: RunWork<EndpointSpec>;
  notebook: RunWork<NotebookSpec>;
  instance: RunWork<InstanceSpec>;
};

/** The work of one run. */
export type BoundWork = {
  start(driver: Driver, stages: Stages, signal: AbortSignal): Promise<Outcome>;
  awaitReady(driver: Driver, stages: Stages, signal: AbortSignal): Promise<Outcome>;
  watch(driver: Driver, signal: AbortSignal, tell: Tell): Promise<Outcome>;
};

export function boundWork(works: RunWorks, order: Order<RunTarget>): BoundWork {
  const { spec } = order;
  switch (spec.kind) {
    case 'endpoint':
      return bind(works.endpoint, { ...order, spec });
    case 'notebook':
      return bind(works.notebook, { ...order, spec });
    case 'instance':
      return bind(works.instance, { ...order, spec });
  }
}

function bind<Spec extends RunTarget>(work: RunWork<Spec>, order: Order<Spec>): BoundWork {
  return {
    start: (driver, stages, signal) => work.start(driver, order, stages, signal),
    awaitReady: (driver, stages, signal) => work.awaitReady(driver, order, stages, signal),
    watch: (driver, signal, tell) => work.watch(driver, order, signal, tell),
  };
}

export function failure(code: ReasonCode, details: Details = {}): Failure {
  return { ok: false, code, details };
}

const exits: readonly ReasonCode[] = [
  'engine_exited',
  'notebook_exited',
  'instance_exited',
  'instance_exited_at_once',
];

/** Whether a failure means that the run was seen to have ended, not that it has to be. */
export function isExit(code: ReasonCode): boolean {
  return exits.includes(code);
}

export async function hasEnded(driver: Driver, run: RunKey): Promise<boolean> {
  return (await lookAtRun(driver, run)) === 'ended';
}

/** A driver that cannot say now (its engine is being restarted) says nothing: the next look will. */
export async function lookAtRun(
  driver: Driver,
  run: RunKey,
): Promise<'ended' | 'paused' | 'going'> {
  const all = await driver.observe().catch(() => null);
  if (all === null) return 'going';
  const found = all.find((entry) => runName(entry.run) === runName(run));
  if (found === undefined || found.state === 'exited') return 'ended';
  return found.paused ? 'paused' : 'going';
}
