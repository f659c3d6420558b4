/**
 * The eyes of the inventory: reads files and runs tools of this machine, for probes to judge.
 *
 * Invariants: nothing here throws and nothing runs without a deadline; what cannot be read is null,
 * so that a probe says "could not be read" and not "is not there". Tools come from the system's
 * folders only, whatever the environment says. Tests hand probes a reader made of fixtures.
 */
import { closeSync, constants, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { ExecOptions, ExecResult } from '../../lib/exec.ts';

/** denied: by permissions; dead: the file is there, and nothing answers behind it. */
export type Opened = 'opens' | 'missing' | 'denied' | 'dead';

export type MachineReader = {
  read(path: string): string | null;
  list(path: string): string[];
  /** Where a symbolic link points, or null. */
  link(path: string): string | null;
  /** Opens a device for reading and writing, and closes it again. */
  open(path: string): Opened;
  run(command: string, args: string[], timeout_ms: number): Promise<ExecResult>;
};

export type Exec = (command: string, args: string[], options: ExecOptions) => Promise<ExecResult>;

/** Where tools are looked for; the last ones are Homebrew's, Snap's and those of WSL. */
export const tool_path =
  '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' +
  ':/opt/homebrew/bin:/snap/bin:/usr/lib/wsl/lib';

const output_limit_bytes = 256 * 1024;

/** `root`: the folder in which the machine's files lie; tests hand over trees of their own. */
export function createMachineReader(exec: Exec, root = ''): MachineReader {
  return {
    read: (path) => attempt(() => readFileSync(root + path, 'utf8'), null),
    list: (path) => attempt(() => readdirSync(root + path).sort(), []),
    link: (path) => attempt(() => readlinkSync(root + path), null),
    open: (path) => openDevice(root + path),
    run: (command, args, timeout_ms) =>
      exec(command, args, { env: { PATH: tool_path }, timeout_ms, output_limit_bytes }),
  };
}

function openDevice(path: string): Opened {
  try {
    closeSync(openSync(path, constants.O_RDWR | constants.O_NONBLOCK));
    return 'opens';
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return 'missing';
    return code === 'EACCES' || code === 'EPERM' ? 'denied' : 'dead';
  }
}

function attempt<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
