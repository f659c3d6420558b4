/**
 * Makes a run stand still where it is, and go on, and get little CPU: by the kernel's freezer of
 * version 2 or 1, or by signals where there is neither.
 *
 * Invariants: once `freeze` resolves nothing of the run executes, whatever it started meanwhile;
 * whether it stands still is read from the kernel, so that another program finds it; after `thaw`
 * nothing of ours is left in the freezer.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Clock } from '../../lib/clock.ts';
import { isErrno, readIfThere } from '../../lib/files.ts';
import type { Group } from './cgroup.ts';
import { folderPids, foldersOf, groupPids, readGroupFile, removeIfEmpty } from './group.ts';
import { processState, signalProcess } from './process.ts';

/** Where the kernel's freezer stands for a run. */
export type Freezer =
  | { way: 'two'; folder: string }
  /** A hierarchy of its own, in which the run gets a group while it stands still. */
  | { way: 'one'; mount: string; folder: string }
  | { way: 'signals' };

const poll_ms = 10;
const patience_ms = 5_000;

export function freezerOf(
  group: Group,
  mountinfo: string = readIfThere('/proc/self/mountinfo') ?? '',
): Freezer {
  if (group.version === 2) {
    const there = existsSync(join(group.memory, 'cgroup.freeze'));
    return there ? { way: 'two', folder: group.memory } : { way: 'signals' };
  }
  const mount = freezerMount(mountinfo);
  if (mount === null) return { way: 'signals' };
  // The same names below it as below the other hierarchies: einsora/<install>/<run>.
  const names = group.memory.split('/').slice(-3);
  return { way: 'one', mount, folder: join(mount, ...names) };
}

export function freezerMount(mountinfo: string): string | null {
  for (const line of mountinfo.split('\n')) {
    const [before, after] = line.split(' - ');
    const [type, , options] = after?.split(' ') ?? [];
    if (type !== 'cgroup' || options?.split(',').includes('freezer') !== true) continue;
    return before?.split(' ')[4] ?? null;
  }
  return null;
}

export function isFrozen(group: Group, freezer: Freezer): boolean {
  if (freezer.way === 'two') return read(freezer.folder, 'cgroup.freeze') === '1';
  if (freezer.way === 'one') {
    const state = read(freezer.folder, 'freezer.state');
    return state === 'FROZEN' || state === 'FREEZING';
  }
  const pids = groupPids(group);
  return pids.length > 0 && pids.every((pid) => isStopped(pid));
}

/** Resolves once all of it stands still; throws where it does not in time, and lets it go on. */
export async function freeze(group: Group, freezer: Freezer, clock: Clock): Promise<void> {
  const deadline = clock.monotonic() + patience_ms;
  begin(freezer);
  while (!(await standsStill(group, freezer))) {
    if (clock.monotonic() > deadline) {
      thaw(group, freezer);
      throw new Error('it does not stand still');
    }
    await clock.sleep(poll_ms);
  }
}

/** Lets it go on. What was not frozen goes on as it did. */
export function thaw(group: Group, freezer: Freezer): void {
  if (freezer.way === 'two') {
    write(freezer.folder, 'cgroup.freeze', '0');
  } else if (freezer.way === 'one') {
    if (!existsSync(freezer.folder)) return;
    write(freezer.folder, 'freezer.state', 'THAWED');
    for (const pid of folderPids(freezer.folder)) move(pid, freezer.mount);
    for (const folder of [freezer.folder, dirname(freezer.folder)]) removeIfEmpty(folder);
  } else {
    for (const pid of groupPids(group)) if (isStopped(pid)) signalProcess(pid, 'SIGCONT');
  }
}

function begin(freezer: Freezer): void {
  if (freezer.way === 'two') write(freezer.folder, 'cgroup.freeze', '1');
  if (freezer.way !== 'one') return;
  mkdirSync(freezer.folder, { recursive: true });
  write(freezer.folder, 'freezer.state', 'FROZEN');
}

/** One look, which also catches what is new: a process may start another until it is caught. */
async function standsStill(group: Group, freezer: Freezer): Promise<boolean> {
  if (freezer.way === 'two') return /^frozen 1$/m.test(read(freezer.folder, 'cgroup.events'));
  const pids = groupPids(group);
  if (freezer.way === 'signals') {
    const going = pids.filter((pid) => !isStopped(pid));
    for (const pid of going) signalProcess(pid, 'SIGSTOP');
    return going.length === 0;
  }
  const caught = new Set(folderPids(freezer.folder));
  const free = pids.filter((pid) => !caught.has(pid));
  for (const pid of free) move(pid, freezer.folder);
  return free.length === 0 && read(freezer.folder, 'freezer.state') === 'FROZEN';
}

function isStopped(pid: number): boolean {
  const state = processState(pid);
  return state === null || state === 'T' || state === 'Z' || state === 'X';
}

/** Shares of CPU against whoever else wants it: a tenth of what everybody has, or that. */
const weights = { two: { low: '10', usual: '100' }, one: { low: '102', usual: '1024' } } as const;

export function setWeight(group: Group, is_low: boolean): void {
  const { cpu } = group;
  if (cpu === null) return;
  const { low, usual } = group.version === 2 ? weights.two : weights.one;
  const file = group.version === 2 ? 'cpu.weight' : 'cpu.shares';
  if (!foldersOf(group).every((folder) => existsSync(folder))) return;
  writeFileSync(join(cpu, file), is_low ? low : usual);
}

export function isLowered({ version, cpu }: Group): boolean {
  if (cpu === null) return false;
  const { low } = version === 2 ? weights.two : weights.one;
  return read(cpu, version === 2 ? 'cpu.weight' : 'cpu.shares') === low;
}

function move(pid: number, folder: string): void {
  try {
    writeFileSync(join(folder, 'cgroup.procs'), String(pid));
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error; // it ended meanwhile
  }
}

function write(folder: string, file: string, value: string): void {
  try {
    writeFileSync(join(folder, file), value);
  } catch (error) {
    if (!isErrno(error, 'ENOENT') && !isErrno(error, 'ENODEV')) throw error;
  }
}

function read(folder: string, file: string): string {
  return readGroupFile(folder, file).trim();
}
