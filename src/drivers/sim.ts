/**
 * The driver `sim`: no processes, only a clock. Runs start, get ready, fail and refuse to end as a
 * script says, so that what stands above drivers can be tried against any bad day.
 *
 * Invariants: those of `Driver`; the same seed, script and clock give the same story. What it
 * answers says that it is made up. With a folder its runs outlive the driver, as real ones would.
 */
import { join } from 'node:path';
import { type ReasonCode, sentenceOf } from '../core/reasons.ts';
import { parseRunName, type RunExit, type RunKey, runName } from '../core/run.ts';
import type { DriverName } from '../core/trust.ts';
import type { Clock } from '../lib/clock.ts';
import { makePrivateFolder, readIfThere, writeDurably } from '../lib/files.ts';
import { fraction, type Random } from '../lib/random.ts';
import {
  type Driver,
  DriverError,
  no_stats,
  type Observation,
  type RunSpec,
  type RunStats,
} from './driver.ts';
import { createKeyedMutex } from './mutex.ts';
import { cutPiece, pieceAt } from './output.ts';
import { createSimFiles, type SimFiles } from './sim-files.ts';
import { serve, sim_answer } from './sim-server.ts';
import { playExec } from './sim-shell.ts';

/** What one run goes through. Everything left out goes well and fast. */
export type SimPlan = {
  /** How long `start` takes; up to a tenth is added by the seed. */
  start_ms?: number;
  start_error?: ReasonCode;
  /** After the start: until /health says 200. Null: never. */
  ready_after_ms?: number | null;
  /** After the start: when and how it ends by itself. */
  exit?: { after_ms: number; how: RunExit };
  /** How many times `stop` is refused before it works. */
  refused_stops?: number;
  stop_ms?: number;
  /** A line of output. */
  prints?: string;
  /** `observe` cannot tell what became of it. */
  is_unknown?: boolean;
};

export type SimOptions = {
  folder?: string;
  clock: Clock;
  random: Random;
  script?: (run: RunKey) => SimPlan;
  /** Whose row of the trust matrix it takes, in dev mode; left out: its own. */
  as?: DriverName | null;
};

type SimRun = {
  run: RunKey;
  spec_hash: string;
  ports: string[];
  plan: SimPlan;
  /** What it found in its workspace; null for a run without one. */
  found?: 'it' | 'nothing' | null;
  /** UUIDs of its GPUs, as made up as it is. */
  gpu_uuids?: string[];
  /** Wall-clock milliseconds, so that they hold over a restart. */
  started_at: number;
  refused: number;
  /** How it was ended from outside. */
  stopped: RunExit | null;
  /** It stands still; its clock goes on, so that scripts stay simple. */
  paused?: boolean;
};

const stopped_by_us: RunExit = { code: 143, signal: 'SIGTERM', out_of_memory: false };

export function createSimDriver(options: SimOptions): Driver {
  const { clock } = options;
  const runs = openState(options.folder);
  const mutex = createKeyedMutex();
  /** A run that has not ended; null where there is none. */
  const alive = (run: RunKey) => {
    const found = runs.get(runName(run));
    return found !== undefined && endOf(found, clock.now()) === null ? found : null;
  };
  /** One that can be reached. */
  const awake = (run: RunKey, code: ReasonCode, port = '') => {
    const found = alive(run);
    if (found === null) throw refuse(code, 'it does not run', port);
    if (found.paused) throw refuse(code, 'it stands still', port);
    return found;
  };
  const setPaused = (run: RunKey, is_paused: boolean) =>
    mutex.run(runName(run), async () => markPaused(alive(run), is_paused, runs));
  const { besideOf, over } = createBeside(clock);
  return {
    name: 'sim',
    as: options.as ?? null,
    probe: async () => ({
      driver: 'sim',
      ready: true,
      reason: null,
      findings: [{ check: 'sim', status: 'ok', message: sim_answer, fix: null }],
    }),
    start: (spec, signal) => mutex.run(runName(spec.run), () => start(options, runs, spec, signal)),
    stop: (run, mode) =>
      mutex.run(runName(run), async () => {
        await stop(clock, runs, run, mode);
        over(run);
      }),
    observe: async () => runs.list().map((found) => observed(found, clock.now())),
    pause: (run) => setPaused(run, true),
    resume: (run) => setPaused(run, false),
    // Nothing here uses any CPU.
    lower: async () => undefined,
    async logs(run, offset, limit) {
      const output = outputOf(runs.get(runName(run)), clock.now());
      const { from, to } = pieceAt(output.length, offset, limit);
      const has_ended = alive(run) === null;
      const piece = { from, size: output.length, is_tail: offset < 0, has_ended };
      return cutPiece(output.subarray(from, to), piece);
    },
    async dial(run, port_name) {
      const found = awake(run, 'port_unreachable', port_name);
      if (!found.ports.includes(port_name)) {
        throw refuse('port_unreachable', 'it has no such port', port_name);
      }
      const wait_ms = found.plan.ready_after_ms === undefined ? 0 : found.plan.ready_after_ms;
      return serve(() => wait_ms !== null && clock.now() >= found.started_at + wait_ms);
    },
    stats: async (run) => statsOf(alive(run), clock.now()),
    ...insideOf(awake, besideOf, clock),
    async erase(workload_id) {
      const held = runs.list().some(({ run }) => run.workload_id === workload_id);
      if (held) throw refuse('workspace_in_use', 'a run is there');
      runs.forget(workload_id);
    },
  };
}

function statsOf(found: SimRun | null, now_ms: number): RunStats {
  if (found === null) return no_stats;
  const gpus = (found.gpu_uuids ?? []).map((uuid) => ({
    ...{ uuid, busy_percent: 50, memory_bytes: 2 ** 30 },
  }));
  const used = { cpu_ms: now_ms - found.started_at, memory_bytes: 2 ** 27 };
  return { ...no_stats, ...used, gpus: gpus.length === 0 ? null : gpus };
}

type Awake = (run: RunKey, code: ReasonCode) => SimRun;
type BesideOf = ReturnType<typeof createBeside>['besideOf'];

/** What reaches into a run. */
function insideOf(
  awake: Awake,
  besideOf: BesideOf,
  clock: Clock,
): Pick<Driver, 'connect' | 'exec' | 'files'> {
  return {
    async connect(run) {
      awake(run, 'port_unreachable');
      return serve(() => true);
    },
    async exec(run, ask, signal) {
      awake(run, 'exec_failed');
      const own = besideOf(run);
      const ends = AbortSignal.any([signal, own.over.signal]);
      return playExec(ask, { clock, files: own.files, over: ends });
    },
    async files(run) {
      awake(run, 'file_refused');
      return besideOf(run).files;
    },
  };
}

/** Files and programs beside each run. */
function createBeside(clock: Clock) {
  const beside = new Map<string, { files: SimFiles; over: AbortController }>();
  return {
    besideOf(run: RunKey) {
      const name = runName(run);
      const made = { files: createSimFiles(clock), over: new AbortController() };
      const found = beside.get(name) ?? made;
      beside.set(name, found);
      return found;
    },
    over(run: RunKey) {
      beside.get(runName(run))?.over.abort();
      beside.delete(runName(run));
    },
  };
}

async function start(
  { script, clock, random }: SimOptions,
  runs: SimState,
  spec: RunSpec,
  signal: AbortSignal,
): Promise<void> {
  const name = runName(spec.run);
  if (runs.get(name) !== undefined) return;
  const plan = script?.(spec.run) ?? {};
  const start_ms = plan.start_ms ?? 0;
  if (start_ms > 0) await clock.sleep(start_ms * (1 + fraction(random) / 10), signal);
  const why = refusal(spec, plan, signal);
  if (why !== null) throw why;
  const { run, spec_hash, ports, gpu_uuids = [] } = spec;
  const started_at = clock.now();
  const found = spec.workspace ? (runs.isKept(run.workload_id) ? 'it' : 'nothing') : null;
  if (found !== null) runs.keep(run.workload_id);
  runs.set(name, {
    ...{ run, spec_hash, ports, plan, found, gpu_uuids, started_at },
    ...{ refused: 0, stopped: null },
  });
}

async function stop(
  clock: Clock,
  runs: SimState,
  run: RunKey,
  mode: 'park' | 'remove',
): Promise<void> {
  const name = runName(run);
  const found = runs.get(name);
  if (found === undefined) return;
  if (endOf(found, clock.now()) === null) {
    if (found.plan.stop_ms !== undefined) await clock.sleep(found.plan.stop_ms);
    if (found.refused < (found.plan.refused_stops ?? 0)) {
      runs.set(name, { ...found, refused: found.refused + 1 });
      throw refuse('stop_unproven', 'the script refuses it');
    }
  }
  const stopped = endOf(found, clock.now()) ?? stopped_by_us;
  if (mode === 'remove') runs.delete(name);
  else runs.set(name, { ...found, stopped });
}

function markPaused(found: SimRun | null, paused: boolean, runs: SimState): void {
  if (found === null || (found.paused ?? false) === paused) return;
  const { paused: _, ...rest } = found;
  runs.set(runName(found.run), paused ? { ...rest, paused } : rest);
}

function refusal(spec: RunSpec, plan: SimPlan, signal: AbortSignal): DriverError | null {
  if (signal.aborted) return refuse('start_failed', 'it was called off');
  if (spec.argv.length === 0) return refuse('start_failed', 'there is no program to run');
  if (parseRunName(runName(spec.run)) === null) return refuse('start_failed', 'no name of a run');
  return plan.start_error === undefined ? null : refuse(plan.start_error, 'the script says so');
}

function refuse(code: ReasonCode, why: string, port = ''): DriverError {
  return new DriverError(code, sentenceOf(code, { why, port }));
}

/** How a run has ended by now, or null while it runs. */
function endOf(found: SimRun, now_ms: number): RunExit | null {
  if (found.stopped !== null) return found.stopped;
  const { exit } = found.plan;
  return exit !== undefined && now_ms >= found.started_at + exit.after_ms ? exit.how : null;
}

function observed(found: SimRun, now_ms: number): Observation {
  const { run, spec_hash, started_at } = found;
  if (found.plan.is_unknown) return { run, spec_hash, state: 'unknown', exit: null, started_at };
  const exit = endOf(found, now_ms);
  if (exit !== null) return { run, spec_hash, state: 'exited', exit, started_at };
  const paused = found.paused ? { paused: true } : {};
  return { run, spec_hash, state: 'running', exit, started_at, ...paused };
}

function outputOf(found: SimRun | undefined, now_ms: number): Buffer {
  if (found === undefined) return Buffer.alloc(0);
  const lines = [`sim: ${runName(found.run)} started\n`];
  const { gpu_uuids = [] } = found;
  if (gpu_uuids.length > 0) lines.push(`sim: has ${gpu_uuids.join(', ')}\n`);
  if (found.found) lines.push(`sim: found ${found.found} in its workspace\n`);
  if (found.plan.prints !== undefined) lines.push(`${found.plan.prints}\n`);
  const end = endOf(found, now_ms);
  if (end !== null) lines.push(`sim: ended with ${end.code ?? end.signal ?? 'nothing known'}\n`);
  return Buffer.from(lines.join(''));
}

type SimState = {
  get(name: string): SimRun | undefined;
  list(): SimRun[];
  set(name: string, run: SimRun): void;
  delete(name: string): void;
  /** Which workloads have something in a workspace. */
  isKept(workload_id: string): boolean;
  keep(workload_id: string): void;
  forget(workload_id: string): void;
};

type Stored = { runs: [string, SimRun][]; kept: string[] };

/** The runs, kept in a file where there is a folder. */
function openState(folder: string | undefined): SimState {
  const path = folder === undefined ? null : join(folder, 'sim.json');
  if (folder !== undefined) makePrivateFolder(folder);
  const text = path === null ? null : readIfThere(path);
  const stored: Stored = text === null ? { runs: [], kept: [] } : JSON.parse(text);
  const runs = new Map<string, SimRun>(stored.runs);
  const kept = new Set<string>(stored.kept);
  const save = () => {
    const now: Stored = { runs: [...runs], kept: [...kept] };
    if (path !== null) writeDurably(path, JSON.stringify(now));
  };
  return {
    get: (name) => runs.get(name),
    list: () => [...runs.values()],
    set: (name, run) => {
      runs.set(name, run);
      save();
    },
    delete: (name) => {
      runs.delete(name);
      save();
    },
    isKept: (workload_id) => kept.has(workload_id),
    keep(workload_id) {
      kept.add(workload_id);
      save();
    },
    forget(workload_id) {
      kept.delete(workload_id);
      save();
    },
  };
}
