/**
 * The real program in a data folder of its own: started, asked through its command line and its
 * API, killed, started again.
 *
 * Invariants: what a test started is gone after it, engines included; tools and models are fetched
 * once, into a cache that is shared by all tests and kept between runs.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { systemClock } from '../../src/lib/clock.ts';
import { type ExecResult, exec, spawnChild } from '../../src/lib/exec.ts';

export const repository = resolve(import.meta.dirname, '../..');
/** For a command line that runs elsewhere than `Program.cli` does. */
export const mainFile = join(repository, 'src/main.ts');
export const test_cache = process.env.EINSORA_TEST_CACHE ?? join(repository, '.cache/test-tools');

export type Program = {
  data_dir: string;
  url: string;
  pid: number;
  /** What `up` printed so far. */
  said(): string;
  /** Runs a command of the command line against it. */
  cli(args: string[], timeout_ms?: number): Promise<ExecResult>;
  /** Calls the API as the local owner; `body` makes it a POST unless `method` says otherwise. */
  api<T = Record<string, unknown>>(
    path: string,
    options?: { method?: string; body?: unknown; headers?: Record<string, string> },
  ): Promise<{ status: number; body: T }>;
  /** Ctrl-C, and waits for the end. Gives the exit code. */
  interrupt(): Promise<number | null>;
  /** kill -9, and waits for the end. */
  kill(): Promise<void>;
  ended: Promise<number | null>;
};

export type ProgramOptions = {
  data_dir: string;
  args?: string[];
  env?: Record<string, string>;
  /** Waits until the machine is known, so that a launch can be placed (default true). */
  until_ready?: boolean;
};

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), 'einsora-test-'));
}

/** Starts `einsora up` on a free port; rejects with what it printed when it ends first. */
export async function startProgram(options: ProgramOptions): Promise<Program> {
  const { data_dir } = options;
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    ...packageSettings(),
    EINSORA_CACHE_DIR: test_cache,
    ...options.env,
  };
  const base = ['--disable-warning=ExperimentalWarning', mainFile];
  const common = ['--data-dir', data_dir];
  const child = spawnChild(
    process.execPath,
    [...base, 'up', '--no-open', '--port', '0', ...common, ...(options.args ?? [])],
    { env },
  );
  let printed = '';
  const keep = (chunk: Buffer) => {
    printed += chunk.toString();
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  const ended = new Promise<number | null>((done) => child.once('close', (code) => done(code)));
  let is_over = false;
  void ended.then(() => {
    is_over = true;
  });
  const mark = options.until_ready === false ? /serves at (\S+)/ : /ready {5}/;
  try {
    await until(
      () => mark.test(printed) || is_over,
      60_000,
      () => `up said:\n${printed}`,
    );
  } catch (error) {
    child.kill('SIGKILL'); // or the test that failed would wait for it for ever
    await ended;
    throw error;
  }
  const url = /serves at (\S+)/.exec(printed)?.[1];
  if (url === undefined || is_over) throw new Error(`up ended:\n${printed}`);
  const token = readFileSync(join(data_dir, 'owner-token'), 'utf8').trim();
  const cleanEnv = Object.fromEntries(
    Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
  return {
    data_dir,
    url,
    pid: child.pid ?? 0,
    said: () => printed,
    cli: (args, timeout_ms = 120_000) =>
      exec(process.execPath, [...base, ...args, ...common], { env: cleanEnv, timeout_ms }),
    api: (path, call) => callApi(`${url}${path}`, token, call),
    async interrupt() {
      child.kill('SIGINT');
      return ended;
    },
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
    ended,
  };
}

async function callApi<T>(
  url: string,
  token: string,
  call: Parameters<Program['api']>[1] = {},
): Promise<{ status: number; body: T }> {
  const method = call.method ?? (call.body === undefined ? 'GET' : 'POST');
  const answer = await fetch(url, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...call.headers,
    },
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  });
  const text = await answer.text();
  return { status: answer.status, body: (text === '' ? {} : JSON.parse(text)) as T };
}

/** Removes every run of a data folder's deployment and the folder itself. */
export async function cleanUp(data_dir: string, running: Program | null): Promise<void> {
  let program: Program | null = null;
  try {
    const goes_on = running !== null && (await isRunning(running));
    program = goes_on ? running : await startProgram({ data_dir });
    await removeAll(program);
    await program.interrupt();
  } finally {
    await program?.kill();
    rmSync(data_dir, { recursive: true, force: true });
  }
}

async function isRunning(program: Program): Promise<boolean> {
  // Not at once: what has ended takes a turn to say so.
  const runs = systemClock.sleep(0).then(() => 'runs');
  return (await Promise.race([program.ended.then(() => 'ended'), runs])) === 'runs';
}

async function removeAll(program: Program): Promise<void> {
  const list = async () =>
    (await program.api<{ items: { id: string }[] }>('/v1/workloads?limit=200')).body.items;
  for (const { id } of await list()) {
    await program.api(`/v1/workloads/${id}`, { method: 'DELETE' });
  }
  await until(
    async () => (await list()).length === 0,
    30_000,
    () => 'workloads were not removed',
  );
}

/** Asks until it is so; throws `Error(what())` after `timeout_ms`. */
export async function until(
  isSo: () => boolean | Promise<boolean>,
  timeout_ms: number,
  what: () => string,
): Promise<void> {
  const deadline = systemClock.monotonic() + timeout_ms;
  while (!(await isSo())) {
    if (systemClock.monotonic() > deadline) throw new Error(`after ${timeout_ms} ms: ${what()}`);
    await systemClock.sleep(25);
  }
}

/** What package clients of this machine need to reach their registry. */
function packageSettings(): Record<string, string | undefined> {
  const names = /^(?:(?:PIP|UV|SSL|REQUESTS|CURL)_|(?:https?|no)_proxy$|XDG_CACHE_HOME$|LANG$)/i;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => names.test(name)));
}
