/**
 * Starts a run: checks, folder, label, limits, and then its keeper.
 *
 * Invariants: the label is on the disk and the limits stand before anything starts; resolves when a
 * keeper owns the run; a start that fails or is called off leaves no process and no group (the
 * caller removes the folder).
 */
import { existsSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runName } from '../../core/run.ts';
import type { Clock } from '../../lib/clock.ts';
import { spawnDetached } from '../../lib/exec.ts';
import { isErrno, makePrivateFolder } from '../../lib/files.ts';
import { describeError } from '../../lib/log.ts';
import { DriverError, type RunSpec } from '../driver.ts';
import { type CapsWay, detectCaps, readCapsSnapshot } from './cgroup.ts';
import { driverError } from './errors.ts';
import {
  foldersOf,
  groupOf,
  type Limits,
  makeGroup,
  oomCounter,
  pids_limit,
  removeGroup,
} from './group.ts';
import { halt } from './halt.ts';
import { type RunFolder, type RunLabel, readClaim, writeLabel } from './label.ts';
import { signalProcess, startTicks } from './process.ts';
import { readHostSnapshot, sandboxOptions } from './sandbox.ts';
import { isPortName } from './socket.ts';
import type { Workspaces } from './workspaces.ts';

export const systemd_run = '/usr/bin/systemd-run';
const keeper_script = fileURLToPath(new URL('./keeper.sh', import.meta.url));
/** The keeper's own environment; the run gets another one inside its sandbox. */
export const keeper_env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };
const claim_timeout_ms = 10_000;
const claim_poll_ms = 5;

export type LaunchContext = {
  install_id: string;
  clock: Clock;
  boot_id: string;
  /** The bubblewrap that was found and tried. */
  bwrap: string;
  workspaces: Workspaces;
};

export async function launch(
  at: RunFolder,
  spec: RunSpec,
  signal: AbortSignal,
  context: LaunchContext,
): Promise<void> {
  checkSpec(at, spec);
  const caps = detectCaps(readCapsSnapshot(systemd_run));
  if (caps.way === 'none') throw driverError('cap_missing', { why: caps.why });
  const label = labelFor(spec, caps, context);
  let pid: number | null = null;
  try {
    prepare(at, spec, label, context.workspaces);
    const [command, ...args] = keeperCommand(at, spec, label, caps, context.bwrap);
    const env: Record<string, string> = { ...keeper_env };
    if (caps.way === 'systemd') env.XDG_RUNTIME_DIR = `/run/user/${caps.uid}`;
    pid = spawnDetached(command, args, { env, cwd: '/' });
    await untilKept(at, pid, signal, context.clock);
    checkCap(at, label);
  } catch (error) {
    await undo(at, label, pid, context);
    if (error instanceof DriverError) throw error;
    throw driverError('start_failed', { why: describeError(error) }, error);
  }
}

/** Programmer's and user's mistakes that bubblewrap would only tell in the run's output. */
function checkSpec(at: RunFolder, spec: RunSpec): void {
  const refuse = (why: string) => {
    throw driverError('start_failed', { why });
  };
  const mounts = spec.mounts.flatMap(({ source, target }) => [source, target]);
  const names = Object.keys(spec.env);
  const texts = [...spec.argv, ...names, ...Object.values(spec.env), ...mounts];
  if (texts.some((text) => text.includes('\0'))) refuse('a text in its spec holds a NUL');
  if (spec.argv.length === 0) refuse('there is no program to run');
  if (names.some((name) => name === '' || name.includes('='))) refuse('a variable has no name');
  if (!spec.ports.every(isPortName)) refuse('a port has no valid name');
  const { workspace = null, network, image = null } = spec;
  if (image !== null) refuse(`it runs the machine's own programs, no image such as ${image}`);
  if (network === 'fenced') refuse("it cannot fence a network: it has none or the machine's own");
  if (workspace !== null && !/^\/[a-z]+$/.test(workspace.target)) {
    refuse(`${workspace.target} is no place for a workspace`);
  }
  const runs = dirname(at.path);
  const own = existsSync(runs) ? realpathSync(runs) : runs;
  for (const { source, target } of spec.mounts) {
    if (!isAbsolute(source) || !isAbsolute(target)) refuse(`${source} is no absolute path`);
    if (!existsSync(source)) refuse(`${source} does not exist`);
    const real = realpathSync(source);
    if (isWithin(own, real) || isWithin(real, own)) refuse(`${source} holds the folders of runs`);
  }
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`);
}

function labelFor(spec: RunSpec, caps: CapsWay, context: LaunchContext): RunLabel {
  const { install_id, clock } = context;
  return {
    install_id,
    run: spec.run,
    spec_hash: spec.spec_hash,
    ports: spec.ports,
    limits: { memory_bytes: spec.memory_bytes, cpu_millis: spec.cpu_millis },
    group: caps.way === 'folders' ? groupOf(caps.base, install_id, runName(spec.run)) : null,
    workspace: spec.workspace?.target ?? null,
    created_at: clock.now(),
  };
}

function prepare(at: RunFolder, spec: RunSpec, label: RunLabel, workspaces: Workspaces): void {
  makePrivateFolder(at.path);
  writeLabel(at, label);
  makePrivateFolder(at.sockets);
  const workspace = spec.workspace ? workspaces.prepare(spec.run.workload_id, at, spec) : null;
  const own = { sockets: at.sockets, workspace };
  const options = sandboxOptions(spec, own, readHostSnapshot());
  writeFileSync(at.options, options.map((option) => `${option}\0`).join(''), { mode: 0o600 });
  if (label.group === null) return;
  try {
    makeGroup(label.group, label.limits);
  } catch (error) {
    throw driverError('cap_missing', { why: describeError(error) }, error);
  }
}

function keeperCommand(
  at: RunFolder,
  spec: RunSpec,
  label: RunLabel,
  caps: CapsWay,
  bwrap: string,
): [string, ...string[]] {
  const keeper = (counter: string, groups: string[]): [string, ...string[]] => {
    return [keeperShell(), keeper_script, at.path, bwrap, counter, ...groups, '--', ...spec.argv];
  };
  if (label.group !== null) return keeper(oomCounter(label.group), foldersOf(label.group));
  const mount = caps.way === 'systemd' ? caps.mount : '/sys/fs/cgroup';
  const unit = `einsora-${label.install_id}-${at.name}.scope`;
  return [...scopeCommand(unit, label.limits), ...keeper(`@${mount}`, [])];
}

/** Runs what follows in a scope of the user's own systemd. */
export function scopeCommand(
  unit: string,
  { memory_bytes, cpu_millis }: Limits,
): [string, ...string[]] {
  return [
    systemd_run,
    ...['--user', '--scope', '--quiet', '--collect'],
    `--unit=${unit}`,
    ...['-p', `MemoryMax=${memory_bytes}`, '-p', 'MemorySwapMax=0'],
    ...['-p', `CPUQuota=${Math.max(1, Math.round(cpu_millis / 10))}%`],
    ...['-p', `TasksMax=${pids_limit}`],
    '--',
  ];
}

/** bash where it is: only it can close every descriptor that an ancestor left open. */
export function keeperShell(): string {
  return existsSync('/bin/bash') ? '/bin/bash' : '/bin/sh';
}

async function untilKept(
  at: RunFolder,
  pid: number,
  signal: AbortSignal,
  clock: Clock,
): Promise<void> {
  const deadline = clock.monotonic() + claim_timeout_ms;
  for (;;) {
    if (signal.aborted) throw driverError('start_failed', { why: 'it was called off' });
    // Looked at before the claim: a keeper that has ended since may have claimed and finished.
    const is_there = startTicks(pid) !== null;
    if (readClaim(at).by === 'keeper') return;
    if (!is_there) throw driverError('start_failed', { why: 'its keeper ended at once' });
    if (clock.monotonic() > deadline) {
      throw driverError('start_failed', { why: 'its keeper does not begin' });
    }
    await clock.sleep(claim_poll_ms, signal);
  }
}

/** A scope that systemd made without a limit on memory is no cap. */
function checkCap(at: RunFolder, label: RunLabel): void {
  const claim = readClaim(at);
  if (label.group !== null || claim.by !== 'keeper') return;
  try {
    const limit = readFileSync(join(dirname(claim.keeper.counter), 'memory.max'), 'utf8');
    if (limit.trim() !== 'max') return;
  } catch (error) {
    // A run that ended already took its scope with it.
    if (isErrno(error, 'ENOENT') && startTicks(claim.keeper.pid) === null) return;
  }
  throw driverError('cap_missing', { why: 'the systemd user session does not limit memory' });
}

async function undo(
  at: RunFolder,
  label: RunLabel,
  pid: number | null,
  context: LaunchContext,
): Promise<void> {
  if (!existsSync(at.path)) return;
  await halt(at, label, 0, context);
  while (pid !== null && startTicks(pid) !== null) {
    signalProcess(pid, 'SIGKILL');
    await context.clock.sleep(claim_poll_ms);
  }
  if (label.group !== null) removeGroup(label.group);
}
