/**
 * The only spawner of processes.
 *
 * Invariants: stdin is closed, or ends with what was given; each command has a deadline, an output
 * cap and a process group of its own, and the whole group is killed at the deadline or on abort; a
 * command that cannot be started is a value (`failed`), not an exception. The environment is given,
 * never inherited by accident.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { type Clock, systemClock } from './clock.ts';

export type ExecOptions = {
  env?: Record<string, string>;
  cwd?: string;
  timeout_ms: number;
  /** What stdin holds, such as a secret that must not stand in the arguments. */
  input?: string;
  output_limit_bytes?: number;
  signal?: AbortSignal;
  clock?: Clock;
};

export type ExecResult = {
  /**
   * exited: ran to its end; timeout, aborted: the group was killed; failed: could not be started.
   */
  outcome: 'exited' | 'timeout' | 'aborted' | 'failed';
  code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
};

/** After a kill, until a command that still is not over is left to itself. */
const leave_ms = 2_000;

/** Runs a command to its end and captures what it prints (1 MiB of each stream unless told). */
export function exec(command: string, args: string[], options: ExecOptions): Promise<ExecResult> {
  const limit = options.output_limit_bytes ?? 1024 * 1024;
  const clock = options.clock ?? systemClock;
  return new Promise((resolve) => {
    const out: Captured = { chunks: [], bytes: 0 };
    const err: Captured = { chunks: [], bytes: 0 };
    let outcome: ExecResult['outcome'] = 'exited';
    const child = spawn(command, args, {
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      detached: true,
      env: { LC_ALL: 'C', ...options.env },
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    });
    child.stdin?.on('error', () => {}); // it ended without reading all: its own choice
    child.stdin?.end(options.input);
    let cancelLeave = () => {};
    const stop = (why: 'timeout' | 'aborted') => {
      outcome = why;
      killGroup(child.pid, 'SIGKILL');
      // One that hangs in the kernel cannot be killed: it must not keep this process from ending.
      cancelLeave = clock.after(leave_ms, () => leave(child));
    };
    const cancel = clock.after(options.timeout_ms, () => stop('timeout'));
    const onAbort = () => stop('aborted');
    if (options.signal?.aborted) onAbort();
    options.signal?.addEventListener('abort', onAbort, { once: true });
    child.stdout?.on('data', (chunk: Buffer) => capture(out, chunk, limit));
    child.stderr?.on('data', (chunk: Buffer) => capture(err, chunk, limit));
    const finish = (code: number | null, signal: string | null) => {
      cancel();
      cancelLeave();
      options.signal?.removeEventListener('abort', onAbort);
      resolve({ outcome, code, signal, stdout: text(out), stderr: text(err) });
    };
    child.once('error', (error) => {
      outcome = 'failed';
      capture(err, Buffer.from(error.message), limit);
      finish(null, null);
    });
    child.once('close', finish);
  });
}

function leave(child: ChildProcess): void {
  child.unref();
  for (const stream of [child.stdout, child.stderr]) if (stream instanceof Socket) stream.unref();
}

export type DetachedOptions = { env: Record<string, string>; cwd: string };

/**
 * Starts a process that outlives this one: own session, no stdio, not waited for.
 * Returns its pid; throws when it cannot be started.
 */
export function spawnDetached(command: string, args: string[], options: DetachedOptions): number {
  const child = spawn(command, args, { stdio: 'ignore', detached: true, ...options });
  child.on('error', () => {});
  child.unref();
  if (child.pid === undefined) throw new Error(`${command} could not be started`);
  return child.pid;
}

/**
 * Starts a child with piped output whose lifetime the caller manages (dev script, tests, benches).
 */
export function spawnChild(
  command: string,
  args: string[],
  options: { env: Record<string, string | undefined>; cwd?: string; inherit?: boolean },
): ChildProcess {
  return spawn(command, args, {
    stdio: options.inherit ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    env: options.env as Record<string, string>,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
}

export type ProgramEnd = { code: number | null; signal: string | null };

/** A program whose streams are in our hands. */
export type Spawned = {
  pid: number;
  stdin: Writable;
  stdout: Readable;
  stderr: Readable | null;
  /** How it ended, perhaps before the rest of its output was read. Never rejects. */
  exited: Promise<ProgramEnd>;
};

/**
 * Starts a program on these three descriptors, in a session of its own. Throws where it cannot be
 * started.
 */
export function spawnOn(
  command: string,
  args: string[],
  options: DetachedOptions & { stdio: [number | 'ignore', number, number] },
): Pick<Spawned, 'pid' | 'exited'> {
  const child = spawn(command, args, { detached: true, ...options });
  const exited = new Promise<ProgramEnd>((resolve) => {
    child.once('error', () => resolve({ code: 127, signal: null }));
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  if (child.pid === undefined) throw new Error(`${command} could not be started`);
  return { pid: child.pid, exited };
}

/**
 * Starts a client whose streams the caller speaks to, over what Node calls pipes: programs beside a
 * run get real ones (lib/pipes.ts). Throws where it cannot be started.
 */
export function spawnPiped(command: string, args: string[], options: DetachedOptions): Spawned {
  const child = spawn(command, args, { stdio: 'pipe', detached: true, ...options });
  const exited = new Promise<ProgramEnd>((resolve) => {
    child.once('error', () => resolve({ code: 127, signal: null }));
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  if (child.pid === undefined) throw new Error(`${command} could not be started`);
  child.stdin.on('error', () => {}); // it ended without reading all: its own choice
  return { pid: child.pid, stdin: child.stdin, stdout: child.stdout, stderr: child.stderr, exited };
}

/**
 * Runs a program of ours that opens a connection and hands it over, with `{ ok: true }`, or says
 * `{ why }`. The program ends by itself, or at the deadline.
 */
export function socketFrom(
  command: string,
  args: string[],
  options: { env: Record<string, string>; timeout_ms: number },
): Promise<{ socket: Socket } | { why: string }> {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      ...{ stdio: ['ignore', 'ignore', 'ignore', 'ipc'], env: options.env, detached: true },
    });
    const cancel = systemClock.after(options.timeout_ms, () => {
      killGroup(child.pid, 'SIGKILL');
      resolve({ why: 'it took too long' });
    });
    child.once('message', (message: { why?: string }, socket) => {
      const is_given = socket instanceof Socket;
      if (is_given) socket.allowHalfOpen = true;
      resolve(is_given ? { socket } : { why: message.why ?? 'it could not be handed over' });
    });
    child.once('error', (error) => resolve({ why: error.message }));
    child.once('exit', () => cancel());
    child.once('close', () => resolve({ why: 'it could not be entered' }));
  });
}

/** Signals a process group; one that is gone already is no error. */
export function killGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** The name of a signal number (9 gives SIGKILL), or null. */
export function signalName(number: number): string | null {
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return found ? found[0] : null;
}

type Captured = { chunks: Buffer[]; bytes: number };

function capture(into: Captured, chunk: Buffer, limit: number): void {
  const room = limit - into.bytes;
  if (room <= 0) return;
  const kept = chunk.subarray(0, room);
  into.chunks.push(kept);
  into.bytes += kept.length;
}

function text(captured: Captured): string {
  return Buffer.concat(captured.chunks).toString('utf8');
}
