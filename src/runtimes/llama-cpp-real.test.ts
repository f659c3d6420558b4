/**
 * The engine and the model as they come from the registry, kept in a cache between runs. The engine
 * runs here without a sandbox: the paths that it would see inside are replaced by those outside.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { writeEmbeddingModel } from '../../test/lib/known-answer.ts';
import { needs } from '../../test/lib/parts.ts';
import { hostEnv, testCache } from '../../test/lib/wheel-bench.ts';
import { systemClock } from '../lib/clock.ts';
import { spawnChild } from '../lib/exec.ts';
import { systemRandom } from '../lib/random.ts';
import { resolveModel } from '../models/source.ts';
import { type EngineProgress, progressIn } from './engine-progress.ts';
import { createLlamaCpp } from './llama-cpp.ts';
import type { EngineCommand, EngineOrder } from './runtime.ts';

const real = { ...needs('llama', 'smollm2'), timeout: 600_000 };
const root = mkdtempSync(join(tmpdir(), 'einsora-engine-'));
after(() => rmSync(root, { recursive: true }));

const base = {
  platform: `${process.platform}-${process.arch}`,
  env: hostEnv,
  clock: systemClock,
  random: systemRandom,
};
const runtime = createLlamaCpp({ ...base, tools_folder: join(testCache, 'tools') });

async function commandFor(
  model_path: string,
  over: Pick<EngineOrder, 'pooling'> = {},
): Promise<EngineCommand> {
  const found = await runtime.install(() => {}, new AbortController().signal);
  assert.ok(found.ok, JSON.stringify(found));
  const sizes = { cpu_millis: 1000, memory_bytes: 2 * 2 ** 30 };
  const spec = { kind: 'endpoint', name: 'mine', model: 'x', ...sizes } as const;
  return runtime.command(found.engine, {
    spec: { ...spec, context_length: 256, parallel: null },
    model_path,
    model_bytes: statSync(model_path).size,
    trained_context: null,
    ...over,
  });
}

/** Starts it, with inside paths replaced; `ended` gives its exit and all that it said. */
function start(command: EngineCommand) {
  const paths = [...command.mounts, { target: '/run/einsora', source: root }];
  const outside = (text: string) =>
    paths.reduce((now, mount) => now.replaceAll(mount.target, mount.source), text);
  const [program = '', ...args] = command.argv.map(outside);
  // Both into one pipe, as the keeper has both in one file: of two, the later line may come first.
  const child = spawnChild('sh', ['-c', 'exec "$@" 2>&1', 'sh', program, ...args], {
    env: command.env,
  });
  let output = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  const ended = new Promise<{ code: number | null; signal: string | null; output: string }>(
    (resolve) => child.once('close', (code, signal) => resolve({ code, signal, output })),
  );
  return { child, ended };
}

function call(path: string, body: unknown = null): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const method = body === null ? 'GET' : 'POST';
    const asked = request({ socketPath: join(root, 'api.sock'), path, method }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    asked.on('error', reject);
    asked.end(body === null ? undefined : JSON.stringify(body));
  });
}

/** What it answers to each question that may make it ready. */
async function probes(): Promise<number[]> {
  const statuses: number[] = [];
  for (const { path, body } of runtime.readiness.answers) {
    statuses.push((await call(path, body('mine'))).status);
  }
  return statuses;
}

async function progress(): Promise<EngineProgress> {
  const told = progressIn((await call(runtime.readiness.metrics_path)).text);
  assert.ok(told !== null, 'it counts its steps');
  return told;
}

async function untilHealthy(): Promise<void> {
  for (let tries = 0; tries < 1200; tries += 1) {
    const answer = await call(runtime.readiness.health_path).catch(() => null);
    if (answer?.status === 200) return;
    await systemClock.sleep(50);
  }
  throw new Error('it never got healthy');
}

let model = '';
before(async () => {
  if (real.skip !== false) return;
  const models_folder = join(testCache, 'models');
  const signal = new AbortController().signal;
  const resolved = await resolveModel('smollm2-135m', { ...base, models_folder, signal });
  assert.ok(resolved.ok, JSON.stringify(resolved));
  assert.equal(statSync(resolved.path).size, 98_362_432);
  model = resolved.path;
});

test(
  'SmolLM2 answers over a Unix socket, and SIGTERM ends the engine in mid-answer',
  real,
  async () => {
    const { child, ended } = start(await commandFor(model));
    try {
      await untilHealthy();
      assert.deepEqual(await probes(), [501, 200]);
      const fact = { prompt: 'The capital of France is', temperature: 0, max_tokens: 4 };
      assert.match(JSON.parse((await call('/v1/completions', fact)).text).choices[0].text, /Paris/);
      const messages = [{ role: 'user', content: 'Write one sentence about the sea.' }];
      const body = { model: 'mine', messages, temperature: 0, max_tokens: 24 };
      const chat = JSON.parse((await call('/v1/chat/completions', body)).text);
      assert.match(chat.choices[0].message.content, /\bsea\b/i);
      assert.equal(chat.model, 'mine');
      assert.equal((await call('/slots')).status, 501);
      const long = call('/v1/completions', { prompt: 'Once', max_tokens: 200, ignore_eos: true });
      const cut = long.then(() => false).catch(() => true);
      child.kill('SIGTERM');
      assert.equal((await ended).signal, 'SIGTERM');
      assert.equal(await cut, true);
    } finally {
      child.kill('SIGKILL');
    }
  },
);

test('how far it is in a long answer shows in its count of steps', real, async () => {
  const { child } = start(await commandFor(model));
  try {
    await untilHealthy();
    const idle = await progress();
    assert.equal(idle.open, 0);
    const long = call('/v1/completions', { prompt: 'Once', max_tokens: 100, ignore_eos: true });
    let seen = 0;
    for (let last = idle; ; seen += 1) {
      const now = await progress();
      if (now.open === 0 && now.steps > idle.steps) break;
      assert.ok(now.steps >= last.steps);
      last = now;
      await systemClock.sleep(20);
    }
    assert.ok(seen > 1, 'it was looked at in between');
    assert.equal((await long).status, 200);
    assert.ok((await progress()).steps - idle.steps >= 100, 'one step for each token');
  } finally {
    child.kill('SIGKILL');
  }
});

test('a model for embeddings gives them', real, async () => {
  const path = join(root, 'embedding.gguf');
  writeEmbeddingModel(path);
  const { child } = start(await commandFor(path, { pooling: 'last' }));
  try {
    await untilHealthy();
    const before = await progress();
    assert.equal((await probes())[0], 200);
    assert.ok((await progress()).steps > before.steps, 'reading a text is a step');
    const { text } = await call('/v1/embeddings', { input: ['one text', 'another'] });
    const vectors = JSON.parse(text).data.map((one: { embedding: number[] }) => one.embedding);
    assert.deepEqual(
      vectors.map(([first]: number[]) => first),
      [1, 1],
      'as its table says',
    );
    assert.equal(vectors[0].length, 384);
  } finally {
    child.kill('SIGKILL');
  }
});

test(
  'a model that cannot be loaded ends the engine with 1 and a clear last line',
  real,
  async () => {
    const broken = join(root, 'broken.gguf');
    writeFileSync(broken, 'GGUF');
    truncateSync(broken, 4096);
    const { code, output } = await start(await commandFor(broken)).ended;
    assert.equal(code, 1);
    assert.match(output.trim().split('\n').at(-1) ?? '', /^einsora: the model cannot be served/);
  },
);
