/**
 * Programs beside a container's own.
 *
 * Invariants: resolves once the program has begun, rejects where it cannot; its output ends before
 * its end is told; ended from outside, nothing that it started is left, whatever the image has in
 * it: its processes are known by a variable that they inherit.
 */
import { type Duplex, PassThrough, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { Clock } from '../../lib/clock.ts';
import { signalName } from '../../lib/exec.ts';
import { describeError } from '../../lib/log.ts';
import type { Random } from '../../lib/random.ts';
import type { ExecAsk, ExecSession } from '../../lib/session.ts';
import { DriverError } from '../driver.ts';
import type { Container } from './container.ts';
import { type Engine, isOlder } from './engine.ts';
import { driverError, oneLine } from './engine-error.ts';
import { splitFrames } from './frames.ts';
import { isOfContainer, markedPids, seesProcesses, signalPid } from './processes.ts';

export type ExecDeps = { engine: Engine; clock: Clock; random: Random };

/** The variable that every process of one exec has. */
const marker = 'EINSORA_EXEC';
const shell = ['/bin/sh', '-c', 'command -v bash >/dev/null && exec bash -l; exec sh -l'];
const default_terminal = 'xterm-256color';
/** From here on the engine takes a terminal's size at the start. */
const sized_api = '1.42';
const end_of_typing = Buffer.from([4]);
const begin_patience_ms = 20_000;
const end_patience_ms = 10_000;
const kill_rounds = 200;
const kill_poll_ms = 20;

type State = { is_running: boolean; code: number | null; pid: number };

export async function openExec(
  deps: ExecDeps,
  container: Container,
  ask: ExecAsk,
  signal: AbortSignal,
): Promise<ExecSession> {
  const token = Buffer.from(deps.random.bytes(12)).toString('hex');
  const refuse = (why: string, cause?: unknown) =>
    driverError('exec_failed', { name: 'it', why }, cause);
  if (signal.aborted) throw refuse('it was called off');
  try {
    let found: Begun | string = '';
    for (const Cmd of await commandsFor(deps.engine, ask)) {
      found = await begin(deps, container, ask, token, Cmd);
      if (typeof found !== 'string') break;
    }
    if (typeof found === 'string') throw refuse(found);
    const session = sessionOf(deps, { ...found, container, token, ask });
    const kill = () => session.kill();
    signal.addEventListener('abort', kill, { once: true });
    session.exited.finally(() => signal.removeEventListener('abort', kill));
    if (signal.aborted) kill();
    return session;
  } catch (error) {
    if (error instanceof DriverError) throw error;
    throw refuse(oneLine(describeError(error)), error);
  }
}

/**
 * How it is begun: an engine that takes no size at the start has a shell of the image set it, so
 * that the program does not begin on a terminal without one; without a shell that has to do.
 */
async function commandsFor(engine: Engine, { argv, terminal }: ExecAsk): Promise<string[][]> {
  const plain = argv.length === 0 ? shell : argv;
  const { api } = await engine.version();
  if (terminal === null || !isOlder(api, sized_api)) return [plain];
  const size = `stty rows ${terminal.rows} cols ${terminal.columns} 2>/dev/null; exec "$@"`;
  return [['/bin/sh', '-c', size, 'sh', ...plain], plain];
}

type Begun = { id: string; socket: Duplex };

/** Why it could not, where it could not. */
async function begin(
  deps: ExecDeps,
  container: Container,
  ask: ExecAsk,
  token: string,
  Cmd: string[],
): Promise<Begun | string> {
  const id = await createExec(deps.engine, container.id, ask, token, Cmd);
  const has_terminal = ask.terminal !== null;
  const json = { Detach: false, Tty: has_terminal };
  const socket = await deps.engine.hijack({ method: 'POST', path: `/exec/${id}/start`, json });
  // Errors come again as an end; without a listener they would end this program.
  socket.on('error', () => {});
  const begun = await untilBegun(deps, id);
  return begun.pid === 0 ? whyNot(socket, ask, has_terminal) : { id, socket };
}

async function createExec(
  engine: Engine,
  container_id: string,
  { env, cwd, terminal }: ExecAsk,
  token: string,
  Cmd: string[],
): Promise<string> {
  const given = terminal === null ? env : { TERM: default_terminal, ...env };
  const variables = { ...given, [marker]: token };
  const made = (await engine.json({
    method: 'POST',
    path: `/containers/${container_id}/exec`,
    json: {
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
      Tty: terminal !== null,
      Cmd,
      // An engine that is too old for it leaves it out.
      ...(terminal === null ? {} : { ConsoleSize: [terminal.rows, terminal.columns] }),
      Env: Object.entries(variables).map(([name, value]) => `${name}=${value}`),
      ...(cwd === null ? {} : { WorkingDir: cwd }),
    },
  })) as { Id?: string } | null;
  return String(made?.Id);
}

/** Its pid, once it has one, or what it ended with before it had. */
async function untilBegun({ engine, clock }: ExecDeps, id: string): Promise<State> {
  const deadline = clock.monotonic() + begin_patience_ms;
  for (;;) {
    const state = await readState(engine, id);
    if (state.pid > 0 || state.code !== null) return state;
    if (clock.monotonic() > deadline) throw new Error('it does not begin');
    await clock.sleep(5);
  }
}

async function readState(engine: Engine, id: string): Promise<State> {
  const found = (await engine.json({ method: 'GET', path: `/exec/${id}/json` })) as {
    Running?: boolean;
    ExitCode?: number | null;
    Pid?: number;
  } | null;
  return {
    is_running: found?.Running === true,
    code: found?.ExitCode ?? null,
    pid: found?.Pid ?? 0,
  };
}

/** The engine tells on the program's own streams why it could not begin. */
async function whyNot(socket: Duplex, { argv }: ExecAsk, is_raw: boolean): Promise<string> {
  let text = '';
  try {
    for await (const chunk of socket) {
      text += (chunk as Buffer).toString('utf8', is_raw ? 0 : 8);
      if (text.length > 4096) break;
    }
  } catch {
    // What came before is all there is.
  }
  if (argv.length === 0 && /no such file|not found/i.test(text)) return 'its image has no shell';
  if (/chdir to cwd|no such file or directory.*cwd/i.test(text)) return 'that folder is not there';
  if (/executable file not found|no such file or directory/i.test(text)) {
    return `its image has no program ${argv[0] ?? '/bin/sh'}`;
  }
  return oneLine(text) || 'the engine does not say';
}

type Opened = {
  id: string;
  container: Container;
  token: string;
  ask: ExecAsk;
  socket: Duplex;
};

function sessionOf(deps: ExecDeps, opened: Opened): ExecSession {
  const { id, ask, socket } = opened;
  const { stdout, stderr } = outputsOf(socket, ask.terminal !== null);
  let sizing: Promise<unknown> = Promise.resolve();
  const resize = (columns: number, rows: number) => {
    const query = { w: columns, h: rows };
    const path = `/exec/${id}/resize`;
    // One after the other, so that the last one holds. One that ended meanwhile has no size.
    sizing = sizing.then(() => deps.engine.json({ method: 'POST', path, query }).catch(() => null));
  };
  if (ask.terminal !== null) resize(ask.terminal.columns, ask.terminal.rows);
  const outputs = stderr === null ? [stdout] : [stdout, stderr];
  const exited = Promise.all(outputs.map((one) => finished(one).catch(() => {})))
    .then(() => untilEnded(deps, id))
    .finally(() => socket.destroy());
  return {
    // What is typed after a change of size meets the new size.
    stdin: inputOf(socket, ask.terminal !== null, () => sizing),
    stdout,
    stderr,
    resize,
    kill: () => void killAll(deps, opened).finally(() => socket.destroy()),
    exited,
  };
}

function outputsOf(socket: Duplex, is_raw: boolean) {
  if (!is_raw) return splitFrames(socket);
  const stdout = new PassThrough();
  socket.once('close', () => stdout.end());
  socket.pipe(stdout);
  return { stdout, stderr: null };
}

/**
 * Ending it closes the program's input, and leaves its output open. A terminal has no half: the
 * engine would hang up on its program, so the end of typing is typed.
 */
function inputOf(socket: Duplex, is_terminal: boolean, ready: () => Promise<unknown>): Writable {
  const input = new Writable({
    write: (chunk, _, done) => void ready().then(() => socket.write(chunk, done)),
    final(done) {
      if (is_terminal) void ready().then(() => socket.write(end_of_typing));
      else socket.end();
      done();
    },
  });
  socket.once('close', () => input.destroy());
  input.on('error', () => {}); // it ended without reading all: its own choice
  return input;
}

async function untilEnded({ engine, clock }: ExecDeps, id: string) {
  const deadline = clock.monotonic() + end_patience_ms;
  try {
    for (;;) {
      const { is_running, code } = await readState(engine, id);
      if (!is_running && code !== null) {
        return { code, signal: code > 128 ? signalName(code - 128) : null };
      }
      if (clock.monotonic() > deadline) break;
      await clock.sleep(10);
    }
  } catch {
    // With the container or the engine gone nobody can tell any more.
  }
  return { code: null, signal: null };
}

async function killAll(
  { engine, clock }: ExecDeps,
  { id, container, token }: Opened,
): Promise<void> {
  const text = `${marker}=${token}`;
  try {
    if (!seesProcesses(await engine.version())) return await killInside(engine, container, text);
    for (let round = 0; round < kill_rounds; round += 1) {
      // While it is on its way into the container it has the variable not yet, and a pid already.
      const { is_running, pid: first } = await readState(engine, id);
      const pids = new Set(markedPids(container.id, text));
      if (is_running && isOfContainer(first, container.id)) pids.add(first);
      if (pids.size === 0) {
        // Its process is not to be seen: this program may be in a container itself.
        if (is_running) await killInside(engine, container, text);
        return;
      }
      for (const pid of pids) signalPid(pid, 'SIGKILL');
      await clock.sleep(kill_poll_ms);
    }
  } catch {
    // The container is gone, or the engine: then so is it, or it goes with the run.
  }
}

/** For engines whose processes are not seen from here: a shell of the image has to do it. */
async function killInside(engine: Engine, { id }: Container, text: string): Promise<void> {
  const script =
    'cd /proc; for p in [0-9]*; do grep -qF "$1" "$p/environ" 2>/dev/null && kill -9 "$p"; done';
  const path = `/containers/${id}/exec`;
  const json = { Cmd: ['/bin/sh', '-c', script, 'sh', text] };
  const made = (await engine.json({ method: 'POST', path, json })) as { Id?: string } | null;
  const start = `/exec/${made?.Id}/start`;
  await engine.json({ method: 'POST', path: start, json: { Detach: true } });
}
