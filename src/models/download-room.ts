/**
 * Room on the disk for what is still to come.
 *
 * Invariants: what goes on already counts; a reserve stays free for everything else.
 */
import { formatBytes } from '../core/format.ts';
import { freeBytes } from '../lib/files.ts';
import { contentKey, type DownloadContext, find, pathsOf, sizeOf } from './download-files.ts';
import { SourceError } from './source-error.ts';
import type { PlannedFile } from './source-plan.ts';

/** Left free on the disk, for everything else that writes there. */
export const reserve_bytes = 2 ** 30;

/** Throws disk_full where the files have no room. `own_key` names the download that asks. */
export async function ensureRoom(
  context: DownloadContext,
  what: string,
  files: readonly PlannedFile[],
  own_key: string | null = null,
): Promise<void> {
  let needed = 0;
  for (const file of files) {
    const key = contentKey(file);
    if (key !== own_key && (context.tasks.has(key) || (await find(context, file)) !== null))
      continue;
    needed += file.bytes - Math.min(file.bytes, sizeOf(pathsOf(context, key).part) ?? 0);
  }
  if (needed > 0 && needed + reserve_bytes > freeFor(context, own_key))
    throw full(context, what, needed);
}

/** Free, less what other downloads still have to write. */
function freeFor(context: DownloadContext, own_key: string | null): number {
  let promised = 0;
  for (const [key, task] of context.tasks) {
    if (key !== own_key) promised += task.bytes - task.done_bytes;
  }
  return Math.max(0, (context.freeBytes ?? freeBytes)(context.folder) - promised);
}

/** `needed` is without the reserve. */
export function full(context: DownloadContext, what: string, needed: number): SourceError {
  const free = freeFor(context, null);
  const all = needed + reserve_bytes;
  return new SourceError('disk_full', {
    ...{ what, folder: context.folder, needed_bytes: all, free_bytes: free },
    ...{ needed: formatBytes(all), free: formatBytes(free) },
  });
}
