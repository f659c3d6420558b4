/**
 * Programs beside a sim run: a few commands that are only played, enough for what stands above
 * drivers to be tried: `echo`, `cat`, `exit`, `sleep`, `true`, `false`, `pwd`, `printenv`, `read`,
 * `stty size`, `head -c N /dev/zero`, and `sh -c` with several of them.
 *
 * Invariants: nothing is executed; the same script gives the same output; what the sim does not
 * know ends with 127, as a shell ends it.
 */
import { PassThrough } from 'node:stream';
import type { Clock } from '../lib/clock.ts';
import type { ExecAsk, ExecSession } from '../lib/session.ts';
import type { SimFiles } from './sim-files.ts';

type Context = {
  ask: ExecAsk;
  clock: Clock;
  files: SimFiles;
  over: AbortSignal;
  size: { columns: number; rows: number };
  stdin: PassThrough;
  out(bytes: string | Buffer): Promise<void>;
  err(bytes: string): Promise<void>;
};

const piece_bytes = 64 * 1024;
const killed = { code: null, signal: 'SIGKILL' };
const prompt = '$ ';
const longest_sleep_s = 100;

export function playExec(
  ask: ExecAsk,
  parts: { clock: Clock; files: SimFiles; over: AbortSignal },
): ExecSession {
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  const stderr = ask.terminal === null ? new PassThrough() : null;
  const killing = new AbortController();
  const over = AbortSignal.any([killing.signal, parts.over]);
  const context: Context = {
    ...{ ...parts, ask, over, stdin },
    size: ask.terminal ?? { columns: 80, rows: 24 },
    out: (bytes) => give(stdout, bytes, over),
    err: (bytes) => give(stderr ?? stdout, bytes, over),
  };
  async function play() {
    const code = await Promise.race([run(context, ask.argv), aborted(over)]);
    const outputs = stderr === null ? [stdout] : [stdout, stderr];
    for (const one of outputs) one.end();
    stdin.destroy();
    await Promise.all(outputs.map(untilRead));
    return code === 'killed' || over.aborted ? killed : { code, signal: null };
  }
  stdin.on('error', () => {});
  return {
    ...{ stdin, stdout, stderr, exited: play() },
    kill: () => killing.abort(),
    resize(columns, rows) {
      context.size = { columns, rows };
    },
  };
}

function aborted(signal: AbortSignal): Promise<'killed'> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve('killed');
    signal.addEventListener('abort', () => resolve('killed'), { once: true });
  });
}

async function run(context: Context, argv: string[]): Promise<number> {
  if (argv.length === 0) return interactive(context);
  const [name, option, script] = argv;
  if (/(?:^|\/)(?:ba)?sh$/.test(name ?? '') && option === '-c') {
    return runScript(context, script ?? '');
  }
  return runOne(context, argv);
}

/** A shell that asks for one line after the other, until `exit` or the end of what is typed. */
async function interactive(context: Context): Promise<number> {
  for (;;) {
    if (context.ask.terminal !== null) await context.out(prompt);
    const line = await readLine(context);
    if (line === null) return 0;
    if (context.ask.terminal !== null) await context.out(`${line}\r\n`);
    const left = /^\s*exit(?:\s+(\d+))?\s*$/.exec(line);
    if (left) return Number(left[1] ?? 0);
    if (line.trim() !== '') await runScript(context, line);
  }
}

async function runScript(context: Context, script: string): Promise<number> {
  let code = 0;
  for (const part of script.split(/;\s*|\n|(?<=&)\s/)) {
    const text = part.trim();
    const left = /^exit(?:\s+(\d+))?$/.exec(text);
    if (left) return Number(left[1] ?? code);
    // In the background nothing is played: it would print nothing.
    if (text === '' || /[^>]&$/.test(text)) continue;
    code = await runOne(context, wordsOf(text));
  }
  return code;
}

async function runOne(context: Context, words: string[]): Promise<number> {
  const { ask, clock, over } = context;
  const to_err = words.at(-1) === '>&2';
  const [name = '', ...args] = to_err ? words.slice(0, -1) : words;
  const print = to_err ? context.err : context.out;
  if (name === 'true' || name === 'stty') {
    if (args[0] === 'size') await print(`${context.size.rows} ${context.size.columns}\n`);
    return 0;
  }
  if (name === 'false') return 1;
  if (name === 'echo') {
    await print(`${args.join(' ')}\n`);
    return 0;
  }
  if (name === 'pwd') {
    await print(`${ask.cwd ?? '/'}\n`);
    return 0;
  }
  if (name === 'printenv') {
    const value = ask.env[args[0] ?? ''];
    if (value !== undefined) await print(`${value}\n`);
    return value === undefined ? 1 : 0;
  }
  if (name === 'sleep') {
    const seconds = Number(args[0] ?? 0);
    // Who sleeps that long is there to be killed, however fast the clock of a test runs.
    if (seconds >= longest_sleep_s) await aborted(over);
    else await clock.sleep(seconds * 1000, over);
    return 0;
  }
  if (name === 'read') {
    const line = await readLine(context);
    if (line !== null && ask.terminal !== null) await print(`${line}\r\n`);
    return line === null ? 1 : 0;
  }
  if (name === 'head' && args[2] === '/dev/zero') return zeros(context, Number(args[1]));
  if (name === 'cat') return cat(context, args[0]);
  await context.err(`einsora: ${name}: not found\n`);
  return 127;
}

async function cat({ stdin, files, out, err }: Context, path: string | undefined): Promise<number> {
  if (path === undefined) {
    for await (const chunk of stdin) await out(chunk as Buffer);
    return 0;
  }
  const content = files.content(path);
  if (content === null) {
    await err(`cat: ${path}: No such file or directory\n`);
    return 1;
  }
  await out(content);
  return 0;
}

async function zeros({ out }: Context, count: number): Promise<number> {
  for (let left = count; left > 0; left -= piece_bytes) {
    await out(Buffer.alloc(Math.min(left, piece_bytes)));
  }
  return 0;
}

/** A line of what is typed, without its end; null where no more comes. */
async function readLine({ stdin, over }: Context): Promise<string | null> {
  let line = '';
  for (;;) {
    const byte = stdin.read(1) as Buffer | null;
    if (byte !== null) {
      const typed = byte.toString('latin1');
      if (typed === '\n' || typed === '\r') return line;
      if (typed === '\x04') return line === '' ? null : line;
      line += typed;
    } else if (stdin.readableEnded || stdin.destroyed || over.aborted) {
      return null;
    } else {
      await moved(stdin, over);
    }
  }
}

function moved(stdin: PassThrough, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      for (const event of ['readable', 'end', 'close']) stdin.off(event, done);
      over.removeEventListener('abort', done);
      resolve();
    };
    for (const event of ['readable', 'end', 'close']) stdin.on(event, done);
    over.addEventListener('abort', done);
  });
}

/** Words with the quotes of a shell taken off. */
function wordsOf(text: string): string[] {
  return [...text.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map((m) => m[1] ?? m[2] ?? m[3] ?? '');
}

function give(stream: PassThrough, bytes: string | Buffer, over: AbortSignal): Promise<void> {
  if (stream.destroyed || stream.writableEnded || stream.write(bytes)) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done);
      over.removeEventListener('abort', done);
      resolve();
    };
    stream.once('drain', done).once('close', done);
    over.addEventListener('abort', done);
  });
}

function untilRead(stream: PassThrough): Promise<void> {
  return new Promise((resolve) => {
    if (stream.closed || stream.readableLength === 0) resolve();
    else stream.once('end', resolve).once('close', resolve);
  });
}
