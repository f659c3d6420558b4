/**
 * The driver `docker`: runs in containers of the machine's Docker Engine.
 *
 * Invariants: those of `Driver`. The engine's list of containers with our labels is the truth; a
 * folder of each run keeps what must outlive its container (ADR-0043). While the engine is away
 * every run of this install that had not ended is unknown, none is absent.
 */
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { type RunKey, runName } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import { makePrivateFolder } from '../../lib/files.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { Random } from '../../lib/random.ts';
import { type Driver, DriverError, no_stats, type Observation } from '../driver.ts';
import { createKeyedMutex, type KeyedMutex } from '../mutex.ts';
import { readOutput } from '../native/output.ts';
import { connectToPort } from '../native/socket.ts';
import { connectInContainer } from './connect.ts';
import { type Container, containerName, type RunLabels } from './container.ts';
import { createEngine, type Engine } from './engine.ts';
import { driverError, EngineDown } from './engine-error.ts';
import { openExec } from './exec.ts';
import { doorHost } from './fence.ts';
import { containerFiles } from './files.ts';
import { createImages, type Images } from './images.ts';
import { ensureFencedNetwork, type Fence } from './network.ts';
import { createOutputPuller, type OutputPuller } from './output.ts';
import { isPaused, lowerContainer, pauseContainer, resumeContainer, treatmentOf } from './pause.ts';
import { probeDocker } from './probe.ts';
import { type PullPatience, pull_patience } from './pull.ts';
import {
  listRunFolders,
  makeRunFolder,
  readEnd,
  removeRunFolder,
  runFolder,
} from './run-folder.ts';
import { startRun } from './start.ts';
import { containerStats } from './stats.ts';
import { endContainer, putAway, removeForSure } from './stop.ts';
import { eraseVolume } from './volume.ts';
import { createWatch, type Watch, type Watched } from './watch.ts';

export type DockerOptions = {
  /** The private folder of runs in the data folder. */
  folder: string;
  install_id: string;
  /** The engine's socket. */
  socket_path: string;
  /** Keeps fenced runs out of local networks; without one, none starts. */
  fence: Fence | null;
  clock: Clock;
  random: Random;
  log: Log;
  patience?: PullPatience;
};

type Context = DockerOptions & {
  engine: Engine;
  images: Images;
  watch: Watch;
  output: OutputPuller;
  mutex: KeyedMutex;
  /** Runs that are being started: made, maybe not yet begun, and not to be taken away. */
  starting: Set<string>;
};

export function createDockerDriver(options: DockerOptions): Driver {
  const { folder, install_id, socket_path, clock } = options;
  if (!/^[0-9a-z-]{1,64}$/.test(install_id)) throw new Error(`bad install id: ${install_id}`);
  makePrivateFolder(folder);
  const engine = createEngine(socket_path, clock);
  const patience = options.patience ?? pull_patience;
  const context: Context = {
    ...options,
    engine,
    images: createImages({ engine, clock, patience }),
    watch: createWatch({ engine, install_id, clock }),
    output: createOutputPuller(engine),
    mutex: createKeyedMutex(),
    starting: new Set(),
  };
  const exclusively = <T>(run: RunKey, work: () => Promise<T>) =>
    context.mutex.run(runName(run), work);
  return {
    name: 'docker',
    probe: () => probeDocker(engine, context.watch.troubles(), options.fence),
    start: (spec, signal) =>
      exclusively(spec.run, async () => {
        context.starting.add(runName(spec.run));
        try {
          await startRun(context, spec, signal);
        } finally {
          context.starting.delete(runName(spec.run));
        }
      }),
    observe: () => observe(context),
    stop: (run, mode, grace_ms) => exclusively(run, () => stop(context, run, mode, grace_ms)),
    ...pausing(context),
    logs: (run, offset, limit) => logs(context, run, offset, limit),
    dial: (run, port_name) => dial(context, run, port_name),
    async stats(run) {
      const found = await running(context, run);
      return found === null ? no_stats : containerStats(engine, found.container);
    },
    async exec(run, ask, signal) {
      const { container } = await needRunning(context, run);
      return openExec(context, container, ask, signal);
    },
    async files(run) {
      const { container } = await needRunning(context, run);
      return containerFiles(context, container);
    },
    async connect(run, tcp_port) {
      const found = await lookFor(context, run, 'port_unreachable');
      if (found?.judgement.state === 'running' && !isPaused(found.container)) {
        return connectInContainer(engine, found.container, tcp_port);
      }
      throw driverError('port_unreachable', { port: String(tcp_port), why: 'it does not run' });
    },
    erase: (workload_id) => erase(context, workload_id),
    async gatewayHost() {
      const { door } = await ensureFencedNetwork(engine, install_id, options.fence);
      return door === null ? null : doorHost(door);
    },
    bringImage: async (image, onProgress, signal, sign_in) => {
      const found = await context.images.ensure(image, signal, onProgress, sign_in);
      const { reference, digest } = found;
      return digest === null ? reference : `${reference} (${digest.slice(0, 19)})`;
    },
  };
}

type Pausing = Required<Pick<Driver, 'pause' | 'resume' | 'lower'>>;

function pausing(context: Context): Pausing {
  /** With the container of a run that runs; what is gone is left alone. */
  const withContainer = (run: RunKey, work: (container: Container) => Promise<void>) =>
    context.mutex.run(runName(run), async () => {
      const found = await lookFor(context, run, 'exec_failed');
      if (found?.judgement.state === 'running') await work(found.container);
    });
  const { engine } = context;
  return {
    pause: (run) => withContainer(run, (one) => pauseContainer(engine, one)),
    resume: (run) => withContainer(run, (one) => resumeContainer(engine, one)),
    lower: (run, is_low) => withContainer(run, (one) => lowerContainer(engine, one, is_low)),
  };
}

async function observe(context: Context): Promise<Observation[]> {
  const { folder, install_id, log } = context;
  let here: Watched[];
  try {
    here = await context.watch.all();
  } catch (error) {
    const runs = listRunFolders(folder, install_id);
    const fields = { error: describeError(error), runs: runs.length };
    if (runs.length > 0) log.warn(fields, 'the Docker Engine could not be asked for its runs');
    return runs.map(({ at, labels }) => kept(at, labels));
  }
  const seen = await Promise.all(here.map((one) => observeOne(context, one)));
  const names = new Set(here.map(({ labels }) => runName(labels.run)));
  const parked = listRunFolders(folder, install_id)
    .filter(({ at }) => !names.has(at.name) && readEnd(at) !== null)
    .map(({ at, labels }) => kept(at, labels));
  return [...seen.flatMap((one) => one ?? []), ...parked].sort((a, b) =>
    runName(a.run) < runName(b.run) ? -1 : 1,
  );
}

/** What the folder alone says. Without an end, only the engine could tell. */
function kept(at: ReturnType<typeof runFolder>, { run, spec_hash }: RunLabels): Observation {
  const end = readEnd(at);
  if (end === null) return { run, spec_hash, state: 'unknown', exit: null, started_at: null };
  return { run, spec_hash, state: 'exited', exit: end.exit, started_at: end.started_at };
}

async function observeOne(context: Context, one: Watched): Promise<Observation | null> {
  const { labels, judgement } = one;
  const { run, spec_hash } = labels;
  if (judgement.state !== 'unbegun') {
    const exit = judgement.state === 'exited' ? judgement.exit : null;
    const { state, started_at } = judgement;
    const treatment = state === 'running' ? treatmentOf(one.container) : {};
    return { run, spec_hash, state, exit, started_at, ...treatment };
  }
  const doubt = { run, spec_hash, state: 'unknown', exit: null, started_at: null } as const;
  if (context.starting.has(runName(run))) return doubt;
  // The program was killed between the two calls: nothing of it ever ran.
  return context.mutex.run(runName(run), async () => {
    try {
      const now = await context.watch.one(one.container.id);
      if (now?.judgement.state === 'unbegun') {
        await removeForSure(context, one.container.id);
        removeRunFolder(runFolder(context.folder, run));
        return null;
      }
      return now === null ? null : observeOne(context, now);
    } catch (error) {
      const fields = { run: runName(run), error: describeError(error) };
      context.log.warn(fields, 'a container that never began could not be removed');
      return doubt;
    }
  });
}

async function stop(
  context: Context,
  run: RunKey,
  mode: 'park' | 'remove',
  grace_ms: number,
): Promise<void> {
  const at = runFolder(context.folder, run);
  const found = await lookFor(context, run, 'stop_unproven');
  if (found !== null) {
    const end = await endContainer(context, at, found.container, grace_ms);
    if (mode === 'park') {
      // Its folder may be lost, or from another data folder.
      makeRunFolder(at, found.labels);
      await putAway(context, at, found.container, end);
    } else {
      await removeForSure(context, found.container.id);
    }
  }
  if (mode === 'remove') removeRunFolder(at);
}

async function erase(context: Context, workload_id: string): Promise<void> {
  const { engine, install_id, folder } = context;
  const refuse = (why: string, cause?: unknown) =>
    driverError('workspace_in_use', { name: workload_id, why }, cause);
  try {
    const here = await context.watch.all();
    const runs = [...here, ...listRunFolders(folder, install_id)].map(({ labels }) => labels.run);
    if (runs.some((run) => run.workload_id === workload_id)) throw refuse('a run of it is here');
    await eraseVolume(engine, install_id, workload_id);
  } catch (error) {
    if (error instanceof DriverError) throw error;
    throw refuse(describeError(error), error);
  }
}

async function logs(context: Context, run: RunKey, offset: number, limit: number) {
  const at = runFolder(context.folder, run);
  const end = readEnd(at);
  if (end !== null) return readOutput(at.output, offset, limit, true);
  let is_over = false;
  try {
    const found = await lookFor(context, run, 'port_unreachable');
    is_over = found === null;
    if (found !== null) {
      makePrivateFolder(at.path);
      const has_ended = found.judgement.state === 'exited';
      is_over = (await context.output.pull(at, found.container.id, has_ended)).is_whole;
    }
  } catch (error) {
    // What was read before is better than nothing; the rest comes when the engine is back.
    context.log.debug({ run: at.name, error: describeError(error) }, 'no new output');
  }
  return readOutput(at.output, offset, limit, is_over);
}

async function dial(context: Context, run: RunKey, port_name: string): Promise<Duplex> {
  const unreachable = (why: string, cause?: unknown) =>
    driverError('port_unreachable', { port: port_name, why }, cause);
  const found = await lookFor(context, run, 'port_unreachable');
  if (found?.judgement.state !== 'running') throw unreachable('it does not run');
  const { labels, container } = found;
  if (isPaused(container)) throw unreachable('it stands still');
  if (labels.ports.includes(port_name)) {
    return connectToPort(runFolder(context.folder, run).sockets, port_name);
  }
  const inner = labels.tcp_ports[port_name];
  if (inner === undefined) throw unreachable('it has no such port');
  const port = container.published[String(inner)];
  if (port === undefined) throw unreachable('the engine has not published it');
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', (error) => reject(unreachable(error.message, error)));
    socket.once('connect', () => {
      socket.removeAllListeners('error');
      resolve(socket);
    });
  });
}

/** The container of a run; null where there is none. An engine that is away is an error. */
async function lookFor(
  context: Context,
  run: RunKey,
  code: 'stop_unproven' | 'port_unreachable' | 'exec_failed',
): Promise<Watched | null> {
  try {
    const found = await context.watch.one(containerName(run));
    return found !== null && runName(found.labels.run) === runName(run) ? found : null;
  } catch (error) {
    if (error instanceof DriverError) throw error;
    const details = { why: describeError(error), port: '', name: run.workload_id };
    throw driverError(code, details, error);
  }
}

async function running(context: Context, run: RunKey): Promise<Watched | null> {
  try {
    const found = await lookFor(context, run, 'exec_failed');
    return found?.judgement.state === 'running' ? found : null;
  } catch (error) {
    if (error instanceof DriverError && error.cause instanceof EngineDown) return null;
    throw error;
  }
}

async function needRunning(context: Context, run: RunKey): Promise<Watched> {
  const found = await lookFor(context, run, 'exec_failed');
  const is_paused = found !== null && isPaused(found.container);
  if (found?.judgement.state === 'running' && !is_paused) return found;
  const why = is_paused ? 'it stands still' : 'it does not run';
  throw driverError('exec_failed', { name: run.workload_id, why });
}
