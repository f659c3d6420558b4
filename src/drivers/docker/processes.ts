/**
 * Processes of containers, where the engine runs on this very machine and its pids are ours.
 *
 * Invariants: a pid counts only while its control group names the container, so that a number that
 * was given to somebody else is never signalled; where pids cannot be seen, nothing is claimed.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { readIfThere } from '../../lib/files.ts';
import type { EngineVersion } from './engine.ts';

/** Whether the engine's processes are seen from here: not with one in a virtual machine. */
export function seesProcesses(version: EngineVersion): boolean {
  return process.platform === 'linux' && version.os === 'linux' && version.kernel === release();
}

/** The control groups of a process, as the kernel lists them; empty where it is gone. */
function groupsOf(pid: number): string {
  return readProcess(pid, 'cgroup') ?? '';
}

/** Whether a process of this container has this pid. */
export function isOfContainer(pid: number, container_id: string): boolean {
  return pid > 0 && groupsOf(pid).includes(container_id);
}

/** Every process of a container. */
export function containerPids(container_id: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isOfContainer(pid, container_id));
}

/** Those of a container whose environment holds `text`. */
export function markedPids(container_id: string, text: string): number[] {
  return containerPids(container_id).filter((pid) => readProcess(pid, 'environ')?.includes(text));
}

/** Kills for lack of memory in a container, by its first process; null where it cannot be told. */
export function oomKillsOf(pid: number, container_id: string): number | null {
  const groups = groupsOf(pid);
  if (!groups.includes(container_id)) return null;
  const two = /^0::(\/.*)$/m.exec(groups)?.[1];
  const one = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(\/.*)$/m.exec(groups)?.[1];
  const file =
    one !== undefined
      ? `/sys/fs/cgroup/memory${one}/memory.oom_control`
      : two !== undefined
        ? `/sys/fs/cgroup${two}/memory.events`
        : null;
  const text = file === null ? null : readIfThere(file);
  const count = /^oom_kill (\d+)$/m.exec(text ?? '')?.[1];
  return count === undefined ? null : Number(count);
}

export function signalPid(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

function readProcess(pid: number, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return null;
  }
}
