/**
 * The files of a sim run: kept in memory, gone with this program.
 *
 * Invariants: those of `RunFiles`; there are no links.
 */
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type ReasonCode, sentenceOf } from '../core/reasons.ts';
import type { Clock } from '../lib/clock.ts';
import type { FileFacts, RunFiles } from '../lib/session.ts';
import { DriverError } from './driver.ts';

type Kept = { content: Buffer | null; mode: number; modified_at: number };
export type SimFiles = RunFiles & { content(path: string): Buffer | null };

const piece_bytes = 64 * 1024;

export function createSimFiles(clock: Clock): SimFiles {
  const kept = new Map<string, Kept>();
  const now = () => clock.now();
  for (const path of ['/', '/tmp', '/workspace']) {
    kept.set(path, { content: null, mode: 0o755, modified_at: now() });
  }

  function at(path: string): Kept {
    const found = kept.get(absolute(path));
    if (found === undefined) throw refuse('file_not_found', path);
    return found;
  }

  function free(path: string): string {
    const full = absolute(path);
    if (kept.get(parentOf(full))?.content !== null) throw refuse('file_not_found', path);
    return full;
  }

  const inside = (path: string) => {
    const below = path === '/' ? '/' : `${path}/`;
    return [...kept.keys()].filter((one) => one !== path && one.startsWith(below));
  };

  return {
    content: (path) => kept.get(path)?.content ?? null,
    stat: async (path) => factsOf(absolute(path), at(path)),
    async list(path) {
      if (at(path).content !== null) throw refuse('file_refused', path, 'it is no folder');
      const full = absolute(path);
      const names = inside(full).filter((one) => parentOf(one) === full);
      return names.sort().map((one) => factsOf(one, at(one)));
    },
    async read(path, offset) {
      const { content } = at(path);
      if (content === null) throw refuse('file_refused', path, 'it is a folder');
      return Readable.from(piecesOf(content.subarray(offset)), { objectMode: false });
    },
    async write(path, content, mode) {
      const full = free(path);
      const whole = await buffer(content);
      if (kept.get(full)?.content === null) throw refuse('file_refused', path, 'it is a folder');
      kept.set(full, { content: whole, mode: mode & 0o777, modified_at: now() });
    },
    async makeFolder(path) {
      const full = free(path);
      if (kept.has(full)) throw refuse('file_refused', path, 'something is there already');
      kept.set(full, { content: null, mode: 0o755, modified_at: now() });
    },
    async remove(path) {
      at(path);
      const full = absolute(path);
      if (inside(full).length > 0) throw refuse('file_refused', path, 'it is not empty');
      kept.delete(full);
    },
    async rename(from, to) {
      const moved = at(from);
      const [old, next] = [absolute(from), free(to)];
      for (const path of inside(old)) {
        kept.set(`${next}${path.slice(old.length)}`, at(path));
        kept.delete(path);
      }
      kept.delete(old);
      kept.set(next, moved);
    },
  };
}

function absolute(path: string): string {
  if (!path.startsWith('/')) throw refuse('file_refused', path, 'it is no absolute path');
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return `/${parts.join('/')}`;
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

function factsOf(path: string, { content, mode, modified_at }: Kept): FileFacts {
  const name = path.split('/').at(-1) || '/';
  const kind = content === null ? 'folder' : 'file';
  return { name, kind, size: content?.length ?? 0, mode, modified_at };
}

function* piecesOf(content: Buffer): Generator<Buffer> {
  for (let from = 0; from < content.length; from += piece_bytes) {
    yield content.subarray(from, from + piece_bytes);
  }
}

function refuse(code: ReasonCode, path: string, why = ''): DriverError {
  return new DriverError(code, sentenceOf(code, { path, why }), undefined, { path, why });
}
