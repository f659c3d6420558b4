/**
 * The real llama.cpp server on a Unix socket, without a sandbox and without the program around it:
 * for tests of the gateway that have to look into the engine itself.
 *
 * Invariants: started by the runtime's own command, with only the named settings changed; gone,
 * with its folder, after `stop`; `kill` is kill -9.
 */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/lib/clock.ts';
import { spawnChild } from '../../src/lib/exec.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { resolveModel } from '../../src/models/source.ts';
import { createLlamaCpp } from '../../src/runtimes/llama-cpp.ts';
import type { EngineCommand } from '../../src/runtimes/runtime.ts';
import { until } from './program.ts';
import { watchChild } from './watched-child.ts';
import { hostEnv, testCache } from './wheel-bench.ts';

export type RealEngine = {
  pid: number;
  /** The path of its socket. */
  socket: string;
  dial(): Promise<Socket>;
  /** One call past the gateway; no body makes it a GET. */
  call(path: string, body?: unknown): Promise<{ status: number; text: string }>;
  /** Slots that are at work. Asked for rarely: each look restarts a wait in the engine. */
  busySlots(): Promise<number>;
  kill(): Promise<void>;
  stop(): Promise<void>;
};

export type RealEngineOptions = {
  model_path: string;
  /** The name under which it knows the model (default `smol`). */
  name?: string;
  parallel?: number;
  context_length?: number;
  threads?: number;
  /** Attributes of the engine's parameters to set in Python, for instance `embedding`. */
  parameters?: Record<string, boolean>;
};

export async function startRealEngine(options: RealEngineOptions): Promise<RealEngine> {
  const root = mkdtempSync(join(tmpdir(), 'einsora-real-'));
  const child = start(await commandFor(options), root, options.parameters ?? {});
  const socket = join(root, 'api.sock');
  const { said, isOver, ended } = watchChild(child);
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  const stop = async () => {
    await kill();
    rmSync(root, { recursive: true, force: true });
  };
  const isReady = async () =>
    isOver() || (await call(socket, '/health').catch(() => null))?.status === 200;
  await until(isReady, 60_000, () => `the engine said:\n${said()}`);
  if (isOver()) {
    await stop();
    throw new Error(`the engine ended:\n${said()}`);
  }
  return {
    pid: child.pid ?? 0,
    socket,
    dial: () => dial(socket),
    call: (path, body) => call(socket, path, body),
    busySlots: async () => {
      const slots = JSON.parse((await call(socket, '/slots')).text) as { is_processing: boolean }[];
      return slots.filter(({ is_processing }) => is_processing).length;
    },
    kill,
    stop,
  };
}

/** The path of SmolLM2-135M, fetched where it is not there yet. */
export async function smolModel(): Promise<string> {
  const resolved = await resolveModel('smollm2-135m', {
    ...{ platform: `${process.platform}-${process.arch}`, env: hostEnv, clock: systemClock },
    ...{ random: systemRandom, models_folder: join(testCache, 'models') },
    signal: new AbortController().signal,
  });
  if (!resolved.ok) throw new Error(`no model: ${JSON.stringify(resolved)}`);
  return resolved.path;
}

async function commandFor(options: RealEngineOptions): Promise<EngineCommand> {
  const runtime = createLlamaCpp({
    ...{ platform: `${process.platform}-${process.arch}`, env: hostEnv, clock: systemClock },
    ...{ random: systemRandom, tools_folder: join(testCache, 'tools') },
  });
  const found = await runtime.install(() => {}, new AbortController().signal);
  if (!found.ok) throw new Error(`no engine: ${JSON.stringify(found)}`);
  const { model_path, name = 'smol', threads = 1 } = options;
  const sizes = { cpu_millis: threads * 1000, memory_bytes: 2 * 2 ** 30 };
  const spec = { kind: 'endpoint', name, model: 'x', ...sizes } as const;
  const asked = {
    context_length: options.context_length ?? 2048,
    parallel: options.parallel ?? null,
  };
  return runtime.command(found.engine, {
    spec: { ...spec, ...asked },
    model_path,
    model_bytes: statSync(model_path).size,
    trained_context: null,
  });
}

/** Paths inside the sandbox are replaced by those outside; the script by one with the changes. */
function start(command: EngineCommand, root: string, parameters: Record<string, boolean>) {
  const mounts = command.mounts.map(({ source, target }) => {
    if (!source.endsWith('serve.py')) return { source, target };
    const changed = join(root, 'serve.py');
    const script = readFileSync(source, 'utf8');
    const all = Object.entries({ endpoint_slots: true, ...parameters });
    const lines = all.map(([key, on]) => `    params.${key} = ${on ? 'True' : 'False'}\n`).join('');
    if (!script.includes('    return params\n')) throw new Error('serve.py has changed');
    writeFileSync(changed, script.replace('    return params\n', `${lines}    return params\n`));
    return { source: changed, target };
  });
  const paths = [...mounts, { target: '/run/einsora', source: root }];
  const outside = (text: string) =>
    paths.reduce((now, mount) => now.replaceAll(mount.target, mount.source), text);
  const [program = '', ...args] = command.argv.map(outside);
  return spawnChild(program, args, { env: command.env });
}

function call(socket: string, path: string, body?: unknown) {
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST';
    const headers = { 'content-type': 'application/json' };
    // A kept connection may be one that the engine closed after its last stream.
    const how = { socketPath: socket, path, method, headers, agent: false } as const;
    const asked = request(how, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({ status: answer.statusCode ?? 0, text });
      });
      answer.on('error', reject);
    });
    asked.on('error', reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function dial(socket: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const connection = connect(socket);
    connection.once('connect', () => resolve(connection));
    connection.once('error', reject);
  });
}
