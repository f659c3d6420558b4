/**
 * What an endpoint's engine is asked: whether it is well, for a first answer, and, as long as it
 * runs, whether it still makes tokens.
 *
 * Invariants: every question has a deadline and a connection of its own.
 */
import type { EndpointSpec } from '../contract/sync.ts';
import type { RunKey } from '../core/run.ts';
import type { Driver } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import type { Runtime } from '../runtimes/runtime.ts';
import type { Doubts } from './doubts.ts';
import { callEngine, type EngineReply } from './engine-client.ts';
import { type Patience, type Watched, watchRun } from './run-watch.ts';
import type { Order, Outcome, Tell } from './run-work.ts';
import { watchForTokens } from './stuck-engine.ts';

export type EngineDeps = {
  driver: Driver;
  runtime: Pick<Runtime, 'readiness'>;
  clock: Clock;
  patience: Patience;
  doubts: Doubts;
};

/** What engines answer to what their model is not for. */
const not_supported = [400, 404, 501];

/** The first answer to what the engine's model is for. */
export async function firstAnswer(
  deps: EngineDeps,
  run: RunKey,
  model: string,
  signal: AbortSignal,
) {
  const dial = () => deps.driver.dial(run, 'api');
  const { answer_ms: timeout_ms } = deps.patience;
  let reply: EngineReply = { ok: false, why: 'nothing was asked' };
  for (const { path, body } of deps.runtime.readiness.answers) {
    const call = { method: 'POST' as const, path, body: body(model), timeout_ms };
    reply = await callEngine(deps.clock, dial, call, signal);
    if (!reply.ok || !not_supported.includes(reply.status)) break;
  }
  return reply;
}

/** Its process and its health, and beside them whether it makes tokens. */
export async function watchEngine(
  deps: EngineDeps,
  { run, spec }: Order<EndpointSpec>,
  signal: AbortSignal,
  tell: Tell,
): Promise<Outcome> {
  const { driver, clock, patience, runtime } = deps;
  const over = new AbortController();
  const both = AbortSignal.any([signal, over.signal]);
  const { metrics_path: path } = runtime.readiness;
  const metrics = { method: 'GET' as const, path, timeout_ms: patience.health_ms };
  const tokens = {
    ...{ driver, run, cpu_millis: spec.cpu_millis, clock, patience },
    isDoubted: () => deps.doubts.has(run),
    readMetrics: (signal: AbortSignal) =>
      callEngine(clock, () => driver.dial(run, 'api'), metrics, signal),
    askForToken: (signal: AbortSignal) => firstAnswer(deps, run, spec.name, signal),
  };
  try {
    const watching = watchRun(watchedOf(deps, run), both, tell);
    return await Promise.race([watching, watchForTokens(tokens, both)]);
  } finally {
    over.abort('it is over');
  }
}

export function watchedOf({ driver, clock, patience, runtime }: EngineDeps, run: RunKey): Watched {
  const call = {
    method: 'GET' as const,
    path: runtime.readiness.health_path,
    timeout_ms: patience.health_ms,
  };
  return {
    ...{ driver, run, clock, patience },
    codes: { exited: 'engine_exited', never_ready: 'engine_never_ready', hangs: 'engine_hangs' },
    ask: (signal) => callEngine(clock, () => driver.dial(run, 'api'), call, signal),
  };
}
