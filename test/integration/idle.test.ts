/**
 * Use and idle stop on the real program with a real engine: figures that are real, a stop when
 * nobody uses it, and a request that brings it back and is answered.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { WorkloadStats } from '../../src/contract/stats.ts';
import type { Workload, WorkloadEvent } from '../../src/contract/workloads.ts';
import { createRunTokens } from '../../src/controlplane/run-tokens.ts';
import { connectToPort } from '../../src/drivers/native/socket.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { type Jupyter, jupyterClient } from '../lib/jupyter-client.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const name = 'smollm2-135m';
const parts = ['llama', 'smollm2', 'bwrap', 'cgroup', 'bash'] as const;
const mib = 2 ** 20;

test(
  'an endpoint that nobody uses is warned of and stopped; a request wakes it and is answered',
  needs(...parts),
  async () => {
    const data_dir = temporaryFolder();
    let program = await startProgram({ data_dir });
    try {
      const launched = await program.cli(['launch', 'endpoint', name, '--idle', '1m']);
      assert.equal(launched.code, 0, launched.stderr);
      const key = /^key +(ept_\S+)/m.exec(launched.stdout)?.[1] ?? '';
      await checkFigures(program);
      // A control plane that is started anew goes on counting; its engine went on all the while.
      await program.interrupt();
      program = await startProgram({ data_dir });
      const idle = await until(program, ({ state }) => state === 'stopped', 150_000);
      assert.deepEqual([idle.intent, idle.park_cause], ['running', 'idle']);
      assert.match((await program.cli(['ls'])).stdout, /stopped \(idle\)/);
      const codes = (await eventsOf(program)).map(({ code }) => code);
      assert.ok(codes.indexOf('idle_soon') < codes.indexOf('idle_stopped'), String(codes));
      await checkWake(program, key);
      // What a person stops stays so.
      assert.equal((await program.cli(['stop', name])).code, 0);
      const refused = await ask(program, key);
      assert.deepEqual([refused.status, refused.code], [409, 'endpoint_stopped']);
      assert.equal((await show(program)).state, 'stopped');
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

test(
  'a notebook is used while a cell sleeps in silence, and quiet when it is done',
  needs('python', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir });
    try {
      const options = ['--name', 'lab', '--idle', '2h'];
      const launched = await program.cli(['launch', 'notebook', ...options], 240_000);
      assert.equal(launched.code, 0, launched.stderr);
      const isQuiet = ({ use }: Workload) => use?.at !== null && use?.busy_with === null;
      const quiet = await until(program, isQuiet, 60_000, 'lab');
      assert.ok((quiet.use?.idle_left_ms ?? 0) < 7_200_000, 'asking it is no use');
      const lab = clientOf(data_dir, quiet.id);
      // No CPU and no output for half a minute: only its own server knows.
      const cell = lab.runCell('import time; time.sleep(30)');
      const used = await until(program, ({ use }) => use?.busy_with === 'kernels', 60_000, 'lab');
      assert.equal(used.use?.idle_left_ms, 7_200_000);
      await cell;
      await until(program, isQuiet, 90_000, 'lab');
      await until(program, ({ use }) => use?.disk_bytes !== null, 60_000, 'lab');
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

/** A client by the run's own socket, with its token. */
function clientOf(data_dir: string, workload_id: string): Jupyter {
  const run = { workload_id, replica: 0, run_epoch: 1 };
  const key = readFileSync(join(data_dir, 'deployment-key'), 'utf8').trim();
  const tokens = createRunTokens({ key_id: '', key: new Secret(key) });
  const folder = join(data_dir, 'runs', `${workload_id}.0.1`, 'p');
  return jupyterClient(() => connectToPort(folder, 'web'), tokens.siteToken(run).reveal());
}

async function checkFigures(program: Program): Promise<void> {
  const { use } = await until(program, ({ use }) => (use?.cpu_millis ?? null) !== null, 60_000);
  assert.ok((use?.memory_bytes ?? 0) > 50 * mib, 'a model is in memory');
  assert.equal(use?.gpu_percent, null, 'not measured is not zero');
  assert.ok((use?.idle_left_ms ?? 0) > 0 && (use?.idle_left_ms ?? 0) <= 60_000);
  const stats = await program.api<WorkloadStats>(`/v1/workloads/${name}/stats`);
  assert.ok(stats.body.points.length >= 2);
  assert.equal(stats.body.memory_cap_bytes, 2 ** 31);
  const top = await program.cli(['top']);
  assert.match(top.stdout, /^smollm2-135m +endpoint +running +[\d.]+% +\d+ MiB of 2 GiB /m);
  assert.match(
    (await program.cli(['show', name])).stdout,
    /^idle stop +after 1m 0s of nothing: in /m,
  );
  assert.match((await program.cli(['idle', name])).stdout, /nobody used it for 1m 0s: in .*unless/);
}

async function checkWake(program: Program, key: string): Promise<void> {
  const answers = await Promise.all([ask(program, key), ask(program, key), ask(program, key)]);
  for (const { status, text } of answers) {
    assert.equal(status, 200, text);
    assert.match(text, /"chat\.completion"/);
  }
  const { state, placement } = await show(program);
  assert.deepEqual([state, placement?.run_epoch], ['running', 2]);
  const woken = (await eventsOf(program)).filter(({ code }) => code === 'idle_woken');
  assert.equal(woken.length, 1, 'three requests wake it once');
}

async function ask(program: Program, key: string) {
  const messages = [{ role: 'user', content: 'Say hello.' }];
  const response = await fetch(`${program.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: name, max_tokens: 4, messages }),
  });
  const text = await response.text();
  const code = (JSON.parse(text) as { error?: { code: string } }).error?.code;
  return { status: response.status, text, code };
}

async function show(program: Program, workload = name): Promise<Workload> {
  return (await program.api<Workload>(`/v1/workloads/${workload}`)).body;
}

async function eventsOf(program: Program): Promise<WorkloadEvent[]> {
  const path = `/v1/workloads/${name}/events?limit=200`;
  return (await program.api<{ items: WorkloadEvent[] }>(path)).body.items;
}

async function until(
  program: Program,
  isSo: (workload: Workload) => boolean,
  within_ms: number,
  of = name,
): Promise<Workload> {
  const deadline = systemClock.monotonic() + within_ms;
  for (;;) {
    const workload = await show(program, of);
    if (isSo(workload)) return workload;
    assert.ok(systemClock.monotonic() < deadline, JSON.stringify(workload, null, 1));
    await systemClock.sleep(500);
  }
}
