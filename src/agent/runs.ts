/**
 * The runs of this machine: adopts what is here, carries out the steps, and knows how each ended.
 *
 * Invariants: the journal has a run's intent before anything of it starts; what runs after a restart of
 * the agent is watched again, never started again; a run is reported as ended only once its driver
 * proved that nothing of it executes.
 */
import type { DesiredRun, EndpointSpec } from '../contract/sync.ts';
import type { RunExit, RunKey } from '../core/run.ts';
import type { Driver, Observation } from '../drivers/driver.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError, type Log } from '../lib/log.ts';
import {
  awaitAnswer,
  type EndpointDeps,
  type Outcome,
  startEndpoint,
  watchEndpoint,
} from './endpoint-run.ts';
import type { Journal } from './journal.ts';
import { keyOf, type LocalRun, type Phase, type RunEnd, runName } from './local-run.ts';
import type { LocalFacts, Step } from './reconcile.ts';
import { createStages } from './stages.ts';

export type RunsDeps = {
  drivers: Map<string, Driver>;
  /** What an endpoint needs beside its driver. */
  endpoint: Omit<EndpointDeps, 'driver'>;
  journal: Journal;
  boot_id: string;
  clock: Clock;
  log: Log;
  /** Something is to be reported. */
  changed: () => void;
};

export type Runs = {
  /** Finds what is here. Called once, before the first report. */
  adopt(): Promise<void>;
  facts(): LocalFacts[];
  locals(): LocalRun[];
  carryOut(steps: Step[]): void;
  /** Stops bringing up and watching; leaves every run as it is. */
  leave(): Promise<void>;
};

const stop_grace_ms = 5000;
const retry_ms = 1000;
const log_tail_bytes = 4096;

export function createRuns(deps: RunsDeps): Runs {
  const { journal, clock, log, boot_id } = deps;
  const here = new Map<string, LocalRun & { busy: LocalFacts['busy'] }>();
  let leaving = false;

  function local(run: RunKey, driver: string, phase: Phase) {
    const found = here.get(runName(run));
    if (found !== undefined) return found;
    const made = {
      run,
      driver,
      phase,
      stages: createStages(clock, deps.changed),
      end: null,
      stopping: new AbortController(),
      work: Promise.resolve(),
      busy: 'no' as LocalFacts['busy'],
    };
    here.set(runName(run), made);
    return made;
  }
  type Local = ReturnType<typeof local>;

  async function adopt(): Promise<void> {
    const seen = new Map<string, Observation & { driver: string }>();
    for (const [name, driver] of deps.drivers) {
      for (const found of await driver.observe()) {
        seen.set(runName(found.run), { ...found, driver: name });
      }
    }
    for (const { run, entry } of journal.list()) {
      const found = seen.get(runName(run));
      seen.delete(runName(run));
      const one = local(run, entry.driver, 'preparing');
      if (entry.end !== null) settle(one, entry.end as RunEnd, 'ended');
      else if (found?.state === 'exited') {
        const rebooted = entry.boot_id !== boot_id;
        await recordEnd(one, rebooted ? 'machine_rebooted' : null, found.exit);
      } else if (entry.intent === 'run' && entry.spec !== null) {
        bringUp(one, entry.spec, found !== undefined);
      }
    }
    for (const found of seen.values()) {
      const one = local(found.run, found.driver, 'preparing');
      if (found.state === 'exited') await recordEnd(one, null, found.exit);
    }
  }

  function bringUp(one: Local, spec: EndpointSpec, adopted: boolean): void {
    one.busy = 'bringing-up';
    one.phase = 'preparing';
    one.work = supervise(one, spec, adopted).finally(() => {
      if (one.busy === 'bringing-up') one.busy = 'no';
      deps.changed();
    });
  }

  async function supervise(one: Local, spec: EndpointSpec, adopted: boolean): Promise<void> {
    const { signal } = one.stopping;
    let outcome: Outcome;
    try {
      outcome = await liveThrough(one, spec, adopted, signal);
    } catch (error) {
      log.error({ run: runName(one.run), error: describeError(error) }, 'a run could not go on');
      outcome = { ok: false, code: 'agent_failed', details: { why: describeError(error) } };
    }
    if (signal.aborted || leaving || outcome.ok) return;
    one.stages.fail(outcome.code);
    const driver = driverOf(one);
    const exit_before = (await exitOf(one)) ?? null;
    const seen_to_end = outcome.code === 'engine_exited';
    await driver.stop(one.run, 'park', seen_to_end ? 0 : stop_grace_ms);
    const end = exit_before ?? (await exitOf(one));
    await recordEnd(one, outcome.code, seen_to_end ? end : null, outcome.details);
  }

  async function liveThrough(
    one: Local,
    spec: EndpointSpec,
    adopted: boolean,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const endpoint = { ...deps.endpoint, driver: driverOf(one) };
    if (!adopted) {
      const started = await startEndpoint(endpoint, one.run, spec, one.stages, signal);
      if (!started.ok || signal.aborted) return started;
    }
    const answered = await awaitAnswer(endpoint, one.run, spec.name, one.stages, signal);
    if (!answered.ok || signal.aborted) return answered;
    one.phase = 'ready';
    deps.changed();
    return watchEndpoint(endpoint, one.run, signal);
  }

  async function stop(one: Local, mode: 'park' | 'remove'): Promise<void> {
    one.stopping.abort();
    await one.work;
    const entry = journal.read(one.run);
    if (entry !== null) journal.write(one.run, { ...entry, intent: mode });
    await driverOf(one).stop(one.run, mode, stop_grace_ms);
    if (mode === 'remove') {
      journal.remove(one.run);
      one.phase = 'removed';
    } else {
      await recordEnd(one, null, await exitOf(one));
      one.phase = 'parked';
    }
  }

  async function recordEnd(
    one: Local,
    reason: RunEnd['reason'],
    exit: RunExit | null,
    details: RunEnd['details'] = {},
  ): Promise<void> {
    const tail = await driverOf(one)
      .logs(one.run, -log_tail_bytes, log_tail_bytes)
      .catch(() => null);
    const end: RunEnd = { exit, reason, details, log_tail: tail?.text ?? null };
    const entry = journal.read(one.run);
    if (entry !== null) journal.write(one.run, { ...entry, end });
    settle(one, end, 'ended');
  }

  function settle(one: Local, end: RunEnd, phase: Phase): void {
    one.end = end;
    one.phase = phase;
    deps.changed();
  }

  async function exitOf(one: Local): Promise<RunExit | null> {
    const all = await driverOf(one).observe();
    const found = all.find((entry) => runName(entry.run) === runName(one.run));
    return found?.exit ?? null;
  }

  function driverOf(one: { driver: string }): Driver {
    const driver = deps.drivers.get(one.driver);
    if (driver === undefined) throw new Error(`this agent has no driver ${one.driver}`);
    return driver;
  }

  function carryOut(steps: Step[]): void {
    for (const step of steps) carryOutOne(step);
  }

  function carryOutOne(step: Step): void {
    if (step.step === 'bring-up') {
      beginRun(step.desired);
    } else if (step.step === 'report-absent') {
      local(step.run, '', step.phase).phase = step.phase;
      deps.changed();
    } else if (step.step === 'forget') {
      here.delete(runName(step.run));
    } else {
      beginStop(step.run, step.mode);
    }
  }

  function beginStop(run: RunKey, mode: 'park' | 'remove'): void {
    const one = here.get(runName(run));
    if (one === undefined) return;
    if (one.driver === '') {
      one.phase = mode === 'park' ? 'parked' : 'removed';
      deps.changed();
      return;
    }
    one.busy = 'stopping';
    stop(one, mode)
      .catch((error) => {
        log.error({ run: runName(run), error: describeError(error) }, 'a stop failed');
        return clock.sleep(retry_ms); // the next reconcile tries again
      })
      .finally(() => {
        one.busy = 'no';
        deps.changed();
      });
  }

  function beginRun(desired: DesiredRun): void {
    const run = keyOf(desired);
    const known = here.get(runName(run));
    const one = known ?? local(run, desired.driver, 'preparing');
    if (desired.spec === null || !deps.drivers.has(desired.driver)) {
      one.driver = '';
      const details = { machine: 'this machine', kind: desired.driver };
      settle(one, { exit: null, reason: 'driver_missing', details, log_tail: null }, 'ended');
      return;
    }
    const intent = { intent: 'run' as const, boot_id, spec: desired.spec, end: null };
    const entry = journal.read(run) ?? { driver: desired.driver, ...intent };
    journal.write(run, { ...entry, ...intent });
    bringUp(one, desired.spec, known !== undefined);
  }

  return {
    adopt,
    locals: () => [...here.values()],
    facts: () => [...here.values()].map(({ run, phase, busy }) => ({ run, phase, busy })),
    carryOut,
    async leave() {
      leaving = true;
      for (const one of here.values()) one.stopping.abort();
      await Promise.allSettled([...here.values()].map((one) => one.work));
    },
  };
}
