/**
 * What a command touches of the outside: terminal, time, chance, interrupts. Given to each command,
 * so that tests give their own.
 *
 * Invariants: stdout is data, stderr is talk; a reader that went away ends the program quietly.
 */
import type { Readable, Writable } from 'node:stream';
import { type Clock, systemClock } from '../lib/clock.ts';
import { isErrno } from '../lib/files.ts';
import { type Random, systemRandom } from '../lib/random.ts';
import type { Config } from './config.ts';
import { exitCode } from './exit-codes.ts';

export type Terminal = {
  isTTY?: boolean;
  columns?: number;
  rows?: number;
  /** Hands on each key as it is pressed, Ctrl-C too. */
  setRawMode?(on: boolean): unknown;
};

export type Io = {
  stdin: Readable & Terminal;
  stdout: Writable & Terminal;
  stderr: Writable & Terminal;
  cwd: string;
  clock: Clock;
  random: Random;
  /** Calls `listener` on Ctrl-C; a second one ends the program. Returns the undoing. */
  onInterrupt(listener: () => void): () => void;
  /**
   * Opens a page in the user's browser by a private file in the data folder; false where none could
   * be started.
   */
  openPage(url: string, data_dir: string): Promise<boolean>;
};

export type Context = { config: Config; io: Io };

/** The real one. */
export function processIo(): Io {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error) => {
      if (isErrno(error, 'EPIPE')) process.exit();
      throw error;
    });
  }
  return {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    cwd: process.cwd(),
    clock: systemClock,
    random: systemRandom,
    onInterrupt(listener) {
      let pressed = 0;
      const onSignal = () => {
        pressed += 1;
        // Whoever presses it again does not want to wait for a call that hangs.
        if (pressed > 1) process.exit(exitCode('interrupted'));
        listener();
      };
      process.on('SIGINT', onSignal);
      return () => process.off('SIGINT', onSignal);
    },
    async openPage(url, data_dir) {
      const { openBrowser } = await import('./browser.ts');
      return openBrowser(url, data_dir);
    },
  };
}
