/**
 * Downloads into a folder of contents: one at a time for each content, whoever asks.
 *
 * Invariants: a content is in place under its SHA-256 only whole, checked and durable; two that
 * want the same share one transfer, in this process or between processes, and one that is called
 * off ends it only where nobody else wants it; a download that a crash cut short goes on, and its
 * lock goes with its process.
 */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type LockResult, takeLock } from '../lib/wheel-lock.ts';
import { bring, tell } from './download-bring.ts';
import {
  type Content,
  contentKey,
  type DownloadContext,
  type DownloadsOptions,
  find,
  isHeld,
  pathsOf,
  sizeOf,
  type Task,
} from './download-files.ts';
import { ensureRoom } from './download-room.ts';
import { SourceError } from './source-error.ts';
import type { PlannedFile, SourcePlan } from './source-plan.ts';

const touch_ms = 5000;

export type Downloads = {
  /** Brings one file. `onBytes` gets what is on the disk. Throws SourceError, or the abort. */
  fetch(
    plan: SourcePlan,
    file: PlannedFile,
    signal: AbortSignal,
    onBytes: (done: number) => void,
  ): Promise<Content>;
  /** What is here already, or null. */
  find(file: PlannedFile): Promise<Content | null>;
  /** Refuses what the disk has no room for, with what goes on already counted. */
  ensureRoom(what: string, files: readonly PlannedFile[]): Promise<void>;
  /** Throws away what has come of a file, unless it is being fetched. */
  discard(key: string): Promise<void>;
};

export function createDownloads(options: DownloadsOptions): Downloads {
  const context: DownloadContext = { ...options, tasks: new Map() };
  return {
    fetch: (plan, file, signal, onBytes) => fetchShared(context, plan, file, signal, onBytes),
    find: (file) => find(context, file),
    ensureRoom: (what, files) => ensureRoom(context, what, files),
    async discard(key) {
      const { part, lock } = pathsOf(context, key);
      const task = context.tasks.get(key);
      // One that was called off just now is on its way to end.
      if (task !== undefined && task.listeners.size === 0) await task.promise.catch(() => {});
      // Another process may be at it: then it is theirs.
      if (context.tasks.has(key) || isHeld(lock, context.net.clock.now())) return;
      await Promise.all([part, lock].map((path) => rm(path, { force: true })));
    },
  };
}

async function fetchShared(
  context: DownloadContext,
  plan: SourcePlan,
  file: PlannedFile,
  signal: AbortSignal,
  onBytes: (done: number) => void,
): Promise<Content> {
  const key = contentKey(file);
  for (;;) {
    signal.throwIfAborted();
    const here = await find(context, file);
    if (here !== null) return here;
    const joined = context.tasks.get(key);
    const task = joined ?? begin(context, plan, file, key);
    try {
      return await listen(task, signal, onBytes);
    } catch (error) {
      signal.throwIfAborted();
      // Another's token and being called off are not ours; the network's failures are.
      if (joined === undefined || (error instanceof SourceError && !ofToken(error))) throw error;
    }
  }
}

function ofToken({ code }: SourceError): boolean {
  const codes = ['hub_gated', 'hub_token_refused', 'hub_repo_not_found', 'hub_rate_limited'];
  return codes.includes(code);
}

function begin(context: DownloadContext, plan: SourcePlan, file: PlannedFile, key: string): Task {
  const controller = new AbortController();
  const task: Task = {
    ...{ controller, listeners: new Set(), done_bytes: 0, bytes: file.bytes },
    promise: Promise.resolve().then(() => underLock(context, plan, file, key, task)),
  };
  context.tasks.set(key, task);
  const over = () => void context.tasks.delete(key);
  task.promise.then(over, over);
  return task;
}

/** Waits with a task; the last one to leave ends it. */
async function listen(
  task: Task,
  signal: AbortSignal,
  onBytes: (done: number) => void,
): Promise<Content> {
  // A function of its own, so that one caller may listen twice.
  const listener = (done: number) => onBytes(done);
  task.listeners.add(listener);
  listener(task.done_bytes);
  let leave = () => {};
  const left = new Promise<never>((_, reject) => {
    leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave(); // whoever listens may have called it off just now
  });
  try {
    return await Promise.race([task.promise, left]);
  } finally {
    signal.removeEventListener('abort', leave);
    task.listeners.delete(listener);
    if (task.listeners.size === 0) task.controller.abort();
  }
}

async function underLock(
  context: DownloadContext,
  plan: SourcePlan,
  file: PlannedFile,
  key: string,
  task: Task,
): Promise<Content> {
  const { folder, net } = context;
  for (const name of ['blobs', 'partial', 'keys']) {
    await mkdir(join(folder, name), { recursive: true, mode: 0o700 });
  }
  const { part, lock: path } = pathsOf(context, key);
  const { signal } = task.controller;
  let found: Content | null = null;
  const look = async () => {
    found = await find(context, file);
  };
  const lock = await takeLock({
    ...{ path, clock: net.clock, signal, holder: { pid: process.pid, folder: part } },
    done: () => found !== null,
    onWait: () => {
      tell(task, sizeOf(part) ?? 0);
      void look();
    },
  });
  signal.throwIfAborted();
  if (lock.outcome !== 'taken') {
    if (found !== null) return found;
    throw new Error('a lock was neither taken nor of use');
  }
  const ended = new AbortController();
  const touching = keepTouching(context, lock, ended.signal);
  try {
    return (await find(context, file)) ?? (await bring(context, plan, file, key, task));
  } finally {
    ended.abort();
    await touching;
    await lock.release();
  }
}

async function keepTouching(
  { net }: DownloadContext,
  lock: LockResult & { outcome: 'taken' },
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    await lock.touch();
    await net.clock.sleep(touch_ms, ended);
  }
}
