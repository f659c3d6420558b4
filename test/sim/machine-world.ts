/**
 * What really runs on a machine: processes that outlive the agent and die with the machine, and the
 * driver through which the agent sees and ends them.
 *
 * Invariants: those of `Driver`, as long as no fault is on; a process does what its plan says and
 * nothing an agent believes; every start and every end is told to the story.
 */
import { type RunExit, type RunKey, runName } from '../../src/core/run.ts';
import type { DriverName } from '../../src/core/trust.ts';
import {
  type Driver,
  DriverError,
  no_stats,
  type Observation,
  type RunSpec,
} from '../../src/drivers/driver.ts';
import type { Host } from './host.ts';
import type { Life } from './life.ts';
import type { RunPlan } from './run-plan.ts';

export type Process = {
  run: RunKey;
  name: string;
  spec_hash: string;
  memory_bytes: number;
  gpu_uuids: readonly string[];
  boot_id: string;
  is_alive: boolean;
  is_hanging: boolean;
  ready_at: number;
  started_at: number;
  exit: RunExit | null;
  refusals: number;
  /** Told once it has ended. */
  ended: (() => void)[];
};

export type MachineWorld = {
  readonly host: Host;
  readonly processes: Map<string, Process>;
  /** The same world through one agent's eyes. */
  driver(life: Life): Driver;
  /** Faults that are on. */
  fault: { observe: boolean; start: boolean; stop: boolean };
  /** Every process ends, and with `forgets` so does what the driver knew of them. */
  powerOff(forgets: boolean): void;
  /** No process ends or hangs by itself from now on, and nothing takes long any more. */
  calm(): void;
};

export type WorldEvents = {
  started(process: Process): void;
  ended(process: Process, why: string): void;
  /** An agent asks for the end of a process that lives. */
  stopping(process: Process): void;
};

type Options = {
  host: Host;
  driver: DriverName;
  planOf: (run: RunKey) => RunPlan;
  events: WorldEvents;
};
type Context = Options &
  Pick<MachineWorld, 'processes' | 'fault'> & {
    is_calm: boolean;
    /** Starts and stops under way: each hastens one. */
    waits: Set<() => void>;
  };

const killed: RunExit = { code: null, signal: 'SIGTERM', out_of_memory: false };
const short_ms = 100;

export function createMachineWorld(options: Options): MachineWorld {
  const processes = new Map<string, Process>();
  const fault = { observe: false, start: false, stop: false };
  const context: Context = { ...options, processes, fault, is_calm: false, waits: new Set() };
  return {
    ...{ host: options.host, processes, fault },
    calm() {
      context.is_calm = true;
      const soon = options.host.monotonic() + short_ms;
      for (const process of processes.values()) {
        process.is_hanging = false;
        process.ready_at = Math.min(process.ready_at, soon);
      }
      for (const hasten of context.waits) hasten();
    },
    powerOff(forgets) {
      for (const process of processes.values()) end(context, process, null, 'power off');
      if (forgets) processes.clear();
    },
    driver: (life) => driverOf(context, life),
  };
}

function driverOf(context: Context, life: Life): Driver {
  const { driver: name, processes, fault } = context;
  return {
    name,
    probe: () =>
      life.async('driver.probe', async () => ({
        ...{ driver: name, ready: true, reason: null, findings: [] },
      })),
    start: (spec) => life.async('driver.start', () => start(context, life, spec)),
    stop: (run, mode) => life.async('driver.stop', () => stop(context, life, run, mode)),
    observe: () =>
      life.async('driver.observe', async () => {
        if (fault.observe) throw new Error('the driver does not answer');
        return [...processes.values()].map(observationOf);
      }),
    logs: () => life.async('driver.logs', async () => ({ text: '', next_offset: 0, end: false })),
    stats: () => life.async('driver.stats', async () => no_stats),
    erase: () => Promise.resolve(),
    // Nobody in a story looks into a run.
    ...{ dial: notHere, exec: notHere, files: notHere, connect: notHere },
  };
}

const notHere = () => Promise.reject(new Error('no story does that'));

async function start(context: Context, life: Life, spec: RunSpec): Promise<void> {
  const { processes, fault, planOf } = context;
  const name = runName(spec.run);
  const plan = planOf(spec.run);
  if (processes.has(name)) return;
  await wait(context, plan.start_ms);
  if (!life.isAlive()) return;
  const refused = fault.start || (plan.start_fails && !context.is_calm);
  if (refused) throw new DriverError('start_failed', 'it could not be started');
  if (!processes.has(name)) begin(context, spec, plan);
}

function begin(context: Context, spec: RunSpec, plan: RunPlan): void {
  const { host, processes, events } = context;
  const { run, spec_hash, memory_bytes, gpu_uuids = [] } = spec;
  const process: Process = {
    ...{ run, name: runName(run), spec_hash, memory_bytes, gpu_uuids, boot_id: host.bootId() },
    ...{ is_alive: true, is_hanging: false, exit: null, refusals: 0, ended: [] },
    ready_at: host.monotonic() + (context.is_calm ? short_ms : plan.ready_after_ms),
    started_at: host.now(),
  };
  processes.set(process.name, process);
  events.started(process);
  const { exit_after_ms, exit, hangs_after_ms } = plan;
  if (exit_after_ms !== null) {
    host.after(exit_after_ms, () => {
      if (!context.is_calm) end(context, process, exit, 'by itself');
    });
  }
  if (hangs_after_ms !== null) {
    host.after(hangs_after_ms, () => {
      process.is_hanging = !context.is_calm;
    });
  }
}

async function stop(
  context: Context,
  life: Life,
  run: RunKey,
  mode: 'park' | 'remove',
): Promise<void> {
  const { processes, fault, planOf, events } = context;
  const plan = planOf(run);
  const process = processes.get(runName(run));
  if (process === undefined) return;
  if (process.is_alive) {
    events.stopping(process);
    await wait(context, plan.stop_ms);
    if (!life.isAlive()) return;
    process.refusals += 1;
    const refuses = fault.stop || (!context.is_calm && process.refusals <= plan.refused_stops);
    if (process.is_alive && refuses) throw new DriverError('stop_unproven', 'it does not end');
    end(context, process, killed, 'stopped');
  }
  if (mode === 'remove') processes.delete(process.name);
}

function end({ events }: Context, process: Process, exit: RunExit | null, why: string): void {
  if (!process.is_alive) return;
  process.is_alive = false;
  process.exit = exit;
  events.ended(process, why);
  for (const tell of process.ended.splice(0)) tell();
}

function wait({ host, is_calm, waits }: Context, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      waits.delete(hasten);
      resolve();
    };
    const cancel = host.after(is_calm ? short_ms : ms, done);
    const hasten = () => {
      waits.delete(hasten);
      cancel();
      host.after(short_ms, done);
    };
    waits.add(hasten);
  });
}

function observationOf(process: Process): Observation {
  const { run, spec_hash, started_at, exit } = process;
  return { run, spec_hash, started_at, exit, state: process.is_alive ? 'running' : 'exited' };
}
