/**
 * Runs a command line in process, with its own terminal, time and interrupts.
 *
 * Invariants: time is virtual: a wait passes at once, and moves the clock by as much.
 */
import { PassThrough } from 'node:stream';
import type { Environment } from '../../src/cli/config.ts';
import type { Io } from '../../src/cli/io.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { seededRandom } from '../../src/lib/random.ts';
import { main } from '../../src/main.ts';
import { now_ms } from './fake-records.ts';

export type CliResult = { code: number; stdout: string; stderr: string };

export type CliOptions = {
  data_dir: string;
  /** The command line does not name the data folder: what it talks to is found as usual. */
  unnamed?: boolean;
  /** What is typed or piped in. */
  input?: string;
  /** The three streams are a terminal. */
  tty?: boolean;
  columns?: number;
  /** What its clock says first, in wall-clock milliseconds. */
  began_at?: number;
  cwd?: string;
  /** Of its Idempotency-Keys: runs with the same one repeat each other. */
  seed?: number;
  env?: Environment;
  /** Called before each wait with a function that presses Ctrl-C. */
  onSleep?: (interrupt: () => void, ms: number) => void;
  /** Called with everything written to stdout and a function that types. */
  onOutput?: (all: string, type: (text: string) => void, interrupt: () => void) => void;
  openPage?: (url: string) => Promise<boolean>;
};

export async function runCli(argv: string[], options: CliOptions): Promise<CliResult> {
  const listeners = new Set<() => void>();
  const interrupt = () => {
    for (const listener of [...listeners]) listener();
  };
  const stdin = terminal(options);
  const stdout = terminal(options);
  const stderr = terminal(options);
  const written = { stdout: '', stderr: '' };
  stdout.on('data', (chunk) => {
    written.stdout += chunk;
    options.onOutput?.(written.stdout, (text) => stdin.write(text), interrupt);
  });
  stderr.on('data', (chunk) => {
    written.stderr += chunk;
  });
  if (options.input !== undefined) stdin.end(options.input);
  const io: Io = {
    stdin,
    stdout,
    stderr,
    cwd: options.cwd ?? options.data_dir,
    clock: virtualClock(options.began_at ?? now_ms, (ms) => options.onSleep?.(interrupt, ms)),
    random: seededRandom(options.seed ?? 1),
    onInterrupt(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    openPage: options.openPage ?? (async () => false),
  };
  const env = options.env ?? { TERM: 'xterm' };
  const named = options.unnamed ? [] : ['--data-dir', options.data_dir];
  const code = await main([...argv, ...named], io, env);
  await new Promise((resolve) => setImmediate(resolve));
  return { code, ...written };
}

function terminal(options: CliOptions) {
  const stream = new PassThrough();
  const shape = { isTTY: options.tty === true, columns: options.columns ?? 100 };
  return Object.assign(stream, shape);
}

function virtualClock(began_at: number, onSleep: (ms: number) => void): Clock {
  let passed_ms = 0;
  return {
    now: () => began_at + passed_ms,
    monotonic: () => passed_ms,
    async sleep(ms) {
      passed_ms += ms;
      onSleep(ms);
    },
    after: () => () => {},
  };
}
