/**
 * One install at a time per target, also between processes.
 *
 * Invariants: a lock dies with its process: it is taken over when that process is gone, or when it
 * has not been touched for `stale_ms` of watching (a process id can be used again). The lock only
 * saves work: correctness comes from private folders and one rename, so a lock taken over wrongly
 * costs a second download and nothing else.
 */
import { randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import type { Clock } from './clock.ts';
import { isErrno } from './files.ts';

export type LockHolder = { pid: number; folder: string };

const stale_ms = 30_000;
const poll_ms = 200;

export type LockRequest = {
  path: string;
  holder: LockHolder;
  clock: Clock;
  signal: AbortSignal;
  /** Called at each look while another process holds it. */
  onWait(holder: LockHolder): void;
  /** Ends the waiting early: what the other one does is done. */
  done(): boolean;
};

/** taken: ours until `release`; done: no need any more; aborted: the signal came first. */
export type LockResult =
  | { outcome: 'taken'; touch(): Promise<void>; release(): Promise<void> }
  | { outcome: 'done' }
  | { outcome: 'aborted' };

export async function takeLock(request: LockRequest): Promise<LockResult> {
  const { path, clock, signal } = request;
  let seen = { mtime_ms: -1, since: clock.monotonic() };
  while (!signal.aborted) {
    if (request.done()) return { outcome: 'done' };
    if (await claim(path, request.holder)) return taken(path, clock);
    const current = await look(path);
    if (current === null) continue;
    if (current.mtime_ms !== seen.mtime_ms) {
      seen = { mtime_ms: current.mtime_ms, since: clock.monotonic() };
    }
    if (!isAlive(current.holder.pid) || clock.monotonic() - seen.since > stale_ms) {
      await discard(path);
      continue;
    }
    request.onWait(current.holder);
    await clock.sleep(poll_ms, signal);
  }
  return { outcome: 'aborted' };
}

/** Whether a process of this machine is there, whoever owns it. */
export function isAlive(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isErrno(error, 'EPERM');
  }
}

/** A link is made in one step and with its content, so no lock is ever seen half written. */
async function claim(path: string, holder: LockHolder): Promise<boolean> {
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, JSON.stringify(holder), { mode: 0o600 });
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if (isErrno(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

async function look(path: string): Promise<{ holder: LockHolder; mtime_ms: number } | null> {
  try {
    const [text, stats] = [await readFile(path, 'utf8'), await stat(path)];
    return { holder: JSON.parse(text) as LockHolder, mtime_ms: stats.mtimeMs };
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return null;
    // Damaged (a power cut): held by nobody.
    if (error instanceof SyntaxError) return { holder: { pid: 0, folder: '' }, mtime_ms: 0 };
    throw error;
  }
}

/** Moved aside first: of two that found it dead, only one can take the name away. */
async function discard(path: string): Promise<void> {
  const aside = `${path}.${randomUUID()}`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
  }
  await rm(aside, { force: true });
}

function taken(path: string, clock: Clock): LockResult {
  return {
    outcome: 'taken',
    touch: async () => {
      const now = clock.now() / 1000;
      await utimes(path, now, now).catch(() => {});
    },
    release: () => rm(path, { force: true }),
  };
}
