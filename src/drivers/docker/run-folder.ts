/**
 * What this machine keeps of a run beside its container: sockets, output, and how it ended.
 *
 * Invariants: `run.json` is on the disk before the run's container is made, so that a run is never
 * forgotten while its engine is away; `end.json` is there only once nothing of the run executes any
 * more, and before its container is removed. A file that cannot be understood is null.
 */
import { chmodSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseRunName, type RunExit, type RunKey, runName } from '../../core/run.ts';
import { isErrno, makePrivateFolder, readIfThere, writeDurably } from '../../lib/files.ts';
import type { RunLabels } from './container.ts';

export type RunFolder = {
  path: string;
  name: string;
  sockets: string;
  output: string;
  cursor: string;
};

/** How a run ended whose container is gone. */
export type RunEnd = { exit: RunExit; started_at: number | null };

export function runFolder(folder: string, run: RunKey): RunFolder {
  const name = runName(run);
  const path = join(folder, name);
  return {
    path,
    name,
    sockets: join(path, 'p'),
    output: join(path, 'out.log'),
    cursor: join(path, 'out.json'),
  };
}

export function makeRunFolder(at: RunFolder, labels: RunLabels): void {
  makePrivateFolder(at.path);
  makePrivateFolder(at.sockets);
  // The run's user is another one than ours; the folder above lets nobody else come this far.
  chmodSync(at.sockets, 0o777);
  writeDurably(join(at.path, 'run.json'), `${JSON.stringify(labels)}\n`);
}

export function readRunLabels(at: RunFolder, install_id: string): RunLabels | null {
  const found = parse(readIfThere(join(at.path, 'run.json'))) as Partial<RunLabels> | null;
  if (found?.install_id !== install_id || typeof found.spec_hash !== 'string') return null;
  if (found.run === undefined || runName(found.run) !== at.name) return null;
  return found as RunLabels;
}

export function writeEnd(at: RunFolder, end: RunEnd): void {
  writeDurably(join(at.path, 'end.json'), `${JSON.stringify(end)}\n`);
}

export function readEnd(at: RunFolder): RunEnd | null {
  const found = parse(readIfThere(join(at.path, 'end.json'))) as Partial<RunEnd> | null;
  return typeof found?.exit === 'object' ? (found as RunEnd) : null;
}

export function removeRunFolder(at: RunFolder): void {
  rmSync(at.path, { recursive: true, force: true });
}

/** The runs of this install that have a folder. */
export function listRunFolders(
  folder: string,
  install_id: string,
): { at: RunFolder; labels: RunLabels }[] {
  return names(folder).flatMap((name) => {
    const run = parseRunName(name);
    if (run === null) return [];
    const at = runFolder(folder, run);
    const labels = readRunLabels(at, install_id);
    return labels === null ? [] : [{ at, labels }];
  });
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return [];
    throw error;
  }
}

function parse(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}
