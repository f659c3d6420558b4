/**
 * Pseudo-terminals: a program started in one of its own.
 *
 * Invariants: the program leads a new session whose terminal it is; output is never dropped: after
 * the program's end the rest is read, however slowly; the descriptor is closed with the stream.
 * The binding is loaded by the first use alone (ADR-0046).
 */
import { createRequire } from 'node:module';
import { PassThrough, type Readable, Writable } from 'node:stream';
import { ReadStream } from 'node:tty';
import { type ProgramEnd, type Spawned, signalName } from './exec.ts';
import { isErrno } from './files.ts';

export type TerminalSize = { columns: number; rows: number };

export type InTerminal = Spawned & { stderr: null; resize(size: TerminalSize): void };

/** Of the pinned package: what its prebuilt binding offers. */
type Binding = {
  fork(
    file: string,
    args: string[],
    env: string[],
    cwd: string,
    columns: number,
    rows: number,
    uid: number,
    gid: number,
    utf8: boolean,
    helper: string,
    ended: (code: number, signal: number) => void,
  ): { fd: number; pid: number };
  resize(fd: number, columns: number, rows: number): void;
};

const largest_side = 4096;
let loaded: { binding: Binding; helper: string } | null = null;

function load(): { binding: Binding; helper: string } {
  if (loaded !== null) return loaded;
  const inside = createRequire(createRequire(import.meta.url).resolve('@lydell/node-pty'));
  const build = `@lydell/node-pty-${process.platform}-${process.arch}`;
  const binding = inside(`${build}/pty.node`) as Binding;
  const helper = process.platform === 'darwin' ? inside.resolve(`${build}/spawn-helper`) : '';
  loaded = { binding, helper };
  return loaded;
}

/** Starts a program in a terminal of its own. Throws where this machine has none to give. */
export function spawnInTerminal(
  command: string,
  args: string[],
  options: { env: Record<string, string>; cwd: string; size: TerminalSize },
): InTerminal {
  const { binding, helper } = load();
  const { columns, rows } = bounded(options.size);
  const env = Object.entries(options.env).map(([name, value]) => `${name}=${value}`);
  let settle: (end: ProgramEnd) => void = () => {};
  const exited = new Promise<ProgramEnd>((resolve) => {
    settle = resolve;
  });
  const { fd, pid } = binding.fork(
    ...([command, args, env, options.cwd, columns, rows] as const),
    ...([-1, -1, true, helper] as const),
    (code, signal) =>
      settle(signal > 0 ? { code: null, signal: signalName(signal) } : { code, signal: null }),
  );
  const master = new ReadStream(fd);
  let is_open = true;
  master.once('close', () => {
    is_open = false;
  });
  return {
    ...{ pid, exited, stdin: typed(master), stdout: shown(master), stderr: null },
    resize(size) {
      const to = bounded(size);
      if (is_open) binding.resize(fd, to.columns, to.rows);
    },
  };
}

/** What is shown. It ends where Linux answers EIO: nobody has the terminal open any more. */
function shown(master: ReadStream): Readable {
  const out = new PassThrough();
  master.pipe(out, { end: false });
  const over = () => void (out.writableEnded || out.end());
  master.once('close', over);
  master.once('end', over);
  master.on('error', (error) => {
    if (isErrno(error, 'EIO')) over();
    else out.destroy(error);
  });
  out.once('close', () => master.destroy());
  return out;
}

/** Ctrl-D is how a terminal says that nothing more is typed. */
const end_of_typing = Buffer.from([4]);

function typed(master: ReadStream): Writable {
  return new Writable({
    write(chunk, _encoding, done) {
      if (master.destroyed) done();
      else master.write(chunk, () => done());
    },
    final(done) {
      if (!master.destroyed) master.write(end_of_typing);
      done();
    },
  });
}

function bounded({ columns, rows }: TerminalSize): TerminalSize {
  const side = (value: number) => Math.min(largest_side, Math.max(1, Math.floor(value) || 1));
  return { columns: side(columns), rows: side(rows) };
}
