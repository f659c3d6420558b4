/**
 * The folders of installed wheels: what is complete, what is left over, and how many bytes there
 * are.
 *
 * Invariants: a folder is complete only with its marker, and the marker is the last thing written:
 * it lists every file with its size, so a damaged install is seen and made again. `publish` is one
 * rename.
 */
import { readFileSync, statSync } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { isErrno, syncFolder } from './files.ts';
import { isAlive } from './wheel-lock.ts';

type Marker = { sha256: string; files: Record<string, number> };

const marker_name = '.complete.json';

/** Whether the folder holds the whole of what was pinned by this hash. */
export function isComplete(folder: string, sha256: string): boolean {
  try {
    const marker = JSON.parse(readFileSync(join(folder, marker_name), 'utf8')) as Marker;
    const files = Object.entries(marker.files);
    return (
      marker.sha256 === sha256 &&
      files.length > 0 &&
      files.every(([name, bytes]) => statSync(join(folder, name)).size === bytes)
    );
  } catch {
    return false;
  }
}

/**
 * Makes a finished folder durable and puts it in its place; what was there incomplete goes. Of
 * thousands of files each is not synced (`durable` false): a power cut shows in their sizes.
 */
export async function publish(
  from: string,
  target: string,
  sha256: string,
  durable = true,
): Promise<void> {
  // uv's own, writable for everyone.
  await rm(join(from, '.lock'), { force: true });
  const files: Record<string, number> = {};
  for (const path of await filesBelow(from)) {
    files[relative(from, path)] = durable ? await sync(path) : (await lstat(path)).size;
  }
  await writeFile(join(from, marker_name), JSON.stringify({ sha256, files } satisfies Marker));
  await sync(join(from, marker_name));
  try {
    await rename(from, target);
  } catch (error) {
    if (!isErrno(error, 'ENOTEMPTY') && !isErrno(error, 'EEXIST')) throw error;
    // Another process was first, or something incomplete is in the way.
    if (isComplete(target, sha256)) return;
    await rename(target, join(dirname(from), 'replaced'));
    await rename(from, target);
  }
  syncFolder(dirname(target));
}

/** Keeps one file of a folder, under another name, as a folder of its own. */
export async function keepOne(from: string, file: string, to: string, as: string): Promise<void> {
  await mkdir(to, { recursive: true });
  await rename(join(from, file), join(to, as));
}

/** The name of a private folder: it says whose it is, so that others can tell a leftover. */
export function temporaryName(target_name: string, unique: string): string {
  return `.${target_name}.${process.pid}.${unique}.tmp`;
}

/** Removes what processes that are gone have left of installs of this target. */
export async function removeLeftovers(folder: string, target_name: string): Promise<void> {
  const prefix = `.${target_name}.`;
  for (const name of await readdir(folder)) {
    if (!name.startsWith(prefix) || !name.endsWith('.tmp')) continue;
    const pid = Number(name.slice(prefix.length).split('.')[0]);
    if (!isAlive(pid)) await removeFolder(join(folder, name));
  }
}

/** Removes a folder, also while a client that was killed is still ending in it. */
export async function removeFolder(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 50 });
  } catch (error) {
    // It is found again as a leftover the next time.
    if (!isErrno(error, 'ENOTEMPTY') && !isErrno(error, 'EBUSY')) throw error;
  }
}

/** Bytes in files below a folder; what vanishes meanwhile, or cannot be seen, counts nothing. */
export async function bytesBelow(folder: string): Promise<number> {
  let bytes = 0;
  for (const path of await filesBelow(folder)) {
    bytes += (await lstat(path).catch(() => null))?.size ?? 0;
  }
  return bytes;
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

async function sync(path: string): Promise<number> {
  const file = await open(path, 'r');
  try {
    await file.sync();
    return (await file.stat()).size;
  } finally {
    await file.close();
  }
}
