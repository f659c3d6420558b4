/**
 * A spawned program as a session: its streams, and an end that comes after all of its output.
 *
 * Invariants: memory is bounded by what the reader takes; what it left in the background does not
 * keep the session open: once the program has ended and its output is quiet, the output ends too.
 */
import { PassThrough, type Readable } from 'node:stream';
import type { Clock } from './clock.ts';
import type { Spawned } from './exec.ts';
import type { TerminalSize } from './pty.ts';
import type { ExecSession } from './session.ts';

const quiet_ms = 100;

export type SessionParts = {
  clock: Clock;
  resize?: (size: TerminalSize) => void;
  /** Ends the program and what it started. */
  kill: () => void;
  /** Called once all is over, before `exited` resolves. */
  ended?: () => Promise<void> | void;
};

export function toSession(spawned: Spawned, parts: SessionParts): ExecSession {
  const { clock, resize, kill, ended } = parts;
  const stdout = bounded(spawned.stdout);
  const stderr = spawned.stderr === null ? null : bounded(spawned.stderr);
  const outputs = stderr === null ? [stdout] : [stdout, stderr];

  async function end() {
    const how = await spawned.exited;
    spawned.stdin.destroy();
    await Promise.all(outputs.map((one) => one.finish(clock)));
    await ended?.();
    return how;
  }

  return {
    stdin: spawned.stdin,
    stdout: stdout.stream,
    stderr: stderr?.stream ?? null,
    resize: (columns, rows) => resize?.({ columns, rows }),
    kill,
    exited: end(),
  };
}

/** The output of a program, to be cut where others hold it open after the program's end. */
function bounded(source: Readable) {
  const stream = new PassThrough();
  let bytes = 0;
  source.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (!stream.destroyed && !stream.write(chunk)) source.pause();
  });
  stream.on('drain', () => source.resume());
  const ended = new AbortController();
  const over = () => {
    if (!stream.writableEnded) stream.end();
    ended.abort();
  };
  source.once('end', over);
  source.once('close', over);
  source.on('error', (error) => stream.destroy(error));
  // A reader that goes away lets the program run on, into nothing.
  stream.once('close', () => {
    ended.abort();
    source.resume();
  });

  /** Resolves when all of it was read, or nobody reads it any more. */
  async function finish(clock: Clock): Promise<void> {
    for (let seen = -1; !stream.writableEnded && !stream.closed; ) {
      const is_quiet = bytes === seen && !stream.writableNeedDrain;
      if (is_quiet) over();
      seen = bytes;
      if (!is_quiet) await clock.sleep(quiet_ms, ended.signal);
    }
    source.destroy();
    await new Promise<void>((resolve) => {
      // With nothing in it, nobody need take anything to know its end.
      const is_empty = stream.writableEnded && stream.readableLength === 0;
      if (stream.closed || is_empty) resolve();
      else stream.once('end', resolve).once('close', resolve);
    });
  }

  return { stream, finish };
}
