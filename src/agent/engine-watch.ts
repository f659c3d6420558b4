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
import { callEngine, type EngineCall, type EngineReply } from './engine-client.ts';
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
  const ask = askerOf(deps, run);
  const { answer_ms: timeout_ms } = deps.patience;
  let reply: EngineReply = { ok: false, why: 'nothing was asked' };
  for (const { path, body } of deps.runtime.readiness.answers) {
    const call = { method: 'POST' as const, path, body: body(model), timeout_ms };
    reply = await ask(call, signal);
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
  const tokens = {
    ...{ driver, run, cpu_millis: spec.cpu_millis, clock, patience },
    isDoubted: () => deps.doubts.has(run),
    readMetrics: readerOf(deps, run, runtime.readiness.metrics_path),
    askForToken: (signal: AbortSignal) => firstAnswer(deps, run, spec.name, signal),
  };
  try {
    const watching = watchRun(watchedOf(deps, run), both, tell);
    return await Promise.race([watching, watchForTokens(tokens, both)]);
  } finally {
    over.abort('it is over');
  }
}

export function watchedOf(deps: EngineDeps, run: RunKey): Watched {
  const { driver, clock, patience, runtime } = deps;
  return {
    ...{ driver, run, clock, patience },
    codes: { exited: 'engine_exited', never_ready: 'engine_never_ready', hangs: 'engine_hangs' },
    ask: readerOf(deps, run, runtime.readiness.health_path),
  };
}

/** A page that an engine has at once, where it is well. */
function readerOf(deps: EngineDeps, run: RunKey, path: string) {
  const ask = askerOf(deps, run);
  const call = { method: 'GET' as const, path, timeout_ms: deps.patience.health_ms };
  return (signal: AbortSignal) => ask(call, signal);
}

function askerOf({ driver, clock }: EngineDeps, run: RunKey) {
  return (call: EngineCall, signal: AbortSignal) =>
    callEngine(clock, () => driver.dial(run, 'api'), call, signal);
}
