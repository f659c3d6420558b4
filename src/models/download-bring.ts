/**
 * One download from its first try to its place.
 *
 * Invariants: only checked bytes get a name; what proves wrong or fills the disk is thrown away at
 * once; tries are bounded, and counted anew when bytes have come.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatBytes } from '../core/format.ts';
import { isErrno, syncFolder, writeDurably } from '../lib/files.ts';
import { fraction } from '../lib/random.ts';
import {
  blobPath,
  type Content,
  type DownloadContext,
  pathsOf,
  sizeOf,
  type Task,
} from './download-files.ts';
import { ensureRoom, full } from './download-room.ts';
import { transfer } from './download-transfer.ts';
import { asHubError } from './hub.ts';
import { SourceError } from './source-error.ts';
import { source_patience } from './source-http.ts';
import type { PlannedFile, SourcePlan } from './source-plan.ts';

const tries_without_progress = 5;
const tries_at_most = 100;
const longest_wait_ms = 5 * 60_000;

/** Tells everybody who waits. */
export function tell(task: Task, done: number): void {
  task.done_bytes = done;
  for (const listener of task.listeners) listener(done);
}

/** Transfers, checks and puts in place; goes on after what may pass. */
export async function bring(
  context: DownloadContext,
  plan: SourcePlan,
  file: PlannedFile,
  key: string,
  task: Task,
): Promise<Content> {
  const paths = pathsOf(context, key);
  const { signal } = task.controller;
  let resumed = (sizeOf(paths.part) ?? 0) > 0;
  let since_progress = 0;
  for (let tries = 1; ; tries += 1) {
    const before = sizeOf(paths.part) ?? 0;
    try {
      await ensureRoom(context, file.name, [file], key);
      await transferInto(context, plan, file, paths.part, task);
      return await putInPlace(context, file, paths, signal);
    } catch (error) {
      signal.throwIfAborted();
      const failure = await judge(context, plan, file, paths.part, error);
      if (failure.code === 'model_corrupt' && resumed) {
        resumed = false; // what a crash left may have been bad: once more, from the start
        continue;
      }
      if (!failure.temporary) throw failure;
      const progressed = (sizeOf(paths.part) ?? 0) > before;
      since_progress = progressed ? 0 : since_progress + 1;
      const over = since_progress >= tries_without_progress || tries >= tries_at_most;
      if (over) throw await giveUp(failure, file, paths.part, tries);
      await waitAfter(context, failure, since_progress, signal);
    }
  }
}

async function transferInto(
  { net }: DownloadContext,
  plan: SourcePlan,
  file: PlannedFile,
  path: string,
  task: Task,
): Promise<void> {
  const { signal } = task.controller;
  const part = await openPart(path);
  try {
    await transfer({ net, plan, file, part, signal, onBytes: (done) => tell(task, done) });
    await part.sync();
  } finally {
    await part.close();
  }
}

async function openPart(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r+');
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    return open(path, 'w+', 0o600);
  }
}

/** What a failure means; what cannot go on from its partial file loses it. */
async function judge(
  context: DownloadContext,
  plan: SourcePlan,
  file: PlannedFile,
  part: string,
  thrown: unknown,
): Promise<SourceError> {
  const of_hub =
    plan.hub !== null && thrown instanceof SourceError && thrown.details.host === file.url.host;
  const error = of_hub ? asHubError(thrown) : thrown;
  const is_full = isErrno(error, 'ENOSPC') || isErrno(error, 'EDQUOT');
  const is_ours = error instanceof SourceError;
  // Kept where it may go on: after what passes, and where there was no room to begin with.
  if (is_full || (is_ours && !error.temporary && error.code !== 'disk_full')) {
    await rm(part, { force: true });
  }
  if (is_full) return full(context, file.name, file.bytes);
  if (is_ours) return error;
  throw thrown;
}

/** What has come stays, to be gone on with; of what never began nothing does. */
async function giveUp(
  failure: SourceError,
  file: PlannedFile,
  part: string,
  tries: number,
): Promise<SourceError> {
  const done = sizeOf(part) ?? 0;
  if (done === 0) {
    await rm(part, { force: true });
    return failure;
  }
  const by_network = /unreachable|download_failed/.test(failure.code);
  if (failure.retry_after_ms !== null || !by_network) return failure;
  const amounts = { done: formatBytes(done), total: formatBytes(file.bytes) };
  return new SourceError('download_stalled', { what: file.name, ...amounts, tries });
}

async function waitAfter(
  { net, random }: DownloadContext,
  failure: SourceError,
  count: number,
  signal: AbortSignal,
): Promise<void> {
  const asked = failure.retry_after_ms;
  if (asked !== null && asked > longest_wait_ms) throw failure;
  const { retry_ms } = net.patience ?? source_patience;
  const backoff = retry_ms * 2 ** Math.max(0, count - 1) * (0.75 + fraction(random) / 2);
  await net.clock.sleep(asked ?? backoff, signal);
  signal.throwIfAborted();
}

/** Checks the bytes that are on the disk, and gives them their name. */
async function putInPlace(
  context: DownloadContext,
  file: PlannedFile,
  paths: ReturnType<typeof pathsOf>,
  signal: AbortSignal,
): Promise<Content> {
  const sha256 = createHash('sha256');
  const git = createHash('sha1').update(`blob ${file.bytes}\0`);
  for await (const chunk of createReadStream(paths.part, { signal, highWaterMark: 2 ** 20 })) {
    sha256.update(chunk as Buffer);
    if (file.digest?.kind === 'git-sha1') git.update(chunk as Buffer);
  }
  const found = { sha256: sha256.digest('hex'), 'git-sha1': git.digest('hex') };
  const wanted = file.digest;
  if (wanted !== null && found[wanted.kind] !== wanted.value) {
    const details = { what: file.name, host: file.url.host };
    throw new SourceError('model_corrupt', details);
  }
  const path = blobPath(context, found.sha256);
  if (wanted?.kind !== 'sha256') writeDurably(paths.known, found.sha256);
  await rename(paths.part, path);
  syncFolder(join(context.folder, 'blobs'));
  return { path, sha256: found.sha256 };
}
