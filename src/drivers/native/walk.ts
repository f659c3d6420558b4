/**
 * Finds a name in a run's own files, as the run sees them, without ever following a link on the
 * machine.
 *
 * Invariants: the walk begins at the root of the run's program, held open by a descriptor; each
 * step opens one name below the descriptor of the last, without following it, so that nothing that
 * is swapped meanwhile leads out; what a link says is read as text and walked by the same rules, so
 * that `..` and absolute links end at the run's root. The kernel's own file systems are refused:
 * their links lead anywhere. Every descriptor is closed by `close`.
 */
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readlinkSync,
  type Stats,
  statfsSync,
} from 'node:fs';
import { isErrno } from '../../lib/files.ts';
import type { DriverError } from '../driver.ts';
import { driverError } from './errors.ts';

/** Linux's O_PATH, which Node does not name: a handle on the name itself, whatever it is. */
const open_path_only = 0o10000000;
const most_links = 40;
const most_steps = 1000;

/** /proc, /sys, /dev/pts, control groups and their like, by the magic number of their kind. */
const kernels_own = new Set([
  ...[0x9fa0, 0x62656572, 0x1cd1, 0x27e0eb, 0x63677270, 0x19800202, 0x64626720, 0x74726163],
  ...[0xcafe4a11, 0x73636673, 0x6e736673, 0x50495045],
]);

export type Place = {
  /** Of the folder that holds the name. */
  folder: number;
  name: string;
  /** What the name is, not followed; null where there is nothing. */
  handle: number | null;
  facts: Stats | null;
  close(): void;
};

export type Root = { handle: number; close(): void };

/** A name below a folder that is held open. */
export function below(folder: number, name: string): string {
  return `/proc/self/fd/${folder}/${name}`;
}

/** Opens the root of a process's files. Throws where it has ended. */
export function openRoot(pid: number): number {
  return openSync(`/proc/${pid}/root`, open_path_only | constants.O_DIRECTORY);
}

/**
 * Walks to `path`, which must be absolute. A link in the last place is followed where `follows`
 * says so; where it leads to nothing, that is the place.
 */
export function walk(root: number, path: string, follows: boolean): Place {
  if (!path.startsWith('/') || path.includes('\0')) throw refused(path, 'it is no absolute path');
  const opened: number[] = [];
  const close = () => {
    for (const handle of opened.splice(0)) closeSync(handle);
  };
  try {
    return { ...steps(root, path, follows, opened), close };
  } catch (error) {
    close();
    throw toDriverError(error, path);
  }
}

function steps(root: number, path: string, follows: boolean, opened: number[]) {
  /** Folders from the root down to where we are. */
  let folders = [root];
  let left = partsOf(path);
  let links = 0;
  for (let count = 0; ; count += 1) {
    if (count > most_steps) throw refused(path, 'it is too deep');
    const folder = folders.at(-1) ?? root;
    const name = left.shift();
    if (name === undefined) return { folder, name: '.', handle: folder, facts: factsOf(folder) };
    if (name === '..') {
      if (folders.length > 1) folders.pop();
      continue;
    }
    const is_last = left.length === 0;
    const handle = openName(folder, name, opened);
    if (handle === null) {
      if (is_last) return { folder, name, handle, facts: null };
      throw notFound(path);
    }
    refuseKernels(handle, path);
    const facts = factsOf(handle);
    if (facts.isSymbolicLink() && (!is_last || follows)) {
      links += 1;
      if (links > most_links) throw refused(path, 'its links lead in circles');
      const said = readlinkSync(below(folder, name));
      if (said.startsWith('/')) folders = [root];
      left = [...partsOf(said), ...left];
      continue;
    }
    if (is_last) return { folder, name, handle, facts };
    if (!facts.isDirectory()) throw notFound(path);
    folders.push(handle);
  }
}

function partsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.');
}

function openName(folder: number, name: string, opened: number[]): number | null {
  try {
    const handle = openSync(below(folder, name), open_path_only | constants.O_NOFOLLOW);
    opened.push(handle);
    return handle;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return null;
    throw error;
  }
}

function factsOf(handle: number): Stats {
  return fstatSync(handle);
}

function refuseKernels(handle: number, path: string): void {
  // Followed for a link it would be what the link leads to: its own folder was looked at before.
  const stats = fstatSync(handle);
  if (stats.isSymbolicLink()) return;
  if (kernels_own.has(statfsSync(`/proc/self/fd/${handle}`).type)) {
    throw refused(path, 'it belongs to the kernel, not to the run');
  }
}

export function notFound(path: string): DriverError {
  return driverError('file_not_found', { path });
}

export function refused(path: string, why: string, cause?: unknown): DriverError {
  return driverError('file_refused', { path, why }, cause);
}

const causes: Record<string, string> = {
  EACCES: 'it may not be',
  EPERM: 'it may not be',
  EROFS: 'it cannot be written there',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk is full',
  EEXIST: 'something is there already',
  ENOTEMPTY: 'it is not empty',
  EISDIR: 'it is a folder',
  ENOTDIR: 'it is no folder',
  ENAMETOOLONG: 'its name is too long',
  EXDEV: 'it lies on another disk',
  ELOOP: 'its links lead in circles',
  EBUSY: 'it is in use',
  ETXTBSY: 'it is in use',
};

/** What the system said of a file, as a reason of the table; what is one already stays. */
export function toDriverError(error: unknown, path: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return notFound(path);
  const why = code === undefined ? undefined : causes[code];
  return why === undefined ? error : refused(path, why, error);
}
