/**
 * Pipes for a program's standard streams.
 *
 * Invariants: they are pipes as a shell makes them, not the sockets that Node gives to a child: a
 * program may open /dev/stdout and /dev/stderr, which for a socket fails. (/dev/stdin too, but only
 * until it is closed here: named pipes wait for a writer.) No name stays in `folder`; the ends of
 * the program block, ours do not.
 */
import { closeSync, constants, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { type DetachedOptions, exec, type Spawned, spawnOn } from './exec.ts';

export type Pipes = {
  /** The program's ends, as descriptors of this process: closed by `release`. */
  theirs: [number, number, number];
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  release(): void;
};

const timeout_ms = 5000;

/** `tag` must be new each time: names are made of it. Rejects where the folder takes no pipes. */
export async function openPipes(folder: string, tag: string): Promise<Pipes> {
  const paths = ['in', 'out', 'err'].map((name) => join(folder, `.${tag}.${name}`));
  const env = { PATH: '/usr/bin:/bin' };
  const made = await exec('mkfifo', ['-m', '600', ...paths], { env, timeout_ms });
  const open: number[] = [];
  try {
    if (made.code !== 0) throw new Error(`no pipes could be made: ${made.stderr.trim()}`);
    const ends = paths.map((path) => {
      const reading = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      open.push(reading);
      const writing = openSync(path, constants.O_WRONLY);
      open.push(writing);
      return { path, reading, writing };
    });
    const [input, output, errors] = ends;
    if (input === undefined || output === undefined || errors === undefined) throw new Error();
    // One that waits for what is written, as programs expect it of their stdin.
    const patient = openSync(input.path, constants.O_RDONLY);
    open.push(patient);
    closeSync(input.reading);
    const theirs: Pipes['theirs'] = [patient, output.writing, errors.writing];
    return {
      theirs,
      stdin: new Socket({ fd: input.writing, readable: false, writable: true }),
      stdout: new Socket({ fd: output.reading, readable: true, writable: false }),
      stderr: new Socket({ fd: errors.reading, readable: true, writable: false }),
      release: () => theirs.forEach((end) => void closeSync(end)),
    };
  } catch (error) {
    for (const end of open) closeSync(end);
    throw error;
  } finally {
    for (const path of paths) rmSync(path, { force: true });
  }
}

/** Starts a program on pipes, in a session of its own. Rejects where it cannot be started. */
export async function spawnOnPipes(
  command: string,
  args: string[],
  options: DetachedOptions & { folder: string; tag: string },
): Promise<Spawned> {
  const { folder, tag, env, cwd } = options;
  const pipes = await openPipes(folder, tag);
  const { stdin, stdout, stderr } = pipes;
  stdin.on('error', () => {}); // it ended without reading all: its own choice
  try {
    const started = spawnOn(command, args, { env, cwd, stdio: pipes.theirs });
    return { ...started, stdin, stdout, stderr };
  } catch (error) {
    for (const stream of [stdin, stdout, stderr]) stream.destroy();
    throw error;
  } finally {
    pipes.release();
  }
}
