/**
 * The folder of one run and the small files in it that say what it is, who keeps it and how it
 * ended.
 *
 * Invariants: `run.json` is on the disk before anything of the run starts; `keeper.json` is linked
 * once, by whoever owns the run; a file that cannot be understood is a value (null), never a guess.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseRunName, type RunExit, type RunKey, runName } from '../../core/run.ts';
import { signalName } from '../../lib/exec.ts';
import { isErrno, readIfThere, writeDurably } from '../../lib/files.ts';
import type { Group } from './cgroup.ts';
import type { Limits } from './group.ts';
import type { ProcessIdentity } from './process.ts';

export type RunLabel = {
  install_id: string;
  run: RunKey;
  spec_hash: string;
  ports: string[];
  limits: Limits;
  /** Null where the user's systemd makes the group. */
  group: Group | null;
  /** Where its workspace stands inside the run; left out by runs from before there were any. */
  workspace?: string | null;
  /** Wall-clock milliseconds. */
  created_at: number;
};

/** `counter` is the file that counts kills for lack of memory. */
export type Keeper = ProcessIdentity & { counter: string };

export type Claim =
  /** No keeper got as far as to own the run. */
  | { by: 'nobody' }
  /** The driver took the run, so that no keeper can start it any more. */
  | { by: 'driver' }
  | { by: 'keeper'; keeper: Keeper };

export type RunFolder = {
  path: string;
  name: string;
  sockets: string;
  output: string;
  options: string;
  /** The users and groups that the sandbox knows. */
  passwd: string;
  group: string;
};

export function runFolder(folder: string, name: string): RunFolder {
  const path = join(folder, name);
  return {
    path,
    name,
    sockets: join(path, 'p'),
    output: join(path, 'out.log'),
    options: join(path, 'bwrap.args'),
    passwd: join(path, 'passwd'),
    group: join(path, 'group'),
  };
}

/** The runs that have a folder, whoever's they are. */
export function listRunFolders(folder: string): RunFolder[] {
  return names(folder)
    .filter((name) => parseRunName(name) !== null)
    .sort()
    .map((name) => runFolder(folder, name));
}

export function writeLabel(at: RunFolder, label: RunLabel): void {
  writeDurably(join(at.path, 'run.json'), `${JSON.stringify(label)}\n`);
}

/** What a folder says it is: `absent` without a label, `unreadable` where it makes no sense. */
export function readLabel(at: RunFolder): RunLabel | 'absent' | 'unreadable' {
  const text = readIfThere(join(at.path, 'run.json'));
  if (text === null) return 'absent';
  const label = parse(text) as Partial<RunLabel> | null;
  if (typeof label?.install_id !== 'string' || typeof label.spec_hash !== 'string') {
    return 'unreadable';
  }
  const { run, limits, group } = label;
  const is_whole =
    typeof run?.workload_id === 'string' &&
    runName(run) === at.name &&
    Array.isArray(label.ports) &&
    typeof limits?.memory_bytes === 'number' &&
    (group === null || typeof group?.memory === 'string') &&
    typeof label.created_at === 'number';
  return is_whole ? (label as RunLabel) : 'unreadable';
}

export function readClaim(at: RunFolder): Claim {
  const text = readIfThere(join(at.path, 'keeper.json'));
  if (text === null) return { by: 'nobody' };
  const found = parse(text) as Partial<Keeper> | null;
  const { pid, start_ticks, boot_id, counter } = found ?? {};
  if (
    typeof pid !== 'number' ||
    typeof start_ticks !== 'number' ||
    typeof boot_id !== 'string' ||
    typeof counter !== 'string'
  ) {
    return { by: 'driver' };
  }
  return { by: 'keeper', keeper: { pid, start_ticks, boot_id, counter } };
}

/** Takes a run that no keeper owns, so that none ever will; false where one was faster. */
export function claimForDriver(at: RunFolder): boolean {
  try {
    writeFileSync(join(at.path, 'keeper.json'), '{}\n', { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if (isErrno(error, 'EEXIST')) return false;
    throw error;
  }
}

/** How the run ended, as far as it was written down; null where it was not. */
export function readExit(at: RunFolder): RunExit | null {
  const text = readIfThere(join(at.path, 'exit.json'));
  if (text === null) return null;
  const found = parse(text) as { status?: unknown; oom_kills?: unknown } | null;
  const status = typeof found?.status === 'number' ? found.status : null;
  return exitOf(status, Number(found?.oom_kills ?? 0));
}

/** Keeps what is known of an end that no keeper wrote down. */
export function writeUnseenExit(at: RunFolder, oom_kills: number): void {
  writeDurably(join(at.path, 'exit.json'), `${JSON.stringify({ status: null, oom_kills })}\n`);
}

/**
 * A shell's exit status as an end. 128 + n is told as code and signal both: only the program knows
 * whether it chose that number or the signal ended it.
 */
export function exitOf(status: number | null, oom_kills: number): RunExit {
  return {
    code: status,
    signal: status !== null && status > 128 ? signalName(status - 128) : null,
    out_of_memory: oom_kills > 0 && status !== 0,
  };
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return [];
    throw error;
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
