/**
 * A CPU stands in where GPUs are busy or missing, with a real engine: the answer is exact, and
 * everybody is told.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import OpenAI from 'openai';
import type { Plan, Workload } from '../../src/contract/workloads.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { type KnownAnswer, writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const falling = ['--accelerator', 'nvidia', '--fallback', 'cpu', '--fallback-after', '0s'];

async function launched(program: Program, args: string[]) {
  const done = await program.cli(['launch', 'endpoint', ...args, '--json']);
  assert.equal(done.code, 0, done.stderr);
  return {
    said: done.stderr,
    ...(JSON.parse(done.stdout) as {
      plan: Plan;
      workload: Workload;
      url: string;
      key: string;
    }),
  };
}

/** What it answers, and with which headers. */
async function asked(
  { url, key, workload }: Awaited<ReturnType<typeof launched>>,
  known: KnownAnswer,
): Promise<Headers> {
  const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
  const messages = [{ role: 'user' as const, content: 'Who runs you?' }];
  const { data, response } = await client.chat.completions
    .create({ model: workload.name, messages })
    .withResponse();
  assert.equal(data.choices[0]?.message.content, known.sentence);
  return response.headers;
}

async function settled(program: Program, name: string): Promise<Workload> {
  for (let tries = 0; tries < 900; tries += 1) {
    const { body } = await program.api<Workload>(`/v1/workloads/${name}`);
    if (body.state === 'running') return body;
    await systemClock.sleep(100);
  }
  throw new Error(`${name} never ran`);
}

test(
  'where every GPU is busy a real engine on the CPU answers, and ls, show and the headers say so',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const fleet = join(data_dir, 'fleet.json');
    const gpus = [{ model: 'NVIDIA L40S', memory_gib: 48 }];
    const box = { name: 'gpu-box', cpus: 2, memory_gib: 6, gpus };
    writeFileSync(fleet, JSON.stringify({ machines: [box] }));
    const program = await startProgram({ data_dir, args: ['--dev', '--sim-machines', fleet] });
    try {
      const known = writeKnownAnswerModel(join(data_dir, 'known.gguf'));
      const body = { kind: 'endpoint', model: 'smollm2-135m', name: 'holder' };
      const on_gpu = { ...body, accelerator: 'nvidia', gpu_class: 'nvidia-any' };
      const made = await program.api<Workload>('/v1/workloads', { body: on_gpu });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      const holder = await settled(program, 'holder');
      assert.equal(holder.placement?.machine_name, 'gpu-box');
      assert.equal(holder.fallback_taken, null);

      const stand_in = await launched(program, [
        join(data_dir, 'known.gguf'),
        ...['--name', 'chat', ...falling],
      ]);
      assert.equal(stand_in.plan.chosen, null);
      assert.equal(stand_in.plan.fallbacks[0]?.chosen?.placed_class, 'cpu-1c-2g');
      assert.match(stand_in.said, /Not as asked: asked .*placed by fallback 1 of 1 \(cpu\)/);
      const { workload } = stand_in;
      assert.equal(workload.placement?.driver, 'linux-native');
      assert.equal(workload.fallback_taken?.to, 'cpu');
      const headers = await asked(stand_in, known);
      assert.match(headers.get('x-einsora-served-by') ?? '', /class=cpu-1c-2g/);
      assert.match(headers.get('x-einsora-fallback') ?? '', /^asked=.*; placed=cpu-1c-2g; reason=/);

      assert.match((await program.cli(['ls'])).stdout, /chat .*cpu-1c-2g \(fallback\)/);
      const shown = (await program.cli(['show', 'chat'])).stdout;
      assert.match(shown, /stands in +asked .*, waited .*, placed by fallback 1 of 1 \(cpu\)/);
      assert.match(shown, /fallback +cpu: at once/);
      const events = (await program.cli(['events', 'chat'])).stdout;
      assert.match(events, /It asked for .* and waited .* as cpu-1c-2g by fallback 1 of 1 \(cpu\)/);
      const exported = (await program.cli(['export', 'chat'])).stdout;
      assert.match(exported, /"to":"cpu"/);
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

test(
  'where there is no GPU at all it falls back too, and without a fallback it waits and says why',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir });
    try {
      const known = writeKnownAnswerModel(join(data_dir, 'known.gguf'));
      const model = join(data_dir, 'known.gguf');
      const waits = ['launch', 'endpoint', model, '--name', 'waits', '--accelerator', 'nvidia'];
      const left = await program.cli([...waits, '--detach', '--json']);
      assert.equal(left.code, 0, left.stderr);
      const stand_in = await launched(program, [model, '--name', 'chat', ...falling]);
      await asked(stand_in, known);
      const { body } = await program.api<Workload>('/v1/workloads/waits');
      assert.equal(body.state, 'queued');
      const set = await program.cli(['fallback', 'waits', 'set', 'cpu', '--after', '0s']);
      assert.equal(set.code, 0, set.stderr);
      assert.match(set.stdout, /waits falls back to cpu: at once/);
      const running = await settled(program, 'waits');
      assert.equal(running.fallback_taken?.to, 'cpu');
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);
