/**
 * One run's control group: made, limited, read, emptied and removed.
 *
 * Invariants: limits stand before a process joins; `groupPids` is the whole truth about what still
 * executes; a group is removed only when empty.
 */
import {
  type Dirent,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { isErrno, readIfThere } from '../../lib/files.ts';
import { no_stats, type RunStats } from '../driver.ts';
import type { Group } from './cgroup.ts';
import { signalProcess } from './process.ts';

export type Limits = { memory_bytes: number; cpu_millis: number };

const period_us = 100_000;
export const pids_limit = 1024;

/** The group of a run below `base`: `einsora/<install>/<run>`. */
export function groupOf(base: Group, install_id: string, run_name: string): Group {
  const below = (folder: string | null) =>
    folder === null ? null : join(folder, 'einsora', install_id, run_name);
  return {
    version: base.version,
    memory: join(base.memory, 'einsora', install_id, run_name),
    cpu: below(base.cpu),
    accounting: below(base.accounting),
    pids: below(base.pids),
  };
}

export function foldersOf(group: Group): string[] {
  const all = [group.memory, group.cpu, group.accounting, group.pids];
  return [...new Set(all.filter((folder) => folder !== null))];
}

/** Makes a group with its limits; throws where the kernel refuses. */
export function makeGroup(group: Group, limits: Limits): void {
  for (const folder of foldersOf(group)) {
    mkdirSync(dirname(folder), { recursive: true });
    if (group.version === 2) enableControllers(folder, group);
    mkdirSync(folder, { recursive: true });
  }
  const quota_us = Math.max(1000, Math.round((limits.cpu_millis * period_us) / 1000));
  if (group.pids !== null) set(group.pids, 'pids.max', pids_limit);
  if (group.version === 2) {
    set(group.memory, 'memory.max', limits.memory_bytes);
    if (existsSync(join(group.memory, 'memory.swap.max'))) set(group.memory, 'memory.swap.max', 0);
    if (group.cpu !== null) set(group.cpu, 'cpu.max', `${quota_us} ${period_us}`);
    return;
  }
  set(group.memory, 'memory.limit_in_bytes', limits.memory_bytes);
  if (existsSync(join(group.memory, 'memory.memsw.limit_in_bytes'))) {
    set(group.memory, 'memory.memsw.limit_in_bytes', limits.memory_bytes);
  }
  if (group.cpu !== null) {
    set(group.cpu, 'cpu.cfs_period_us', period_us);
    set(group.cpu, 'cpu.cfs_quota_us', quota_us);
  }
}

/** The file whose `oom_kill` line counts what was killed for lack of memory. */
export function oomCounter(group: Group): string {
  return join(group.memory, group.version === 2 ? 'memory.events' : 'memory.oom_control');
}

export function oomKills(counter: string): number {
  const line = /^oom_kill (\d+)$/m.exec(readIfThere(counter) ?? '');
  return Number(line?.[1] ?? 0);
}

/** Every process that is in the group, in any of its hierarchies, and in those inside of it. */
export function groupPids(group: Group): number[] {
  const folders = foldersOf(group).flatMap((folder) => [folder, ...innerFolders(folder)]);
  return [...new Set(folders.flatMap(folderPids))];
}

/** The processes of one folder of a group; none where it is gone. */
export function folderPids(folder: string): number[] {
  return readGroupFile(folder, 'cgroup.procs').split('\n').map(Number).filter(Boolean);
}

/** Groups inside of a run's: one for each program beside it. They share all that it may use. */
export function innerFolders(folder: string): string[] {
  return entriesOf(folder)
    .filter((entry) => entry.isDirectory() && entry.name.startsWith(inner_prefix))
    .map((entry) => join(folder, entry.name));
}

export const inner_prefix = 'exec-';

/**
 * A group of its own for a program beside a run: made, with the folders that it must join. A folder
 * inside of the one that all hierarchies have tells apart what the program started.
 */
export function makeInner(group: Group, tag: string): { folder: string; joins: string[] } {
  const above = group.version === 2 ? group.memory : (group.pids ?? group.memory);
  const folder = join(above, `${inner_prefix}${tag}`);
  mkdirSync(folder);
  return { folder, joins: [...foldersOf(group).filter((one) => one !== above), folder] };
}

/**
 * What is left of a program beside a run belongs to the run from now on. False where something is
 * still on its way out.
 */
export function dissolveInner(folder: string): boolean {
  for (const pid of folderPids(folder)) {
    try {
      writeFileSync(join(dirname(folder), 'cgroup.procs'), String(pid));
    } catch (error) {
      // It is gone, or the run's group is.
      if (!isErrno(error, 'ESRCH') && !isErrno(error, 'ENOENT')) throw error;
    }
  }
  return removed(folder);
}

function removed(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    return isErrno(error, 'ENOENT');
  }
}

/** Kills what is in the group, but `spared`. Says how many there were. */
export function killGroupPids(group: Group, spared: number | null = null): number {
  const pids = groupPids(group).filter((pid) => pid !== spared);
  for (const pid of pids) signalProcess(pid, 'SIGKILL');
  return pids.length;
}

/** Removes an empty group; false where it is not empty yet. */
export function removeGroup(group: Group): boolean {
  let all_removed = true;
  for (const folder of foldersOf(group)) {
    for (const inner of innerFolders(folder)) removed(inner);
    if (removed(folder)) removeIfEmpty(dirname(folder));
    else all_removed = false;
  }
  return all_removed;
}

/** Removes groups that a killed program left without a run; what is not empty stays. */
export function sweepGroups(base: Group, install_id: string, known: Set<string>): void {
  for (const folder of foldersOf(groupOf(base, install_id, '.'))) {
    for (const entry of entriesOf(folder)) {
      if (known.has(entry.name) || !entry.isDirectory()) continue;
      removeGroup(groupOf(base, install_id, entry.name));
    }
  }
}

/** CPU time used and memory held (without file cache that could be given back at once). */
export function groupStats(group: Group): RunStats {
  const two = group.version === 2;
  const number = (text: string) => (text.trim() === '' ? null : Number(text));
  const cpu =
    group.accounting === null
      ? null
      : two
        ? field(readGroupFile(group.accounting, 'cpu.stat'), 'usage_usec')
        : number(readGroupFile(group.accounting, 'cpuacct.usage'));
  const used = number(
    readGroupFile(group.memory, two ? 'memory.current' : 'memory.usage_in_bytes'),
  );
  const cache = field(
    readGroupFile(group.memory, 'memory.stat'),
    two ? 'inactive_file' : 'total_inactive_file',
  );
  return {
    ...no_stats,
    cpu_ms: cpu === null ? null : Math.round(cpu / (two ? 1e3 : 1e6)),
    memory_bytes: used === null ? null : Math.max(0, used - (cache ?? 0)),
  };
}

/** Controllers reach a folder only where each folder above hands them on. */
function enableControllers(folder: string, group: Group): void {
  const wanted = [
    'memory',
    ...(group.cpu === null ? [] : ['cpu']),
    ...(group.pids === null ? [] : ['pids']),
  ];
  const install = dirname(folder);
  const einsora = dirname(install);
  for (const parent of [dirname(einsora), einsora, install]) {
    const active = readGroupFile(parent, 'cgroup.subtree_control').trim().split(' ');
    const missing = wanted.filter((controller) => !active.includes(controller));
    if (missing.length === 0) continue;
    set(parent, 'cgroup.subtree_control', missing.map((name) => `+${name}`).join(' '));
  }
}

/** The install's own folder goes with its last run; no other program makes groups in it. */
export function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (error) {
    const is_expected = ['EBUSY', 'ENOTEMPTY', 'ENOENT'].some((code) => isErrno(error, code));
    if (!is_expected) throw error;
  }
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return [];
    throw error;
  }
}

function set(folder: string, file: string, value: number | string): void {
  writeFileSync(join(folder, file), String(value));
}

/** A file of a group; empty where the group is gone. */
export function readGroupFile(folder: string, file: string): string {
  try {
    return readFileSync(join(folder, file), 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT') || isErrno(error, 'ENODEV')) return '';
    throw error;
  }
}

function field(text: string, name: string): number | null {
  const match = new RegExp(`^${name} (\\d+)$`, 'm').exec(text);
  return match?.[1] === undefined ? null : Number(match[1]);
}
