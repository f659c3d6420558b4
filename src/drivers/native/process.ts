/**
 * Processes as /proc shows them.
 *
 * Invariants: a process is known by pid, start time and boot, so a pid that was given to another
 * process is never taken for the first; a zombie counts as gone; what cannot be read throws.
 */
import { readFileSync } from 'node:fs';
import { isErrno } from '../../lib/files.ts';

export type ProcessIdentity = { pid: number; start_ticks: number; boot_id: string };

/** What names this boot of the machine. */
export function readBootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}

/** When a process started, in ticks since boot; null where it is gone or only a zombie. */
export function startTicks(pid: number): number | null {
  const stat = readProcess(pid, 'stat');
  return stat === null ? null : parseStat(stat);
}

/** Reads start time out of a line of /proc/PID/stat; null for a zombie. */
export function parseStat(stat: string): number | null {
  // The name may hold spaces and brackets: only what follows the last bracket is fields.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const state = fields[0];
  if (state === 'Z' || state === 'X') return null;
  const ticks = Number(fields[19]);
  if (!Number.isSafeInteger(ticks)) throw new Error('a line of /proc/PID/stat is not understood');
  return ticks;
}

/** The letter by which the kernel names what a process does; null where it is gone. */
export function processState(pid: number): string | null {
  const stat = readProcess(pid, 'stat');
  return stat === null ? null : (stat.slice(stat.lastIndexOf(')') + 2).split(' ')[0] ?? null);
}

export function isAlive(identity: ProcessIdentity, boot_id: string): boolean {
  return identity.boot_id === boot_id && startTicks(identity.pid) === identity.start_ticks;
}

/** The pid that a process has in its innermost namespace, or null where it is gone. */
export function innerPid(pid: number): { pid: number; depth: number } | null {
  const line = /^NSpid:\s*(.*)$/m.exec(readProcess(pid, 'status') ?? '');
  const pids = line?.[1]?.trim().split(/\s+/).map(Number);
  const last = pids?.at(-1);
  return pids === undefined || last === undefined ? null : { pid: last, depth: pids.length };
}

/** Those of `pids` in a pid namespace below this one, with the pid that they have there. */
export function insideOf(pids: number[]): { pid: number; inner: number }[] {
  const own_depth = innerPid(process.pid)?.depth ?? 1;
  return pids.flatMap((pid) => {
    const inner = innerPid(pid);
    return inner !== null && inner.depth > own_depth ? [{ pid, inner: inner.pid }] : [];
  });
}

/** Signals one process; one that is gone already is no error. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
  }
}

function readProcess(pid: number, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT') || isErrno(error, 'ESRCH')) return null;
    throw error;
  }
}
