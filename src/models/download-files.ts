/**
 * The files of a folder of contents: what is called what, and what is here.
 *
 * Invariants: a content is found only by a checksum that was checked, and only with its length.
 */
import { readFileSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Random } from '../lib/random.ts';
import { digest } from '../lib/secret.ts';
import { isAlive } from '../lib/wheel-lock.ts';
import type { Net } from './source-http.ts';
import type { PlannedFile } from './source-plan.ts';

/** A lock that nobody touched for so long is nobody's. */
const lock_stale_ms = 30_000;

export type DownloadsOptions = {
  /** Holds `blobs`, `partial` and `keys`; made where missing. */
  folder: string;
  net: Net;
  random: Random;
  /** What a disk has left; the disk's own answer unless told. */
  freeBytes?: (folder: string) => number;
};

export type Content = { path: string; sha256: string };

/** A transfer that goes on, and who listens. */
export type Task = {
  controller: AbortController;
  listeners: Set<(done: number) => void>;
  done_bytes: number;
  bytes: number;
  promise: Promise<Content>;
};

export type DownloadContext = DownloadsOptions & { tasks: Map<string, Task> };

/** The name of a content before it is here: its checksum, or where it came from and how long. */
export function contentKey({ digest: known, url, etag, bytes }: PlannedFile): string {
  if (known?.kind === 'sha256') return known.value;
  if (known !== null) return digest(`git ${known.value} ${bytes}`);
  return digest(`url ${url.href} ${etag} ${bytes}`);
}

export function pathsOf({ folder }: { folder: string }, key: string) {
  return {
    part: join(folder, 'partial', `${key}.part`),
    lock: join(folder, 'partial', `${key}.lock`),
    known: join(folder, 'keys', key),
  };
}

export function blobPath({ folder }: { folder: string }, sha256: string): string {
  return join(folder, 'blobs', sha256);
}

export async function find(
  context: { folder: string },
  file: PlannedFile,
): Promise<Content | null> {
  const key = contentKey(file);
  const known = await readFile(pathsOf(context, key).known, 'utf8').catch(() => '');
  const sha256 = file.digest?.kind === 'sha256' ? file.digest.value : known.trim();
  if (!/^[0-9a-f]{64}$/.test(sha256)) return null;
  const path = blobPath(context, sha256);
  return sizeOf(path) === file.bytes ? { path, sha256 } : null;
}

/** Length of a file, or null where there is none. */
export function sizeOf(path: string): number | null {
  try {
    return statSync(path).size;
  } catch {
    return null;
  }
}

/** Whether a process that lives holds a lock. */
export function isHeld(lock: string, now: number): boolean {
  try {
    const { pid } = JSON.parse(readFileSync(lock, 'utf8')) as { pid: number };
    return isAlive(pid) && now - statSync(lock).mtimeMs < lock_stale_ms;
  } catch {
    return false;
  }
}
