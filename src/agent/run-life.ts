/**
 * The life of one run here: brought up, watched, ended, and how it ended kept.
 *
 * Invariants: a run is reported as ended only once its driver proved that nothing of it executes;
 * a stop that fails is tried again until it is proven or somebody else takes over; how a run ended
 * is in the journal before it is reported.
 */
import type { DesiredRun, RunSecrets, RunTarget } from '../contract/sync.ts';
import type { Details, ReasonCode } from '../core/reasons.ts';
import type { RunExit } from '../core/run.ts';
import type { Driver } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import { endingWithGpus, type LostGpus } from './gpu-loss.ts';
import type { Journal, JournalEntry } from './journal.ts';
import { type LocalRun, type Phase, type RunEnd, runName } from './local-run.ts';
import type { LocalFacts } from './reconcile.ts';
import { type BoundWork, boundWork, isExit, type Outcome, type RunWorks } from './run-work.ts';

export type RunsDeps = {
  drivers: Map<string, Driver>;
  /** How each kind is brought up and watched. */
  works: RunWorks;
  journal: Journal;
  boot_id: string;
  clock: Clock;
  log: Log;
  /** Something is to be reported. */
  changed: () => void;
  /** GPUs of the machine that are lost; without it none is. */
  lostGpus?: LostGpus;
  /** Why the machine's owner does not let a run begin; without it all may. */
  refusal?: (desired: DesiredRun) => { code: ReasonCode; details: Details } | null;
};

export type Local = LocalRun & { busy: LocalFacts['busy'] };

type Failure = Extract<Outcome, { ok: false }>;

const stop_grace_ms = 5000;
const retry_ms = 1000;
const log_tail_bytes = 4096;

/**
 * Begins to bring a run up, or to watch it where it is there already: then no secret is needed.
 */
export function bringUp(
  deps: RunsDeps,
  one: Local,
  spec: RunTarget,
  secrets: RunSecrets | null = null,
): void {
  one.busy = 'bringing-up';
  one.phase = 'preparing';
  const bound = boundWork(deps.works, { run: one.run, spec, secrets });
  const { lostGpus, clock } = deps;
  const gpus = spec.gpu_uuids ?? [];
  const work = lostGpus === undefined ? bound : endingWithGpus(bound, gpus, lostGpus, clock);
  one.work = supervise(deps, one, work).finally(() => {
    if (one.busy === 'bringing-up') one.busy = 'no';
    deps.changed();
  });
}

/** Never rejects: nobody waits for it but a stop. */
async function supervise(deps: RunsDeps, one: Local, work: BoundWork): Promise<void> {
  const { signal } = one.stopping;
  let outcome: Outcome;
  try {
    outcome = await liveThrough(deps, one, work, signal);
  } catch (error) {
    complain(deps, one, error, 'a run could not go on');
    outcome = { ok: false, code: 'agent_failed', details: { why: describeError(error) } };
  }
  if (signal.aborted || outcome.ok) return;
  if (one.phase === 'ready') one.ended_mono = deps.clock.monotonic();
  one.stages.fail(outcome.code);
  while (!signal.aborted) {
    try {
      return await endRun(deps, one, outcome);
    } catch (error) {
      complain(deps, one, error, 'a run could not be ended and is tried again');
      await deps.clock.sleep(retry_ms, signal);
    }
  }
}

async function liveThrough(
  deps: RunsDeps,
  one: Local,
  work: BoundWork,
  signal: AbortSignal,
): Promise<Outcome> {
  const driver = driverOf(deps, one);
  if (!one.is_there) {
    const started = await work.start(driver, one.stages, signal);
    if (!started.ok || signal.aborted) return started;
    one.is_there = true;
    note(deps, one, { started: true });
  }
  const answered = await work.awaitReady(driver, one.stages, signal);
  if (!answered.ok || signal.aborted) return answered;
  one.phase = 'ready';
  deps.changed();
  return work.watch(driver, signal, ({ oom_kills }) => {
    if (oom_kills <= one.oom_kills) return;
    one.oom_kills = oom_kills;
    deps.changed();
  });
}

/** Makes sure that nothing of a failed run executes any more, and keeps how it ended. */
async function endRun(deps: RunsDeps, one: Local, failure: Failure): Promise<void> {
  const seen_to_end = isExit(failure.code);
  const exit_before = await exitOf(deps, one);
  await driverOf(deps, one).stop(one.run, 'park', seen_to_end ? 0 : stop_grace_ms);
  const exit = seen_to_end ? (exit_before ?? (await exitOf(deps, one))) : null;
  await recordEnd(deps, one, failure.code, exit, failure.details);
}

/** Ends a run for whom it was asked; resolves only when its driver has proven it. */
export async function stopRun(
  deps: RunsDeps,
  one: Local,
  mode: 'park' | 'remove',
  /** What its workload keeps here goes too. */
  erase = false,
  /** Why, where the agent decided it. */
  reason: RunEnd['reason'] = null,
): Promise<void> {
  const { journal } = deps;
  one.stopping.abort();
  await one.work;
  note(deps, one, { intent: mode });
  await driverOf(deps, one).stop(one.run, mode, stop_grace_ms);
  if (mode === 'remove') {
    if (erase) await driverOf(deps, one).erase(one.run.workload_id);
    journal.remove(one.run);
    one.phase = 'removed';
  } else {
    await recordEnd(deps, one, reason, await exitOf(deps, one));
    one.phase = 'parked';
  }
}

/** What helps after a restart and is not needed: a full disk keeps nothing from going on. */
function note(deps: RunsDeps, one: Local, news: Partial<JournalEntry>): void {
  try {
    const entry = deps.journal.read(one.run);
    if (entry !== null) deps.journal.write(one.run, { ...entry, ...news });
  } catch (error) {
    complain(deps, one, error, 'the journal could not be written');
  }
}

export async function recordEnd(
  deps: RunsDeps,
  one: Local,
  reason: RunEnd['reason'],
  exit: RunExit | null,
  details: RunEnd['details'] = {},
): Promise<void> {
  const tail = await driverOf(deps, one)
    .logs(one.run, -log_tail_bytes, log_tail_bytes)
    .catch(() => null);
  const end: RunEnd = { exit, reason, details, log_tail: tail?.text ?? null };
  const entry = deps.journal.read(one.run);
  if (entry !== null) deps.journal.write(one.run, { ...entry, end });
  settle(deps, one, end, 'ended');
}

export function settle(deps: RunsDeps, one: Local, end: RunEnd | null, phase: Phase): void {
  if (one.paused_mono !== undefined) {
    one.paused_ms = (one.paused_ms ?? 0) + (deps.clock.monotonic() - one.paused_mono);
    delete one.paused_mono;
  }
  if (phase !== 'ready' && phase !== 'preparing') delete one.guarded;
  one.end = end;
  one.phase = phase;
  deps.changed();
}

async function exitOf(deps: RunsDeps, one: Local): Promise<RunExit | null> {
  const all = await driverOf(deps, one).observe();
  return all.find((entry) => runName(entry.run) === runName(one.run))?.exit ?? null;
}

function driverOf(deps: RunsDeps, one: { driver: string }): Driver {
  const driver = deps.drivers.get(one.driver);
  if (driver === undefined) throw new Error(`this agent has no driver ${one.driver}`);
  return driver;
}

function complain(deps: RunsDeps, one: Local, error: unknown, message: string): void {
  deps.log.error({ run: runName(one.run), error: describeError(error) }, message);
}
