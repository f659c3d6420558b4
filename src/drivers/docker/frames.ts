/**
 * The engine's way to send two streams over one connection: frames with a header of eight bytes.
 *
 * Invariants: frames may arrive cut anywhere; what is no frame is an error, never passed on as
 * output; a reader that is slow slows the engine down.
 */
import { PassThrough, type Readable, Writable } from 'node:stream';
import { EngineDown } from './engine-error.ts';

export type Frame = { is_error: boolean; payload: Buffer };

const header_bytes = 8;
/** The engine's own buffer is 32 KiB; a header that says more than this is none. */
const frame_limit_bytes = 16 * 1024 * 1024;

/** Feeds pieces of a stream in, gives whole frames out. */
export function createFrameReader(): (chunk: Buffer) => Frame[] {
  let rest = Buffer.alloc(0);
  return (chunk) => {
    rest = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
    const frames: Frame[] = [];
    for (;;) {
      const frame = takeFrame(rest);
      if (frame === null) return frames;
      rest = rest.subarray(header_bytes + frame.payload.length);
      frames.push(frame);
    }
  };
}

function takeFrame(bytes: Buffer): Frame | null {
  if (bytes.length < header_bytes) return null;
  const length = bytes.readUInt32BE(4);
  const kind = bytes[0] ?? 0;
  if (kind > 3 || bytes[1] !== 0 || bytes[2] !== 0 || length > frame_limit_bytes) {
    throw new EngineDown('garbled', 'the engine sent what is no frame of output');
  }
  if (bytes.length < header_bytes + length) return null;
  return {
    is_error: kind >= 2,
    payload: bytes.subarray(header_bytes, header_bytes + length),
  };
}

/** Splits a connection into the two streams that it carries. */
export function splitFrames(source: Readable): { stdout: Readable; stderr: Readable } {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  // Whoever reads hears of an error; with nobody there it must not end this program.
  for (const one of [stdout, stderr]) one.on('error', () => {});
  const read = createFrameReader();
  const sink = new Writable({
    write(chunk: Buffer, _, done) {
      let frames: Frame[];
      try {
        frames = read(chunk);
      } catch (error) {
        done(error as Error);
        return;
      }
      const full: PassThrough[] = [];
      for (const { is_error, payload } of frames) {
        const into = is_error ? stderr : stdout;
        // One that nobody reads any more holds nothing up.
        if (!into.destroyed && !into.write(payload) && !full.includes(into)) full.push(into);
      }
      waitForAll(full, done);
    },
    final(done) {
      // One that held nothing ends also where nobody reads it.
      for (const one of [stdout, stderr]) one.end(() => one.read(0));
      done();
    },
  });
  const fail = (error: Error) => {
    stdout.destroy(error);
    stderr.destroy(error);
  };
  sink.once('error', fail);
  source.once('error', fail);
  source.once('close', () => {
    if (!sink.writableEnded) sink.end();
  });
  source.pipe(sink);
  return { stdout, stderr };
}

function waitForAll(full: PassThrough[], done: () => void): void {
  let waiting = full.length;
  if (waiting === 0) done();
  for (const one of full) {
    const settled = () => {
      one.off('drain', settled);
      one.off('close', settled);
      waiting -= 1;
      if (waiting === 0) done();
    };
    one.on('drain', settled);
    one.on('close', settled);
  }
}
