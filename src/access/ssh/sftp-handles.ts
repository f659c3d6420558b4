/**
 * Open files and folders of an SFTP session, over files that are only read and written as streams.
 *
 * Invariants: a file that is written takes the place of the old one when its handle is closed, and
 * not before: cut off, the old one stays. Reading anywhere is possible, and fast from front to
 * back; writing goes from front to back, and what a client skips is as the old file has it.
 */
import { PassThrough, type Readable, type Writable } from 'node:stream';
import type { FileFacts, RunFiles } from '../../lib/session.ts';

/** Something that SFTP could say and we do not do. */
export class Unsupported extends Error {}

export type Handle = {
  path: string;
  read?(offset: number, length: number): Promise<Buffer | null>;
  write?(offset: number, data: Buffer): Promise<void>;
  /** The file shall be so long when it is closed. */
  setSize?(size: number): void;
  /** The next entries; null after the last. */
  entries?(): FileFacts[] | null;
  /** What it is so far, where that is known here. */
  size?(): number;
  close(): Promise<void>;
  /** The session ended without closing it. */
  abandon(): void;
};

const entries_at_once = 100;

export function folderHandle(path: string, entries: FileFacts[]): Handle {
  let at = 0;
  return {
    path,
    entries() {
      if (at >= entries.length) return null;
      at += entries_at_once;
      return entries.slice(at - entries_at_once, at);
    },
    close: async () => {},
    abandon: () => {},
  };
}

export function readHandle(files: RunFiles, path: string): Handle {
  let taker: Taker | null = null;
  let at = 0;
  let end: number | null = null;

  async function read(offset: number, length: number): Promise<Buffer | null> {
    if (end !== null && offset >= end) return null;
    if (taker === null || offset !== at) {
      taker?.stop();
      taker = createTaker(await files.read(path, offset));
      at = offset;
    }
    const data = await taker.take(length);
    at += data.length;
    if (data.length < length) end = at;
    return data.length === 0 ? null : data;
  }

  return {
    path,
    read,
    close: async () => taker?.stop(),
    abandon: () => taker?.stop(),
  };
}

/** `old`: how long the file is that stays where it is not written; 0 for a new or an emptied one. */
export function writeHandle(
  files: RunFiles,
  path: string,
  options: { mode: number; old_size: number; append: boolean },
): Handle {
  const { mode, old_size, append } = options;
  const content = new PassThrough();
  let failure: unknown = null;
  const written = files.write(path, content, mode).catch((error) => {
    failure = error;
    content.destroy();
  });
  let at = 0;
  let wanted_size: number | null = null;

  async function put(data: Buffer): Promise<void> {
    if (failure !== null) throw failure;
    at += data.length;
    if (content.write(data) || data.length === 0) return;
    await roomIn(content);
    if (failure !== null) throw failure;
  }

  /** Goes on to `offset` by what the old file has there, and nothing where it has none. */
  async function fillTo(offset: number): Promise<void> {
    if (at < Math.min(offset, old_size)) {
      const taker = createTaker(await files.read(path, at));
      while (at < Math.min(offset, old_size)) {
        const data = await taker.take(Math.min(offset - at, 64 * 1024));
        if (data.length === 0) break;
        await put(data);
      }
      taker.stop();
    }
    while (at < offset) await put(Buffer.alloc(Math.min(offset - at, 64 * 1024)));
  }

  return {
    path,
    size: () => at,
    async write(offset, data) {
      if (append) {
        if (at < old_size) await fillTo(old_size);
      } else if (offset < at) {
        throw new Unsupported('a file can only be written from front to back');
      } else {
        if (offset - at > gap_bytes) throw new Unsupported('that is too far beyond its end');
        await fillTo(offset);
      }
      await put(data);
    },
    setSize(size) {
      checkSize(size, at, Math.max(at, old_size));
      wanted_size = size;
    },
    async close() {
      try {
        await fillTo(Math.max(at, wanted_size ?? old_size));
      } catch (error) {
        content.destroy(error as Error);
        await written;
        throw failure ?? error;
      }
      content.end();
      await written;
      if (failure !== null) throw failure;
    },
    abandon: () => void content.destroy(new Error('the session ended')),
  };
}

function checkSize(size: number, written: number, length: number): void {
  if (size < written) throw new Unsupported('what is written cannot be cut off again');
  if (size - length > gap_bytes) throw new Unsupported('that is too far beyond its end');
}

/** Nothing that nobody sent is written beyond so much. */
const gap_bytes = 1024 * 1024 * 1024;

function roomIn(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}

type Taker = { take(length: number): Promise<Buffer>; stop(): void };

/** Takes exact lengths from a stream; fewer bytes only at its end. */
function createTaker(stream: Readable): Taker {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let rest: Buffer = Buffer.alloc(0);
  return {
    async take(length) {
      const parts: Buffer[] = [];
      let missing = length;
      while (missing > 0) {
        if (rest.length === 0) {
          const next = await chunks.next();
          if (next.done === true) break;
          rest = next.value;
        }
        const part = rest.subarray(0, missing);
        rest = rest.subarray(part.length);
        missing -= part.length;
        parts.push(part);
      }
      return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
    },
    stop: () => void stream.destroy(),
  };
}
