/**
 * The real mlx_lm.server and vLLM, on the CPU, with the known answer: for tests, out of a Python
 * that EINSORA_TEST_MLX or EINSORA_TEST_VLLM names. Both take minutes to install, so neither is
 * fetched here.
 *
 * Invariants: it answers when `start` resolves; after `stop` no process of it is left.
 */
import { request } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { systemClock } from '../../src/lib/clock.ts';
import { spawnChild } from '../../src/lib/exec.ts';
import { writeKnownAnswerFolder } from './known-answer-folder.ts';
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

export async function startVllm(folder: string): Promise<PythonEngine> {
  writeKnownAnswerFolder(folder);
  const socket = join(folder, 'api.sock');
  const args = [
    ...['-m', 'vllm.entrypoints.openai.api_server', '--model', folder, '--uds', socket],
    ...['--served-model-name', 'smol', '--max-model-len', '512', '--max-num-seqs', '4'],
    ...['--enforce-eager', '--dtype', 'float32', '--enable-prefix-caching'],
    '--enable-prompt-tokens-details',
  ];
  const threads = { VLLM_CPU_OMP_THREADS_BIND: '0', OMP_NUM_THREADS: '1' };
  const env = { ...offline, ...threads, VLLM_CPU_KVCACHE_SPACE: '1', VLLM_NO_USAGE_STATS: '1' };
  return started(process.env.EINSORA_TEST_VLLM ?? '', args, env, () => connect(socket));
}

async function started(
  program: string,
  args: string[],
  env: Record<string, string>,
  open: () => Socket,
): Promise<PythonEngine> {
  const child = spawnChild(program, args, { env: { ...hostEnv, ...env } });
  let said = '';
  const keep = (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-2000);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  let is_over = false;
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => {
      is_over = true;
      resolve();
    });
  });
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
  };
  const dial = () => dialled(open());
  for (let tries = 0; tries < 1200 && !is_over; tries += 1) {
    if (await isHealthy(dial)) return { dial, stop };
    await systemClock.sleep(250);
  }
  await stop();
  throw new Error(`${program} ${args[1]} does not answer: ${said}`);
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
