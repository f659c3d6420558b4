/**
 * Programs beside a run, inside its own sandbox (ADR-0046): enter.sh joins the run's control groups
 * and enters the namespaces of its program.
 *
 * Invariants: same files, user, network and caps as the run, and no capabilities; the kernel ends
 * what is inside with the run's first process, so nothing outlives it; a program has a group of its
 * own inside the run's, by which it is killed with all that it started.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../lib/clock.ts';
import { killGroup, type Spawned } from '../../lib/exec.ts';
import { isErrno } from '../../lib/files.ts';
import { describeError } from '../../lib/log.ts';
import { spawnOnPipes } from '../../lib/pipes.ts';
import { type OnTerminal, spawnOnTerminal } from '../../lib/pty.ts';
import type { Random } from '../../lib/random.ts';
import type { ExecAsk, ExecSession } from '../../lib/session.ts';
import { toSession } from '../../lib/spawned-session.ts';
import type { Group } from './cgroup.ts';
import { driverError } from './errors.ts';
import { dissolveInner, folderPids, makeInner } from './group.ts';
import { groupOfRun, type Judgement } from './judge.ts';
import type { RunFolder, RunLabel } from './label.ts';
import { keeper_env, keeperShell, scopeCommand } from './launch.ts';
import { insideOf, signalProcess, startTicks } from './process.ts';

export type Inside = {
  at: RunFolder;
  label: RunLabel;
  seen: Judgement;
};

const script = fileURLToPath(new URL('./enter.sh', import.meta.url));
const kill_poll_ms = 20;
const kill_patience_ms = 10_000;
const dissolve_tries = 100;
const argument_bytes = 128 * 1024;
const default_path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export async function execInside(
  inside: Inside,
  ask: ExecAsk,
  signal: AbortSignal,
  { clock, random }: { clock: Clock; random: Random },
): Promise<ExecSession> {
  const { at, label } = inside;
  const target = programOf(inside);
  checkAsk(ask);
  if (signal.aborted) throw refuse('it was called off');
  const tag = Buffer.from(random.bytes(8)).toString('hex');
  const place = placeFor(inside, target.group, tag);
  const environment = join(at.path, `.${tag}.env`);
  const ended = async () => {
    signal.removeEventListener('abort', killer.kill);
    rmSync(environment, { force: true });
    // What was killed takes the kernel a moment. A scope is systemd's to remove.
    for (let tries = 0; label.group !== null && tries < dissolve_tries; tries += 1) {
      if (dissolveInner(place.folder)) return;
      await clock.sleep(kill_poll_ms);
    }
  };
  const killer = createKiller(place.folder, clock);
  try {
    writeFileSync(environment, assignments(target.pid, ask, label), { mode: 0o600, flag: 'wx' });
    const [command, ...before] = place.command;
    const args = [
      ...[...before, script, String(target.pid), String(target.ticks), environment],
      ...[ask.cwd ?? label.workspace ?? '', ask.terminal === null ? '0' : '1'],
      ...[...place.joins, '--', ...ask.argv],
    ];
    const where = { env: place.env, cwd: '/' };
    const spawned =
      ask.terminal === null
        ? await spawnOnPipes(command, args, { ...where, folder: at.path, tag })
        : spawnOnTerminal(command, args, { ...where, size: ask.terminal, no_stdin: true });
    killer.of(spawned);
    signal.addEventListener('abort', killer.kill, { once: true });
    if (signal.aborted) killer.kill();
    const resize = 'resize' in spawned ? { resize: (spawned as OnTerminal).resize } : {};
    return toSession(spawned, { clock, kill: killer.kill, ended, ...resize });
  } catch (error) {
    await ended();
    throw refuse(describeError(error), error);
  }
}

/** The program that a running run is: its namespaces are the sandbox, whole and settled. */
export function programOf({ label, seen }: Inside, refusal: (why: string) => Error = refuse) {
  if (seen.state !== 'running') throw refusal('it does not run');
  const group = groupOfRun(label, seen.keeper);
  const pid = insideOf(folderPids(group.memory)).find(({ inner }) => inner === 2)?.pid;
  const ticks = pid === undefined ? null : startTicks(pid);
  if (pid === undefined || ticks === null) throw refusal('it is only just starting');
  return { pid, ticks, group };
}

function checkAsk({ argv, env, cwd }: ExecAsk): void {
  const texts = [...argv, ...Object.entries(env).flat(), cwd ?? ''];
  if (texts.some((text) => text.includes('\0'))) throw refuse('an argument holds a NUL');
  if (texts.some((text) => Buffer.byteLength(text) >= argument_bytes)) {
    throw refuse('an argument is too long');
  }
  const wrong = Object.keys(env).find((name) => !isVariable(name));
  if (wrong !== undefined) throw refuse(`${wrong} is no name of a variable`);
}

type Place = {
  /** Its own control group. */
  folder: string;
  joins: string[];
  /** What runs enter.sh. */
  command: [string, ...string[]];
  env: Record<string, string>;
};

/**
 * Where the program is kept: in a group inside the run's. Where the user's systemd makes groups,
 * nobody else may move a process into one: there it gets a scope beside the run's, with the same
 * caps.
 */
function placeFor({ at, label }: Inside, group: Group, tag: string): Place {
  if (label.group === null) {
    const unit = `einsora-${label.install_id}-${at.name}-exec-${tag}.scope`;
    return {
      folder: join(dirname(group.memory), unit),
      joins: [],
      command: [...scopeCommand(unit, label.limits), keeperShell()],
      env: { ...keeper_env, XDG_RUNTIME_DIR: `/run/user/${process.getuid?.() ?? 0}` },
    };
  }
  try {
    return { ...makeInner(group, tag), command: [keeperShell()], env: keeper_env };
  } catch (error) {
    throw refuse(isErrno(error, 'ENOENT') ? 'it has ended' : describeError(error), error);
  }
}

/** What the run's own program was given, and on top of it what is asked for. */
function assignments(pid: number, { env, terminal }: ExecAsk, { workspace }: RunLabel): string {
  const given: Record<string, string> = {
    PATH: default_path,
    HOME: workspace ?? '/tmp',
    ...environmentOf(pid),
    ...(terminal === null ? {} : { TERM: 'xterm-256color' }),
    ...env,
  };
  const lines = Object.entries(given).filter(([name]) => isVariable(name));
  return lines.map(([name, value]) => `export ${name}=${quoted(value)}\n`).join('');
}

function environmentOf(pid: number): Record<string, string> {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT') || isErrno(error, 'ESRCH') || isErrno(error, 'EACCES')) return {};
    throw error;
  }
  const pairs = text.split('\0').map((line) => line.split(/=(.*)/s, 2));
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
}

function isVariable(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name);
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * Kills what was started, with all that it started: it may not have joined its group yet, and may
 * fork meanwhile, so that it is met again until it has ended and its group is empty.
 */
function createKiller(folder: string, clock: Clock) {
  let started: Spawned | null = null;
  let has_ended = false;
  let is_killing = false;

  async function killAll(): Promise<void> {
    const deadline = clock.monotonic() + kill_patience_ms;
    while (clock.monotonic() < deadline) {
      const pids = existsSync(folder) ? folderPids(folder) : [];
      if (has_ended && pids.length === 0) return;
      for (const pid of pids) signalProcess(pid, 'SIGKILL');
      if (started !== null && !has_ended) killGroup(started.pid, 'SIGKILL');
      await clock.sleep(kill_poll_ms);
    }
  }

  return {
    of(spawned: Spawned) {
      started = spawned;
      void spawned.exited.then(() => {
        has_ended = true;
      });
    },
    kill() {
      if (!is_killing) void killAll();
      is_killing = true;
    },
  };
}

function refuse(why: string, cause?: unknown) {
  return driverError('exec_failed', { why }, cause);
}
