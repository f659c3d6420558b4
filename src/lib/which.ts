/**
 * Where a program is, by a PATH that is given.
 *
 * Invariants: only absolute folders of the PATH count (a relative one would depend on where the
 * process stands); what is returned was executable and no folder when looked at.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';

/** The first executable of this name on the PATH, or null. */
export function findProgram(name: string, path: string | undefined): string | null {
  for (const folder of (path ?? '').split(':')) {
    if (!isAbsolute(folder)) continue;
    const candidate = join(folder, name);
    if (isExecutable(candidate)) return candidate;
  }
  return null;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
