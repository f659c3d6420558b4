/**
 * The real llama.cpp server, out of the tests' cache, behind a Unix socket and without a sandbox.
 *
 * Invariants: it answers when `startLlama` resolves; `close` leaves no process and no folder.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EndpointSpec } from '../../src/contract/sync.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { spawnChild } from '../../src/lib/exec.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { resolveModel } from '../../src/models/source.ts';
import { createLlamaCpp } from '../../src/runtimes/llama-cpp.ts';
import { hostEnv, testCache } from './wheel-bench.ts';

export type LlamaEngine = {
  socket: string;
  dial(): Promise<Socket>;
  /** One call, read to its end. No body: a GET. */
  call(path: string, body?: unknown): Promise<{ status: number; text: string }>;
  close(): Promise<void>;
};

const base = {
  platform: `${process.platform}-${process.arch}`,
  env: hostEnv,
  clock: systemClock,
  random: systemRandom,
};

/** The path of SmolLM2-135M, fetched where it is not there yet. */
export async function smolModel(): Promise<string> {
  const models_folder = join(testCache, 'models');
  const signal = new AbortController().signal;
  const resolved = await resolveModel('smollm2-135m', { ...base, models_folder, signal });
  if (!resolved.ok) throw new Error(JSON.stringify(resolved));
  return resolved.path;
}

/** Starts it with this model, which it knows as `mine`; two answers at once, 512 tokens each. */
export async function startLlama(
  model_path: string,
  changes: Partial<EndpointSpec> = {},
): Promise<LlamaEngine> {
  const root = mkdtempSync(join(tmpdir(), 'einsora-llama-'));
  const runtime = createLlamaCpp({ ...base, tools_folder: join(testCache, 'tools') });
  const found = await runtime.install(() => {}, new AbortController().signal);
  if (!found.ok) throw new Error(JSON.stringify(found));
  const sizes = { cpu_millis: 1000, memory_bytes: 2 * 2 ** 30 };
  const spec = { kind: 'endpoint', name: 'mine', model: 'x', ...sizes } as const;
  const { argv, env, mounts } = runtime.command(found.engine, {
    spec: { ...spec, context_length: 512, parallel: null, ...changes },
    model_path,
    model_bytes: statSync(model_path).size,
    trained_context: null,
  });
  const paths = [...mounts, { target: '/run/einsora', source: root }];
  const outside = (text: string) =>
    paths.reduce((now, mount) => now.replaceAll(mount.target, mount.source), text);
  const [program = '', ...args] = argv.map(outside);
  const child = spawnChild(program, args, { env });
  for (const stream of [child.stdout, child.stderr]) stream?.resume();
  const gone = new Promise((resolve) => child.once('close', resolve));
  const socket = join(root, 'api.sock');
  const engine: LlamaEngine = {
    socket,
    dial: () => dialled(socket),
    call: (path, body) => call(socket, path, body),
    async close() {
      child.kill('SIGKILL');
      await gone;
      rmSync(root, { recursive: true });
    },
  };
  await untilHealthy(engine).catch(async (error) => {
    await engine.close();
    throw error;
  });
  return engine;
}

function dialled(socket: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const connection = connect(socket);
    connection.once('connect', () => resolve(connection));
    connection.once('error', reject);
  });
}

function call(
  socketPath: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST';
    const asked = request({ socketPath, path, method, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({ status: response.statusCode ?? 0, text });
      });
    });
    asked.on('error', reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function untilHealthy(engine: LlamaEngine): Promise<void> {
  for (let tries = 0; tries < 1200; tries += 1) {
    const answer = await engine.call('/health').catch(() => null);
    if (answer?.status === 200) return;
    await systemClock.sleep(50);
  }
  throw new Error('llama-server never got healthy');
}
