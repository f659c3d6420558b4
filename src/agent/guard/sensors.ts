/**
 * Reads a Linux machine for its guard.
 *
 * Invariants: looks and changes nothing; tools run in processes of their own with a deadline, files
 * are small; a look never fails, what could not be read is null.
 */
import { statfsSync } from 'node:fs';
import type { Clock } from '../../lib/clock.ts';
import type { MachineReader } from '../inventory/machine-reader.ts';
import { readButton } from './button.ts';
import { gpu_heat_args, parseGpuHeat, readCpuHeat, readPower } from './power.ts';
import { type CpuTicks, othersMillis, parseMemory, parseStall, parseStat } from './pressure.ts';
import type { OwnerReading, Readings } from './readings.ts';
import {
  judgeSessions,
  judgeTerminals,
  parseSession,
  parseSessionPaths,
  parseWho,
  type Session,
  session_properties,
} from './sessions.ts';

export type Sensors = {
  read(): Promise<Readings>;
  /** What its owner pressed, as text that differs where it does: cheap, to be asked often. */
  pressed(): string;
};

export type SensorDeps = {
  reader: MachineReader;
  clock: Clock;
  /** The data folder: its disk is the one that counts. */
  folder: string;
  button_path: string;
  /** CPU time that runs of ours have used, in milliseconds; null where it cannot be told. */
  oursMs(): Promise<number | null>;
  /** Of the last look at the GPUs; null before there was one. */
  foreignGpus(): string[] | null;
  hasGpus(): boolean;
  cores_millis: number;
};

const tool_timeout_ms = 2_000;
const logind = 'org.freedesktop.login1';
const most_sessions = 32;

type Cpu = { ticks: CpuTicks; ours_ms: number; at: number };

export function createLinuxSensors(deps: SensorDeps): Sensors {
  const { reader, clock, cores_millis } = deps;
  let before: Cpu | null = null;

  async function others(): Promise<number | null> {
    const ticks = parseStat(reader.read('/proc/stat') ?? '');
    const ours_ms = await deps.oursMs().catch(() => null);
    const was = before;
    before = ticks === null || ours_ms === null ? null : { ticks, ours_ms, at: clock.monotonic() };
    if (was === null || before === null || before.at <= was.at) return null;
    // A run that ended took its count with it: then this once nobody can say.
    if (before.ours_ms < was.ours_ms) return null;
    const ours_millis = ((before.ours_ms - was.ours_ms) / (before.at - was.at)) * 1000;
    return othersMillis(was.ticks, before.ticks, cores_millis, ours_millis);
  }

  return {
    pressed: () => pressedNow(deps),
    async read() {
      const [owner, others_millis, gpu_celsius] = await Promise.all([
        lookForOwner(reader, clock),
        others(),
        deps.hasGpus() ? gpuHeat(reader) : null,
      ]);
      const memory = parseMemory(reader.read('/proc/meminfo') ?? '');
      return {
        ...{ others_millis, cores_millis, owner, gpu_celsius },
        memory_available_bytes: memory?.available ?? null,
        memory_total_bytes: memory?.total ?? 0,
        memory_stall_percent: parseStall(reader.read('/proc/pressure/memory')),
        power: readPower(reader),
        cpu_celsius: readCpuHeat(reader),
        foreign_gpus: deps.foreignGpus(),
        ...common(deps),
      };
    },
  };
}

/** What is read the same way on every system. */
export function common({
  folder,
  button_path,
  clock,
}: Pick<SensorDeps, 'folder' | 'button_path' | 'clock'>): Pick<
  Readings,
  'disk' | 'minute' | 'button'
> {
  const pressed = readButton(button_path, clock.now());
  const here = new Date(clock.now());
  return {
    disk: diskOf(folder),
    minute: here.getHours() * 60 + here.getMinutes(),
    button: pressed === null ? null : { level: pressed.now ? 5 : 4, everyone: pressed.everyone },
  };
}

export function pressedNow({ button_path, clock }: Pick<SensorDeps, 'button_path' | 'clock'>) {
  return JSON.stringify(readButton(button_path, clock.now()));
}

function diskOf(folder: string): Readings['disk'] {
  try {
    const stats = statfsSync(folder);
    return { free_bytes: stats.bavail * stats.bsize, total_bytes: stats.blocks * stats.bsize };
  } catch {
    return null;
  }
}

async function lookForOwner(reader: MachineReader, clock: Clock): Promise<OwnerReading> {
  const sessions = await askLogind(reader);
  if (sessions !== null) return judgeSessions(sessions, clock.now());
  const who = await reader.run('who', ['-u'], tool_timeout_ms);
  const is_told = who.outcome === 'exited' && who.code === 0;
  return judgeTerminals(is_told ? parseWho(who.stdout) : null, hasScreen(reader));
}

/** Null where there is no logind, or it does not answer. */
async function askLogind(reader: MachineReader): Promise<Session[] | null> {
  const ask = (args: string[]) => reader.run('busctl', ['--json=short', ...args], tool_timeout_ms);
  const manager = ['/org/freedesktop/login1', `${logind}.Manager`, 'ListSessions'];
  const listed = await ask(['call', logind, ...manager]);
  const paths = listed.code === 0 ? parseSessionPaths(listed.stdout) : null;
  if (paths === null) return null;
  const sessions: Session[] = [];
  for (const path of paths.slice(0, most_sessions)) {
    const said = await ask([
      'get-property',
      logind,
      path,
      `${logind}.Session`,
      ...session_properties,
    ]);
    // A bus that hangs is not asked for each of them.
    if (said.outcome !== 'exited') return null;
    const session = said.code === 0 ? parseSession(said.stdout) : null;
    // One that ended meanwhile is no reason to doubt the others.
    if (session !== null) sessions.push(session);
  }
  return sessions;
}

/** A screen's server leaves its socket where programs look for it. */
function hasScreen(reader: MachineReader): boolean {
  if (reader.list('/tmp/.X11-unix').some((name) => /^X\d+$/.test(name))) return true;
  return reader
    .list('/run/user')
    .some((uid) => reader.list(`/run/user/${uid}`).some((name) => /^wayland-\d+$/.test(name)));
}

async function gpuHeat(reader: MachineReader): Promise<number | null> {
  const said = await reader.run('nvidia-smi', gpu_heat_args, tool_timeout_ms);
  return said.outcome === 'exited' && said.code === 0 ? parseGpuHeat(said.stdout) : null;
}
