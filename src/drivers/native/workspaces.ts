/**
 * What workloads keep on this machine: a folder each, shown to every run of its workload.
 *
 * Invariants: named by the workload alone, so the next run finds what the last one left; the folder
 * itself is ours and no link; erasing moves it away before it is emptied, and what a kill left of
 * that goes at the next sweep. How much it may hold is not capped here (docs/status.md).
 */
import { lstatSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { chmod, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../lib/clock.ts';
import { isErrno, makePrivateFolder } from '../../lib/files.ts';
import { describeError, type Log } from '../../lib/log.ts';
import type { Random } from '../../lib/random.ts';
import type { RunSpec } from '../driver.ts';
import { createDiskUse } from './disk-use.ts';
import { driverError } from './errors.ts';
import type { RunFolder } from './label.ts';
import type { OwnFiles } from './sandbox.ts';

export type Workspaces = {
  /** Makes the workload's folder where it is missing, and who the run knows itself as. */
  prepare(workload_id: string, at: RunFolder, spec: RunSpec): OwnFiles['workspace'];
  /** Nothing kept is no error. */
  erase(workload_id: string): Promise<void>;
  /** Clears what an erasing that was cut off has left. */
  sweep(): void;
  /** What the workload's folder takes, as it was counted last; null where it was not. */
  bytesOf(workload_id: string): number | null;
};

const gone_prefix = '.gone-';

export function createWorkspaces(options: {
  folder: string;
  clock: Pick<Clock, 'monotonic'>;
  random: Random;
  log: Log;
}): Workspaces {
  const { folder, random, log } = options;
  const use = createDiskUse(options.clock);
  const pathOf = (workload_id: string) => {
    if (!/^[0-9a-z]{26}$/.test(workload_id)) {
      throw driverError('start_failed', { why: `${workload_id} is no id of a workload` });
    }
    return join(folder, workload_id);
  };
  let is_swept = false;
  const clear = async (gone: string) => {
    try {
      await removeTree(gone);
    } catch (error) {
      log.warn({ folder: gone, error: describeError(error) }, 'a workspace is not cleared yet');
    }
  };
  return {
    prepare(workload_id, at, spec) {
      const path = pathOf(workload_id);
      makePrivateFolder(folder);
      makePrivateFolder(path);
      if (!lstatSync(path).isDirectory()) {
        throw driverError('start_failed', { why: `${path} is no folder` });
      }
      const home = spec.workspace?.target ?? '/tmp';
      const uid = process.getuid?.() ?? 0;
      const gid = process.getgid?.() ?? 0;
      const name = uid === 0 ? 'root' : 'einsora';
      const mode = { mode: 0o600 };
      writeFileSync(at.passwd, `${name}:x:${uid}:${gid}:${name}:${home}:/bin/bash\n`, mode);
      writeFileSync(at.group, `${name}:x:${gid}:\n`, mode);
      return { folder: path, passwd: at.passwd, group: at.group };
    },
    async erase(workload_id) {
      const suffix = Buffer.from(random.bytes(8)).toString('hex');
      const gone = join(folder, `${gone_prefix}${suffix}`);
      try {
        renameSync(pathOf(workload_id), gone);
      } catch (error) {
        if (isErrno(error, 'ENOENT')) return;
        throw error;
      }
      await clear(gone);
    },
    bytesOf: (workload_id) => use.bytesOf(pathOf(workload_id)),
    sweep() {
      if (is_swept) return;
      is_swept = true;
      for (const name of listNames(folder)) {
        if (name.startsWith(gone_prefix)) void clear(join(folder, name));
      }
    },
  };
}

/** Removes a folder, whatever permissions its owner took from folders in it. */
async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch (error) {
    if (!isErrno(error, 'EACCES') && !isErrno(error, 'EPERM')) throw error;
    await openFolders(path);
    await rm(path, { recursive: true, force: true });
  }
}

async function openFolders(path: string): Promise<void> {
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await openFolders(join(path, entry.name));
  }
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return [];
    throw error;
  }
}
