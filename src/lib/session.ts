/**
 * What people do inside a run: programs beside its own, and its files. The shapes that drivers,
 * backends, terminals and the SSH server share.
 */
import type { Readable, Writable } from 'node:stream';

export type ExecAsk = {
  /** Empty: the run's best shell, as a login. */
  argv: string[];
  env: Record<string, string>;
  /** Null: the workspace, or the user's home. */
  cwd: string | null;
  /** A terminal of this size; null: plain pipes. */
  terminal: { columns: number; rows: number } | null;
};

/**
 * A program beside the run's own. Output ends when all of it was read; `exited` resolves after that
 * with how it ended and never rejects. With a terminal everything comes on `stdout`.
 */
export type ExecSession = {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable | null;
  resize(columns: number, rows: number): void;
  /** Ends it and what it started. */
  kill(): void;
  exited: Promise<{ code: number | null; signal: string | null }>;
};

export type FileFacts = {
  name: string;
  kind: 'file' | 'folder' | 'link' | 'other';
  size: number;
  /** Permission bits. */
  mode: number;
  /** Wall-clock milliseconds. */
  modified_at: number;
};

/**
 * Files of a run, by absolute path inside it. A link that leaves the run's own files is followed
 * inside the run, never on the machine. `stat`, `list`, `read` and `write` follow a link in the
 * last place (`kind` is then that of what it leads to); what `list` lists, `remove` and `rename` do
 * not. `remove` takes files and empty folders. Each rejects with a DriverError (`file_not_found`,
 * `file_refused`).
 */
export type RunFiles = {
  stat(path: string): Promise<FileFacts>;
  list(path: string): Promise<FileFacts[]>;
  read(path: string, offset: number): Promise<Readable>;
  /** Resolves when it is whole: cut off, the old file stays. */
  write(path: string, content: Readable, mode: number): Promise<void>;
  makeFolder(path: string): Promise<void>;
  remove(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
};
