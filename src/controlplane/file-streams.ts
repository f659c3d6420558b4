/**
 * The streams by which files come and go.
 *
 * Invariants: memory is bounded by what the other side takes; a file is sent with its length, so
 * that one that is cut off never looks whole; what stops moving for a while is broken off.
 */
import { Readable } from 'node:stream';
import type { ReadableStream as WebStream } from 'node:stream/web';
import type { Clock } from '../lib/clock.ts';

/** Exactly so many bytes of what is read; fails where there are fewer. */
export function exactly(source: Readable, bytes: number): Readable {
  async function* pass() {
    let left = bytes;
    for await (const chunk of source as AsyncIterable<Buffer>) {
      const piece = chunk.subarray(0, left);
      left -= piece.length;
      if (piece.length > 0) yield piece;
      if (left === 0) return;
    }
    if (left > 0) throw new Error('the file became shorter');
  }
  const stream = Readable.from(pass(), { objectMode: false });
  stream.once('close', () => source.destroy());
  return stream;
}

/** A body as a stream of Node's that fails where nothing comes for `silence_ms`. */
export function bodyOf(
  body: ReadableStream<Uint8Array> | null,
  clock: Clock,
  silence_ms: number,
): Readable {
  if (body === null) return Readable.from([]);
  const stream = Readable.fromWeb(body as WebStream<Uint8Array>);
  const tooLate = () => void stream.destroy(new Error('nothing more came'));
  let cancel = clock.after(silence_ms, tooLate);
  stream.on('data', () => {
    cancel();
    cancel = clock.after(silence_ms, tooLate);
  });
  stream.pause(); // a listener alone would have it flow
  stream.once('close', () => cancel());
  return stream;
}

/** `bytes=N-` as N; null where the whole is asked for, or something else. */
export function startOf(range: string | undefined): number | null {
  const found = /^bytes=(\d{1,15})-$/.exec(range ?? '');
  return found?.[1] === undefined ? null : Number(found[1]);
}
