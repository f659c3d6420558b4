/**
 * Pseudo-terminals: a program started on one of its own.
 *
 * Invariants: output is never dropped: after the program's end the rest is read, however slowly;
 * descriptors are closed with the streams. The binding is loaded by the first use alone (ADR-0046).
 */
import { closeSync, constants, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import { PassThrough, type Readable, Writable } from 'node:stream';
import { ReadStream } from 'node:tty';
import { type DetachedOptions, type Spawned, spawnOn } from './exec.ts';
import { isErrno } from './files.ts';

export type TerminalSize = { columns: number; rows: number };

export type OnTerminal = Spawned & { stderr: null; resize(size: TerminalSize): void };

/** Of the pinned package: what its prebuilt binding offers. */
type Binding = {
  open(columns: number, rows: number): { master: number; slave: number; pty: string };
  resize(fd: number, columns: number, rows: number): void;
};

const largest_side = 4096;
let loaded: Binding | null = null;

function load(): Binding {
  const inside = createRequire(createRequire(import.meta.url).resolve('@lydell/node-pty'));
  loaded ??= inside(`@lydell/node-pty-${process.platform}-${process.arch}/pty.node`) as Binding;
  return loaded;
}

/**
 * Starts a program on a new terminal. It becomes the terminal of a session only by a program that
 * asks for it, such as `setsid --ctty`: so one that only leads into a sandbox is not hit by what is
 * typed. Throws where this machine has no terminals to give.
 */
export function spawnOnTerminal(
  command: string,
  args: string[],
  options: DetachedOptions & {
    size: TerminalSize;
    /** Leaves stdin empty: a shell that leads a session takes the terminal that it finds there. */
    no_stdin?: boolean;
  },
): OnTerminal {
  const binding = load();
  const { columns, rows } = bounded(options.size);
  const opened = binding.open(columns, rows);
  // The binding's own end would not wait for what is typed, as programs expect it.
  const slave = openSync(opened.pty, constants.O_RDWR | constants.O_NOCTTY);
  closeSync(opened.slave);
  const master = new ReadStream(opened.master);
  let is_open = true;
  master.once('close', () => {
    is_open = false;
  });
  try {
    const { env, cwd } = options;
    const stdin = options.no_stdin ? ('ignore' as const) : slave;
    const started = spawnOn(command, args, { env, cwd, stdio: [stdin, slave, slave] });
    return {
      ...{ ...started, stdin: typed(master), stdout: shown(master), stderr: null },
      resize(size) {
        const to = bounded(size);
        if (is_open) binding.resize(opened.master, to.columns, to.rows);
      },
    };
  } catch (error) {
    master.destroy();
    throw error;
  } finally {
    closeSync(slave);
  }
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
