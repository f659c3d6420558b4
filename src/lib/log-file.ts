/**
 * Where lines of the log go: they gather for a moment, and leave in one writing.
 *
 * Invariants: lines keep their order; none waits longer than `wait_ms`, nor once `flush_bytes` are
 * there; a file that cannot be written (a full disk) ends nothing and loses nothing up to
 * `held_bytes`: what is beyond is counted, and told as soon as it can be.
 */
import { mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from './clock.ts';

export type LogFile = {
  write(line: string): void;
  /** Writes what is there, now. */
  flush(): void;
};

const wait_ms = 100;
const flush_bytes = 16 * 1024;
const held_bytes = 1024 * 1024;

/** Writes from there on; says how many bytes, or throws. */
export type WriteSome = (file: number, bytes: Buffer, from: number) => number;

/** `destination`: a path, whose folders are made, or a descriptor. Throws where it cannot open. */
export function openLogFile(
  destination: string | number,
  clock: Pick<Clock, 'after'>,
  writeSome: WriteSome = writeSync,
): LogFile {
  const file = typeof destination === 'number' ? destination : openPrivate(destination);
  let gathered = '';
  /** Of an earlier writing, that did not get through. */
  let held: Buffer = Buffer.alloc(0);
  let lost = 0;
  let is_waiting = false;

  function flush(): void {
    held = Buffer.concat([held, Buffer.from(gathered)]);
    gathered = '';
    held = held.subarray(written((from) => writeSome(file, held, from), held.length));
    if (held.length > 0 || lost === 0) return;
    gathered = `${JSON.stringify({ level: 40, lost, msg: 'lines of the log were lost' })}\n`;
    lost = 0;
    wait();
  }

  function wait(): void {
    if (is_waiting) return;
    is_waiting = true;
    clock.after(wait_ms, () => {
      is_waiting = false;
      flush();
      if (held.length > 0) wait();
    });
  }

  return {
    flush,
    write(line) {
      if (held.length + gathered.length > held_bytes) {
        lost += 1;
        return;
      }
      gathered += line;
      if (held.length === 0 && gathered.length >= flush_bytes) flush();
      else wait();
    },
  };
}

function openPrivate(path: string): number {
  mkdirSync(dirname(path), { recursive: true });
  return openSync(path, 'a', 0o600);
}

/** How many of so many bytes got through. */
function written(writeFrom: (from: number) => number, bytes: number): number {
  let done = 0;
  try {
    while (done < bytes) done += writeFrom(done);
  } catch {
    // There is no other place to say it; what is left is tried again.
  }
  return done;
}
