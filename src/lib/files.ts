/**
 * Small durable files.
 *
 * Invariants: `writeDurably` leaves either the old or the new content under the name, whatever
 * happens in between, and returns only when the content is on disk; private by default (0600).
 */
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';

export function writeDurably(path: string, content: string, mode = 0o600): void {
  const temporary = `${path}.${process.pid}.tmp`;
  const file = openSync(temporary, 'w', mode);
  try {
    try {
      // Unlike one write, it goes on after a short one: a disk that fills up is an error.
      writeFileSync(file, content);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(dirname(path));
}

/** Makes renames and new names in a folder survive a power cut. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** The text of a file, or null when there is none. Other errors are thrown. */
export function readIfThere(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return null;
    throw error;
  }
}

/**
 * Creates a folder that only this user can read, and the ones above it. One at a time: Node's own
 * recursion never returns where the system makes no folder (/proc, an automounter's).
 */
export function makePrivateFolder(path: string): void {
  if (isFolder(path)) return;
  const above = dirname(path);
  if (above !== path) makePrivateFolder(above);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (!isErrno(error, 'EEXIST') || !isFolder(path)) throw error;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Bytes that an unprivileged user may still write on the disk that holds `path`. */
export function freeBytes(path: string): number {
  const stats = statfsSync(path);
  return stats.bavail * stats.bsize;
}

export function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === code;
}
