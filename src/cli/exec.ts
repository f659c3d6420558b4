/**
 * `einsora exec`: a program beside a run, as if it ran here.
 *
 * Invariants: its exit code is the program's, 128 and the signal's number where a signal ended it;
 * a connection that breaks is said and has a code of its own; the terminal is given back as it was,
 * however it ends.
 */
import { constants } from 'node:os';
import type { Writable } from 'node:stream';
import { CliError } from './cli-error.ts';
import { openClient } from './client.ts';
import { findConnection, unreachablePlace } from './connection.ts';
import type { ExecEnd, ExecLine } from './exec-line.ts';
import { exitCode } from './exit-codes.ts';
import { isRefused } from './http.ts';
import type { Context, Io } from './io.ts';
import { say } from './output.ts';
import { onWorkload } from './workload-name.ts';

export type ExecOptions = {
  stdin?: boolean;
  /** True by -t, false by -T; left out, a terminal where there is one on both ends. */
  tty?: boolean;
  env?: string[];
  cwd?: string;
};

export async function exec(
  context: Context,
  name: string,
  argv: string[],
  options: ExecOptions,
): Promise<number> {
  const { io } = context;
  const is_terminal = options.tty ?? (io.stdin.isTTY === true && io.stdout.isTTY === true);
  const takes_stdin = options.stdin === true || is_terminal;
  const { openExec } = await import('./exec-line.ts');
  const place = findConnection(context.config);
  const open = () =>
    openExec({
      ...{ url: place.url, token: place.token, workload: name, clock: io.clock },
      start: {
        argv,
        env: readVariables(options.env ?? []),
        cwd: options.cwd ?? null,
        terminal: is_terminal ? sizeOf(io) : null,
      },
      print: (channel, bytes) => write(io[channel], bytes),
    }).catch((error) => {
      throw isRefused(error) ? unreachablePlace(context.config, place) : error;
    });
  const line = await onWorkload(openClient(context), name, open);
  const hand = is_terminal ? handOn(io, line) : interrupting(io, line);
  try {
    if (takes_stdin) void feed(io, line);
    else line.closeStdin();
    const end = await line.ended;
    if (hand.was_interrupted()) return exitCode('interrupted');
    return codeOf(context, name, end);
  } finally {
    hand.close();
    // What is not read keeps the process waiting for it.
    if (takes_stdin) io.stdin.destroy();
  }
}

function codeOf(context: Context, name: string, end: ExecEnd): number {
  if (end.how === 'lost') {
    say(context, `The connection to ${name} broke off: the program there is ended.`);
    return exitCode('connection_lost');
  }
  if (end.code !== null) return end.code;
  const numbers: Record<string, number> = constants.signals;
  return 128 + (numbers[end.signal ?? ''] ?? 0);
}

/** The terminal is the program's, key by key, until it is given back. */
function handOn(io: Io, line: ExecLine) {
  const resized = () => {
    const { columns, rows } = sizeOf(io);
    line.resize(columns, rows);
  };
  const giveBack = () => void io.stdin.setRawMode?.(false);
  io.stdin.setRawMode?.(true);
  io.stdout.on('resize', resized);
  process.once('exit', giveBack);
  return {
    was_interrupted: () => false,
    close() {
      io.stdout.off('resize', resized);
      process.off('exit', giveBack);
      giveBack();
    },
  };
}

/** Without a terminal Ctrl-C breaks the connection off, which ends the program. */
function interrupting(io: Io, line: ExecLine) {
  let was_interrupted = false;
  const close = io.onInterrupt(() => {
    was_interrupted = true;
    line.close();
  });
  return { was_interrupted: () => was_interrupted, close };
}

async function feed(io: Io, line: ExecLine): Promise<void> {
  try {
    for await (const chunk of io.stdin as AsyncIterable<Buffer>) {
      if (!(await line.type(Buffer.from(chunk)))) return;
    }
  } catch {
    // It was closed from here: the program has ended.
  }
  line.closeStdin();
}

function sizeOf({ stdout }: Io): { columns: number; rows: number } {
  return { columns: stdout.columns || 80, rows: stdout.rows || 24 };
}

function write(stream: Writable, bytes: Buffer): Promise<void> {
  if (stream.write(bytes)) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.once('drain', done).once('close', done);
  });
}

function readVariables(given: string[]): Record<string, string> {
  return Object.fromEntries(
    given.map((text) => {
      const at = text.indexOf('=');
      const name = at < 0 ? text : text.slice(0, at);
      if (at >= 0 && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return [name, text.slice(at + 1)];
      throw new CliError({
        code: 'bad_request',
        message: `${text} is no variable: give NAME=value`,
        exit: 'usage',
      });
    }),
  );
}
