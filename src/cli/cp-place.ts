/**
 * The two ends of `einsora cp`: `NAME:/path` in a workload, a path here, or `-` for stdio.
 */
import { usageError } from './cli-error.ts';

export type CopyEnd =
  | { at: 'run'; workload: string; path: string }
  | { at: 'here'; path: string }
  | { at: 'stdio' };

export function parseEnd(text: string): CopyEnd {
  if (text === '-') return { at: 'stdio' };
  const found = /^([a-z0-9][a-z0-9.-]*):(.*)$/s.exec(text);
  // What begins with a dot or a slash is here, whatever follows.
  if (found?.[1] === undefined) return { at: 'here', path: text };
  const path = found[2] ?? '';
  if (!path.startsWith('/')) {
    throw usageError(`${text} says no absolute path: give ${found[1]}:/…`);
  }
  return { at: 'run', workload: found[1], path };
}

/** Exactly one end must be in a workload. */
export function parseEnds(from: string, to: string): { from: CopyEnd; to: CopyEnd } {
  const ends = { from: parseEnd(from), to: parseEnd(to) };
  const inside = [ends.from, ends.to].filter((end) => end.at === 'run').length;
  if (inside !== 1) {
    throw usageError(
      inside === 0 ? 'neither end is in a workload' : 'both ends are in a workload',
      'bin/einsora cp <file> <workload>:/path, or the other way round',
    );
  }
  return ends;
}

/** A name inside a folder, by the rules of paths in a run. */
export function inside(folder: string, name: string): string {
  return `${folder.replace(/\/+$/, '')}/${name}`;
}

export function baseName(path: string): string {
  return path.split('/').filter(Boolean).at(-1) ?? '';
}
