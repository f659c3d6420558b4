/**
 * The catalog's images on a real engine: an engine of language models without a network, and a
 * notebook, each through the socket that its driver dials.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { test } from 'node:test';
import type { ImageRuntime } from '../../src/core/images.ts';
import type { RunSpec } from '../../src/drivers/driver.ts';
import { jupyterCommand } from '../../src/runtimes/jupyter/command.ts';
import { engineCommand } from '../../src/runtimes/llama-cpp/command.ts';
import { imageEngine } from '../../src/runtimes/llama-cpp/image.ts';
import { until } from '../contracts/driver.ts';
import { jupyterImage, llamaImage } from '../lib/docker-catalog.ts';
import { type DockerHarness, dockerHarness } from '../lib/docker-harness.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';

const real = { ...needs('docker', 'llama', 'debootstrap'), timeout: 600_000 };
const never = new AbortController().signal;

test(
  'llama.cpp in a container without a network gives a known answer over its socket',
  real,
  async () => {
    await using harness = await dockerHarness();
    const image = await llamaImage(harness.engine);
    const folder = mkdtempSync(join(tmpdir(), 'einsora-model-'));
    try {
      const model_path = join(folder, 'model.gguf');
      const known = writeKnownAnswerModel(model_path);
      const runtime = { ...blank, reference: image };
      const sizes = { cpu_millis: 1000, memory_bytes: 2 ** 30 };
      const spec = { kind: 'endpoint', name: 'mine', model: 'x', ...sizes } as const;
      const command = engineCommand(imageEngine(runtime), {
        ...{ model_path, model_bytes: statSync(model_path).size, trained_context: null },
        spec: { ...spec, context_length: 256, parallel: null },
      });
      const run = await started(harness, { ...command, image, ...sizes });
      const ask = { model: 'mine', messages: [{ role: 'user', content: 'Who runs you?' }] };
      const answer = await untilAnswer(harness, run, 'api', '/v1/chat/completions', ask);
      assert.equal(JSON.parse(answer).choices[0].message.content, known.sentence);
      const links = await harness.docker(
        'exec',
        `ein-${run.run.workload_id}.0.1`,
        'cat',
        '/proc/net/dev',
      );
      assert.match(links, /lo:/);
      assert.doesNotMatch(links, /eth0/);
      assert.equal(
        await harness.docker('exec', `ein-${run.run.workload_id}.0.1`, 'id', '-u'),
        '1000',
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

test(
  'JupyterLab in a container opens its socket as its own user, and keeps what it is given',
  real,
  async () => {
    await using harness = await dockerHarness();
    const image = await jupyterImage(harness.engine);
    const workspace = { target: '/workspace', uid: 1000, gid: 1000, disk_bytes: null };
    const command = jupyterCommand(null, workspace.target);
    const env = { ...command.env, ...command.own_env, JUPYTER_TOKEN: 'a-token' };
    const caps = { cpu_millis: 2000, memory_bytes: 2 ** 30 };
    const run = await started(harness, {
      ...{ argv: command.argv, mounts: command.mounts, ports: ['web'], env, image, workspace },
      ...caps,
    });
    const status = await untilAnswer(harness, run, 'web', '/api/status', null, 'token a-token');
    assert.equal(JSON.parse(status).kernels, 0);
    const files = await harness.driver.files(run.run);
    assert.equal((await files.stat('/workspace')).mode & 0o700, 0o700);
  },
);

const blank: ImageRuntime = {
  accelerator: 'cpu',
  form: 'container',
  ...{ command: [], uid: 1000, gid: 1000 },
  ...{ ports: ['api'], tcp_ports: {}, workspace: null },
  reference: null,
};

async function started(harness: DockerHarness, changes: Partial<RunSpec>): Promise<RunSpec> {
  const { argv, env, mounts, ports, image, memory_bytes, cpu_millis, workspace } = {
    ...harness.shell(''),
    ...changes,
  };
  const base = harness.shell('');
  const spec: RunSpec = {
    ...base,
    ...{ argv, env, mounts, ports, memory_bytes, cpu_millis },
    ...{ image: image ?? null, workspace: workspace ?? null },
  };
  await harness.driver.start(spec, never);
  return spec;
}

/** Asks again until it answers with 200; a minute, for a loaded machine. */
async function untilAnswer(
  harness: DockerHarness,
  { run }: RunSpec,
  port: string,
  path: string,
  body: unknown,
  authorization?: string,
): Promise<string> {
  for (let tries = 0; tries < 8; tries += 1) {
    try {
      return await until(harness.clock, 'it answers', async () => {
        const connection = await harness.driver.dial(run, port).catch(() => null);
        return connection === null ? null : call(connection, path, body, authorization);
      });
    } catch {
      const [seen] = await harness.driver.observe();
      if (seen?.state !== 'running') break;
    }
  }
  const { text } = await harness.driver.logs(run, 0, 10_000);
  assert.fail(`it never answered: ${text}`);
}

function call(
  connection: Duplex,
  path: string,
  body: unknown,
  authorization = '',
): Promise<string | null> {
  return new Promise((resolve) => {
    const method = body === null ? 'GET' : 'POST';
    const headers = { 'content-type': 'application/json', authorization, host: 'localhost' };
    const asked = request({ createConnection: () => connection, path, method, headers });
    asked.once('error', () => resolve(null));
    asked.once('response', async (response) => {
      const chunks = await response.toArray();
      const text = Buffer.concat(chunks).toString();
      resolve(response.statusCode === 200 ? text : null);
    });
    asked.end(body === null ? undefined : JSON.stringify(body));
  });
}
