/**
 * The runs of this machine: adopts what is here, and carries out what reconcile decided.
 *
 * Invariants: the journal has a run's intent before anything of it starts; what runs after a
 * restart of the agent is watched again, never started again, and nothing starts before the control
 * plane said that it still should; a step that cannot be carried out keeps no other one from it,
 * and is decided again at the next pass.
 */
import type { DesiredRun, RunTarget } from '../contract/sync.ts';
import type { ReasonCode } from '../core/reasons.ts';
import { type RunKey, runName } from '../core/run.ts';
import { mayRun } from '../core/trust.ts';
import type { Observation } from '../drivers/driver.ts';
import { describeError } from '../lib/log.ts';
import type { JournalEntry } from './journal.ts';
import { keyOf, type LocalRun, type Phase, type RunEnd } from './local-run.ts';
import type { LocalFacts, Step } from './reconcile.ts';
import { bringUp, type Local, type RunsDeps, recordEnd, settle, stopRun } from './run-life.ts';
import { createStages } from './stages.ts';

export type { RunsDeps } from './run-life.ts';

export type Runs = {
  /** Finds what is here, before the first report. Once it has resolved, it is not called again. */
  adopt(): Promise<void>;
  facts(): LocalFacts[];
  locals(): LocalRun[];
  carryOut(steps: Step[]): void;
  /**
   * What is asked of this machine, as far as it may be by its own look: what is here and may not
   * run here (any more) is to be parked, whatever else is said.
   */
  narrowed(desired: readonly DesiredRun[]): DesiredRun[];
  /** Parks what the control plane has not asked to: its end has this reason. */
  parkFor(run: RunKey, why: ReasonCode): void;
  /** Stops bringing up and watching; leaves every run as it is. */
  leave(): Promise<void>;
};

type Context = RunsDeps & { here: Map<string, Local> };

const retry_ms = 1000;

export function createRuns(deps: RunsDeps): Runs {
  const here = new Map<string, Local>();
  const context: Context = { ...deps, here };
  return {
    adopt: () => adopt(context),
    locals: () => [...here.values()],
    facts: () => [...here.values()].map(({ run, phase, busy }) => ({ run, phase, busy })),
    carryOut(steps) {
      for (const step of steps) tryStep(context, step);
    },
    parkFor(run, why) {
      const one = here.get(runName(run));
      if (one !== undefined && one.driver !== '' && one.busy !== 'stopping') {
        carryOutStop(context, one, 'park', false, why);
      }
    },
    narrowed: (desired) => desired.map((entry) => narrow(context, entry)),
    async leave() {
      for (const one of here.values()) one.stopping.abort();
      await Promise.allSettled([...here.values()].map((one) => one.work));
    },
  };
}

function local(context: Context, run: RunKey, driver: string, phase: Phase): Local {
  const found = context.here.get(runName(run));
  if (found !== undefined) return found;
  const made: Local = {
    run,
    driver,
    phase,
    is_there: false,
    stages: createStages(context.clock, context.changed),
    end: null,
    oom_kills: 0,
    stopping: new AbortController(),
    work: Promise.resolve(),
    busy: 'no',
  };
  context.here.set(runName(run), made);
  return made;
}

async function adopt(context: Context): Promise<void> {
  const seen = new Map<string, Observation & { driver: string }>();
  for (const [name, driver] of context.drivers) {
    for (const found of await driver.observe()) {
      seen.set(runName(found.run), { ...found, driver: name });
    }
  }
  for (const { run, entry } of context.journal.list()) {
    const found = seen.get(runName(run));
    seen.delete(runName(run));
    // An adoption that failed half-way is begun again: what it has taken stays as it is.
    if (context.here.has(runName(run))) continue;
    try {
      await adoptJournalled(context, run, entry, found);
    } catch (error) {
      context.here.delete(runName(run)); // what could not be kept of it is found again
      throw error;
    }
  }
  for (const found of seen.values()) {
    if (context.here.has(runName(found.run))) continue;
    const one = local(context, found.run, found.driver, 'preparing');
    one.is_there = true;
    if (found.state === 'exited') await recordEnd(context, one, null, found.exit);
  }
}

async function adoptJournalled(
  context: Context,
  run: RunKey,
  entry: JournalEntry,
  found: Observation | undefined,
): Promise<void> {
  const one = local(context, run, entry.driver, 'preparing');
  one.is_there = found !== undefined;
  const is_rebooted = entry.boot_id !== context.boot_id;
  if (entry.end !== null) {
    settle(context, one, entry.end as RunEnd, 'ended');
  } else if (!context.drivers.has(entry.driver)) {
    one.phase = 'unknown'; // nobody here can tell what became of it
  } else if (found === undefined) {
    // What never began waits for the control plane to say that it still should.
    if (!is_rebooted && !entry.started) return;
    await recordEnd(context, one, is_rebooted ? 'machine_rebooted' : 'run_vanished', null);
  } else if (found.state === 'exited') {
    await recordEnd(context, one, is_rebooted ? 'machine_rebooted' : null, found.exit);
  } else if (entry.intent === 'run' && entry.spec !== null) {
    bringUp(context, one, entry.spec);
  }
}

function tryStep(context: Context, step: Step): void {
  try {
    carryOut(context, step);
  } catch (error) {
    const fields = { step: step.step, error: describeError(error) };
    context.log.error(fields, 'a step could not be carried out');
  }
}

function carryOut(context: Context, step: Step): void {
  if (step.step === 'bring-up') {
    beginRun(context, step.desired);
  } else if (step.step === 'report-lost') {
    reportGone(context, step.run, step.driver, 'ended');
  } else if (step.step === 'report-absent') {
    reportGone(context, step.run, step.driver, step.phase);
  } else if (step.step === 'forget') {
    context.here.delete(runName(step.run));
  } else if (step.step === 'erase') {
    beginErase(context, step.run, step.driver);
  } else {
    beginStop(context, step.run, step.mode);
  }
}

/** Nothing of it is here. Without its driver nobody here can say so, unless its end is proven. */
function reportGone(context: Context, run: RunKey, driver: string, phase: Phase): void {
  if (driver !== '' && !context.drivers.has(driver)) {
    local(context, run, driver, 'unknown');
    context.changed();
    return;
  }
  const one = local(context, run, '', phase);
  settle(context, one, phase === 'ended' ? endedFor('run_vanished') : one.end, phase);
}

function beginStop(context: Context, run: RunKey, mode: 'park' | 'remove'): void {
  const one = context.here.get(runName(run));
  if (one === undefined) return;
  if (one.driver === '') {
    one.phase = mode === 'park' ? 'parked' : 'removed';
    context.changed();
    return;
  }
  carryOutStop(context, one, mode, false);
}

/** Of a run that nobody here knows its driver is asked all the same: it may have kept something. */
function beginErase(context: Context, run: RunKey, driver: string): void {
  if (!context.drivers.has(driver)) {
    reportGone(context, run, driver, 'removed');
    return;
  }
  const one = local(context, run, driver, 'unknown');
  if (one.driver === '') one.driver = driver;
  carryOutStop(context, one, 'remove', true);
}

function carryOutStop(
  context: Context,
  one: Local,
  mode: 'park' | 'remove',
  erase: boolean,
  reason: ReasonCode | null = null,
): void {
  one.busy = 'stopping';
  stopRun(context, one, mode, erase, reason)
    .catch((error) => {
      const fields = { run: runName(one.run), error: describeError(error) };
      context.log.error(fields, 'a stop failed');
      return context.clock.sleep(retry_ms); // the next reconcile tries again
    })
    .finally(() => {
      one.busy = 'no';
      context.changed();
    });
}

function beginRun(context: Context, desired: DesiredRun): void {
  const { journal, boot_id, here } = context;
  const run = keyOf(desired);
  const refused = refusalOf(context, desired);
  const is_there = here.get(runName(run))?.is_there === true;
  if (refused !== null && is_there) {
    beginStop(context, run, 'park');
    return;
  }
  // The machine's owner has the last word on what begins here.
  const kept_out = is_there || refused !== null ? null : (context.refusal?.(desired) ?? null);
  if (kept_out !== null) {
    const one = local(context, run, '', 'preparing');
    settle(context, one, endedFor(kept_out.code, kept_out.details), 'ended');
    return;
  }
  if (refused !== null || desired.spec === null) {
    const one = local(context, run, '', 'preparing');
    one.driver = '';
    const details = { machine: 'this machine', kind: desired.driver };
    settle(context, one, endedFor(refused ?? 'driver_missing', details), 'ended');
    return;
  }
  const { spec, secrets } = desired;
  const intent = { intent: 'run' as const, boot_id, spec: withoutEnv(spec), end: null };
  const entry = journal.read(run) ?? { driver: desired.driver, started: false, ...intent };
  journal.write(run, { ...entry, ...intent });
  bringUp(context, local(context, run, desired.driver, 'preparing'), spec, secrets);
}

/** What the journal keeps: variables are for the run alone. */
function withoutEnv(spec: RunTarget): RunTarget {
  return spec.kind === 'endpoint' ? spec : { ...spec, env: {} };
}

function narrow(context: Context, entry: DesiredRun): DesiredRun {
  if (entry.action !== 'run' || !context.here.get(runName(entry))?.is_there) return entry;
  const may = refusalOf(context, entry) !== 'isolation_not_allowed';
  return may ? entry : { ...entry, action: 'park', spec: null, secrets: null };
}

/** The agent looks for itself whether it may and can run what it is told to. */
function refusalOf({ drivers }: Context, desired: DesiredRun): ReasonCode | null {
  const driver = drivers.get(desired.driver);
  if (driver === undefined) return 'driver_missing';
  // Who owns it and with whom it is shared is the control plane's to know; how well its driver
  // keeps a workload apart is this agent's own.
  const { trust, sharing } = desired;
  const may = mayRun(trust, driver.name, sharing, driver.as);
  return may ? null : 'isolation_not_allowed';
}

function endedFor(reason: ReasonCode, details: RunEnd['details'] = {}): RunEnd {
  return { exit: null, reason, details, log_tail: null };
}
