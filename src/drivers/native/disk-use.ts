/**
 * How much of the disk folders take, counted at a slow pace beside everything else.
 *
 * Invariants: asking never waits: it gives what was counted last, and null before that; one folder
 * is counted at a time, and counting takes at most a twentieth of the time; links are not followed,
 * a file of several names counts once; a folder of too many files is not counted, which is null.
 */
import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../lib/clock.ts';
import { isErrno } from '../../lib/files.ts';

export type DiskUse = { bytesOf(path: string): number | null };

const count_every_ms = 5 * 60_000;
const longest_of_all = 20;
const most_entries = 200_000;
const folders_known = 1000;

type Known = { bytes: number | null; counted_at: number; rest_ms: number };

export function createDiskUse(clock: Pick<Clock, 'monotonic'>): DiskUse {
  const known = new Map<string, Known>();
  let counting: Promise<void> = Promise.resolve();
  const waiting = new Set<string>();

  async function count(path: string): Promise<void> {
    const begun = clock.monotonic();
    const bytes = await bytesBelow(path).catch(() => null);
    const counted_at = clock.monotonic();
    const rest_ms = Math.max(count_every_ms, (counted_at - begun) * longest_of_all);
    known.delete(path);
    known.set(path, { bytes, counted_at, rest_ms });
    if (known.size > folders_known) known.delete([...known.keys()][0] ?? '');
    waiting.delete(path);
  }

  return {
    bytesOf(path) {
      const last = known.get(path);
      const is_due = last === undefined || clock.monotonic() - last.counted_at >= last.rest_ms;
      if (is_due && !waiting.has(path)) {
        waiting.add(path);
        counting = counting.then(() => count(path));
      }
      return last?.bytes ?? null;
    },
  };
}

/** Null where it is not there, or too much to count. */
export async function bytesBelow(path: string, most = most_entries): Promise<number | null> {
  const links = new Set<number>();
  const folders = [path];
  let bytes = 0;
  let entries = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const opened = await opendir(folder).catch((error) => {
      // What its owner closed, or what went meanwhile, takes little.
      const is_closed = ['EACCES', 'ENOENT', 'ENOTDIR'].some((code) => isErrno(error, code));
      if (folder !== path && is_closed) return null;
      throw error;
    });
    if (opened === null) continue;
    for await (const entry of opened) {
      entries += 1;
      if (entries > most) return null;
      const at = join(folder, entry.name);
      const found = await lstat(at).catch(() => null);
      if (found === null) continue;
      if (found.isDirectory()) folders.push(at);
      else if (found.nlink > 1 && links.has(found.ino)) continue;
      else if (found.nlink > 1) links.add(found.ino);
      bytes += found.blocks * 512;
    }
  }
  return bytes;
}
