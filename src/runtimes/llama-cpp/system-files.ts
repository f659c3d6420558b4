/**
 * Which files of the host an engine brings along into a sandbox, besides the system's own.
 *
 * Invariants: as little as does it: of a Python only its interpreter and library folders, never its
 * whole prefix, which may be a home. Shown under the same path and never writable.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Python } from '../../lib/wheel-python.ts';
import type { EngineMount } from '../runtime.ts';

/** Package systems whose programs link into the whole of their own tree. */
const trees = ['/nix/store', '/home/linuxbrew/.linuxbrew', '/gnu/store'];

/** What every sandbox has: /usr, and the folders that are merged into it. */
export function isSystemPath(path: string): boolean {
  return /^\/(usr|bin|sbin|lib|lib32|lib64|libx32)(\/|$)/.test(path);
}

/** Read-only mounts for these paths, each once, widened to the tree that they link into. */
export function ownFiles(paths: string[]): EngineMount[] {
  const widened = paths.map((path) => trees.find((tree) => isWithin(path, tree)) ?? path);
  return [...new Set(widened)].map((path) => ({ source: path, target: path, writable: false }));
}

export function pythonFiles(python: Python): EngineMount[] {
  const libraries = ['lib', 'lib64'].map((name) => join(python.prefix, name));
  const needed = [python.executable, ...libraries.filter((path) => existsSync(path))];
  return ownFiles(needed.filter((path) => !isSystemPath(path)));
}

/** Whether a path is the folder or lies below it. */
export function isWithin(path: string, folder: string): boolean {
  return folder === '/' || path === folder || path.startsWith(`${folder}/`);
}
