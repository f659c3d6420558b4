/**
 * The driver `linux-native`: runs in a bubblewrap sandbox, each with a keeper that outlives this
 * program, capped by control groups.
 *
 * Invariants: those of `Driver`. A run is its folder below `folder`; who owns it is settled once,
 * by linking keeper.json, so that this program may be killed at any moment: the next one finds what
 * runs, starts nothing twice and learns how ended what ended meanwhile. Nothing runs without
 * sandbox and cap.
 */
import { existsSync } from 'node:fs';
import { parseRunName, type RunKey, runName } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import { makePrivateFolder } from '../../lib/files.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { Random } from '../../lib/random.ts';
import {
  type Driver,
  DriverError,
  type DriverProbe,
  type Finding,
  no_stats,
  type Observation,
  type RunSpec,
} from '../driver.ts';
import { createKeyedMutex, type KeyedMutex } from '../mutex.ts';
import { describeCaps, detectCaps, type Group, readCapsSnapshot } from './cgroup.ts';
import { connectInside } from './connect.ts';
import { driverError, portUnreachable } from './errors.ts';
import { execInside, type Inside } from './exec.ts';
import { filesInside } from './files.ts';
import { freeze, freezerOf, isFrozen, isLowered, setWeight, thaw } from './freeze.ts';
import { groupStats, oomKills, removeGroup } from './group.ts';
import { halt } from './halt.ts';
import { type Judgement, judge } from './judge.ts';
import { claimForDriver, type RunFolder, type RunLabel, readLabel } from './label.ts';
import { launch, systemd_run } from './launch.ts';
import { boundOutput, readOutput } from './output.ts';
import { readBootId } from './process.ts';
import { createRuns, type Runs } from './runs.ts';
import { type BwrapFinder, checkSandbox } from './sandbox.ts';
import { connectToPort } from './socket.ts';
import { createWorkspaces, type Workspaces } from './workspaces.ts';

export type NativeOptions = {
  /** The private folder of runs in the data folder. */
  folder: string;
  /** The private folder of what workloads keep. */
  workspaces: string;
  install_id: string;
  bwrap: BwrapFinder;
  clock: Clock;
  random: Random;
  log: Log;
};

type Context = {
  install_id: string;
  clock: Clock;
  log: Log;
  boot_id: string;
  runs: Runs;
  workspaces: Workspaces;
  /** Runs that are being started: not yet owned, and not to be taken away. */
  starting: Set<string>;
  /** The bubblewrap that was tried. */
  bwrap(): Promise<string>;
};

export function createNativeDriver(options: NativeOptions): Driver {
  const { folder, install_id, clock, log } = options;
  if (!/^[0-9a-z-]{1,64}$/.test(install_id)) throw new Error(`bad install id: ${install_id}`);
  makePrivateFolder(folder);
  const boot_id = readBootId();
  const runs = createRuns({ ...options, boot_id });
  const bwrap = triedBwrap(options.bwrap);
  const workspaces = createWorkspaces({ ...options, folder: options.workspaces });
  const parts = { install_id, clock, log, boot_id, runs, workspaces, bwrap };
  const context: Context = { ...parts, starting: new Set() };
  const mutex = createKeyedMutex();

  return {
    name: 'linux-native',
    probe: () => probe(options.bwrap),
    start: (spec, signal) => mutex.run(runName(spec.run), () => start(context, spec, signal)),
    async observe() {
      // Not when it is made: a driver that only probes may stand beside the one that runs things.
      runs.sweep();
      workspaces.sweep();
      return runs.list().flatMap(({ at, label }) => observeOrDoubt(context, at, label) ?? []);
    },
    stop: (run, mode, grace_ms) =>
      mutex.run(runName(run), async () => {
        const at = runs.at(run);
        const label = runs.label(at);
        if (label === null) return;
        await halt(at, label, grace_ms, { clock, boot_id });
        if (mode === 'remove') runs.remove(at);
      }),
    ...pausing(runs, mutex, clock),
    async logs(run, offset, limit) {
      const found = runs.look(run);
      if (found === null) return { text: '', next_offset: 0, end: true };
      return readOutput(found.at.output, offset, limit, found.seen.state === 'exited');
    },
    async dial(run, port_name) {
      const found = runs.look(run);
      if (found?.seen.state !== 'running') throw portUnreachable(port_name, 'it does not run');
      if (!found.label.ports.includes(port_name)) {
        throw portUnreachable(port_name, 'it has no such port');
      }
      if (standsStill(found)) throw portUnreachable(port_name, 'it stands still');
      return connectToPort(found.at.sockets, port_name);
    },
    async stats(run) {
      const found = runs.look(run);
      if (found?.seen.state !== 'running') return no_stats;
      const { group, keeper } = found.seen;
      const disk_bytes = workspaces.bytesOf(run.workload_id);
      return { ...groupStats(group), disk_bytes, oom_kills: oomKills(keeper.counter) };
    },
    exec: async (run, ask, signal) => execInside(lookInside(runs, run), ask, signal, options),
    connect: async (run, tcp_port) => connectInside(lookInside(runs, run), tcp_port),
    files: async (run) => filesInside(() => lookInside(runs, run), options.random),
    async erase(workload_id) {
      const names = [...context.starting, ...runs.list().map(({ at }) => at.name)];
      const held = names.filter((name) => name.startsWith(`${workload_id}.`));
      if (held.length > 0) {
        throw driverError('workspace_in_use', { why: `${held.join(', ')} is still there` });
      }
      await workspaces.erase(workload_id);
    },
  };
}

function lookInside(runs: Runs, run: RunKey): Inside {
  const found = runs.look(run);
  if (found === null) throw driverError('exec_failed', { why: 'it is not here' });
  if (standsStill(found)) throw driverError('exec_failed', { why: 'it stands still' });
  return found;
}

function standsStill({ seen }: { seen: Judgement }): boolean {
  return seen.state === 'running' && isFrozen(seen.group, freezerOf(seen.group));
}

function treatmentOf(seen: Judgement): Pick<Observation, 'paused' | 'lowered'> {
  if (seen.state !== 'running') return {};
  const paused = standsStill({ seen }) ? { paused: true } : {};
  return { ...paused, ...(isLowered(seen.group) ? { lowered: true } : {}) };
}

type Pausing = Required<Pick<Driver, 'pause' | 'resume' | 'lower'>>;

function pausing(runs: Runs, mutex: KeyedMutex, clock: Clock): Pausing {
  /** With the group of a run that runs; what is gone is left alone. */
  const withGroup = (run: RunKey, work: (group: Group) => void | Promise<void>) =>
    mutex.run(runName(run), async () => {
      const seen = runs.look(run)?.seen;
      if (seen?.state === 'running') await work(seen.group);
    });
  return {
    pause: (run) => withGroup(run, (group) => freeze(group, freezerOf(group), clock)),
    resume: (run) => withGroup(run, (group) => thaw(group, freezerOf(group))),
    lower: (run, is_low) => withGroup(run, (group) => setWeight(group, is_low)),
  };
}

async function start(context: Context, spec: RunSpec, signal: AbortSignal): Promise<void> {
  const { install_id, runs, starting } = context;
  const at = runs.at(spec.run);
  if (parseRunName(at.name) === null) {
    throw driverError('start_failed', { why: `${at.name} is no name of a run` });
  }
  const label = readLabel(at);
  if (label === 'unreadable' || (label !== 'absent' && label.install_id !== install_id)) {
    throw driverError('start_failed', { why: `${at.path} is not a run of this install` });
  }
  if (label !== 'absent' && judge(at, label, context.boot_id).state !== 'unclaimed') return;
  if (signal.aborted) throw driverError('start_failed', { why: 'it was called off' });
  const bwrap = await context.bwrap();
  starting.add(at.name);
  try {
    await launch(at, spec, signal, { ...context, bwrap });
  } catch (error) {
    // What may still run keeps its folder, to be found by.
    const may_run = error instanceof DriverError && error.code === 'stop_unproven';
    if (!may_run && existsSync(at.path)) runs.remove(at);
    throw error;
  } finally {
    starting.delete(at.name);
  }
}

/** A run that cannot be judged is in doubt, and does not keep the others from being listed. */
function observeOrDoubt(context: Context, at: RunFolder, label: RunLabel): Observation | null {
  try {
    return observeOne(context, at, label);
  } catch (error) {
    const fields = { folder: at.path, error: describeError(error) };
    context.log.warn(fields, 'a run could not be judged');
    return doubt(label);
  }
}

function observeOne(context: Context, at: RunFolder, label: RunLabel): Observation | null {
  const { run, spec_hash } = label;
  const seen = judge(at, label, context.boot_id);
  if (seen.state !== 'unclaimed') {
    boundOutput(at.output);
    const exit = seen.state === 'exited' ? seen.exit : null;
    const { state, started_at } = seen;
    return { run, spec_hash, state, exit, started_at, ...treatmentOf(seen) };
  }
  if (context.starting.has(at.name)) return doubt(label);
  // The program was killed before a keeper took over. Taking the run keeps it so: nothing ran.
  if (!claimForDriver(at)) return observeOne(context, at, label);
  if (label.group !== null) removeGroup(label.group);
  context.runs.remove(at);
  return null;
}

function doubt({ run, spec_hash }: RunLabel): Observation {
  return { run, spec_hash, state: 'unknown', exit: null, started_at: null };
}

/** Looks for bubblewrap each time, but tries only one that was not seen working before. */
function triedBwrap(finder: BwrapFinder): () => Promise<string> {
  const working = new Set<string>();
  return async () => {
    const found = await finder.find();
    if ('path' in found && working.has(`${found.version} ${found.path}`)) return found.path;
    const check = await checkSandbox({ find: async () => found });
    if (check.path === null) throw driverError('sandbox_missing', { why: check.why });
    if ('path' in found) working.add(`${found.version} ${found.path}`);
    return check.path;
  };
}

async function probe(bwrap: BwrapFinder): Promise<DriverProbe> {
  const sandbox = await checkSandbox(bwrap);
  const caps = detectCaps(readCapsSnapshot(systemd_run));
  const is_capped = caps.way !== 'none';
  const caps_finding: Finding = {
    check: 'caps',
    status: is_capped ? 'ok' : 'missing',
    message: describeCaps(caps),
    fix: is_capped ? null : 'run bin/einsora up as root, or in a systemd user session',
  };
  const reason =
    sandbox.path === null ? 'sandbox_missing' : is_capped ? null : ('cap_missing' as const);
  return {
    driver: 'linux-native',
    ready: reason === null,
    reason,
    findings: [sandbox.finding, caps_finding],
  };
}
