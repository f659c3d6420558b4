/**
 * The main job on the real program with the real model: launch, look, ask, stop, start, remove.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import type { z } from 'zod';
import { catalogSchema, machineListSchema } from '../../src/contract/machines.ts';
import { eventPageSchema, planSchema, workloadSchema } from '../../src/contract/workloads.ts';
import { exec } from '../../src/lib/exec.ts';
import { needs } from '../lib/parts.ts';
import { enginesOf, runsOf } from '../lib/processes.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const model = 'smollm2-135m';
const parts = ['llama', 'smollm2', 'bwrap', 'cgroup', 'bash'] as const;

test(
  'the real model: launched, seen, asked, parked, brought back, removed',
  needs(...parts),
  async () => {
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir });
    try {
      const printed = await launchAndRead(program);
      await checkCurl(printed.curl);
      await checkSdk(printed.url, printed.key);
      await checkDocuments(program);
      await checkCycle(program);
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

/** A plain launch where nobody watches: plan and stages on stderr, what to use on stdout. */
async function launchAndRead(program: Program) {
  const launched = await program.cli(['launch', 'endpoint', model]);
  assert.equal(launched.code, 0, launched.stderr);
  const talk = launched.stderr;
  const in_order = [
    /^Asked: one endpoint$/m,
    /^ {2}class +cpu-1c-2g \(default\)$/m,
    /^Chosen:$/m,
    /^ {2}machine +\S+$/m,
    /^ {2}isolation +weak$/m,
    /^ {2}host sees +everything: its files, memory, variables, prompts and answers/m,
    /^Machines:$/m,
    /^Other classes:$/m,
    /^ {2}cpu-2c-4g +larger than needed$/m,
    ...['sandbox', 'engine', 'model', 'validate', 'start', 'load', 'answer'].map(
      (stage) => new RegExp(`^✔ ${stage} +[\\d.]+ m?s`, 'm'),
    ),
  ];
  let at = 0;
  for (const pattern of in_order) {
    const found = talk.slice(at).search(pattern);
    assert.notEqual(found, -1, `${pattern} comes next in:\n${talk}`);
    at += found;
  }
  assert.ok(!talk.includes('\u001b') && !talk.includes('\r'), 'no terminal, no control codes');
  const url = /^url +(\S+)$/m.exec(launched.stdout)?.[1];
  const key = /^key +(ept_\S+) +\(shown this once\)$/m.exec(launched.stdout)?.[1];
  const curl = /^(curl [\s\S]*?)\n\n/m.exec(launched.stdout)?.[1];
  assert.ok(url && key && curl, launched.stdout);
  assert.equal(url, `${program.url}/v1`);
  return { url, key, curl };
}

async function checkCurl(line: string): Promise<void> {
  const env = { PATH: process.env.PATH ?? '' };
  const curl = await exec('bash', ['-c', `${line} --silent --show-error`], {
    env,
    timeout_ms: 30_000,
  });
  assert.equal(curl.code, 0, curl.stderr);
  const reply = JSON.parse(curl.stdout) as OpenAI.ChatCompletion;
  assert.equal(reply.object, 'chat.completion');
  assert.ok((reply.choices[0]?.message.content ?? '').length > 0);
}

async function checkSdk(baseURL: string, apiKey: string): Promise<void> {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const stream = await client.chat.completions.create({
    model,
    messages: [{ role: 'user', content: 'Count from one to five.' }],
    max_tokens: 24,
    stream: true,
    stream_options: { include_usage: true },
  });
  const pieces: string[] = [];
  let finish_reason: string | null = null;
  let usage: OpenAI.CompletionUsage | null = null;
  for await (const chunk of stream) {
    const [choice] = chunk.choices;
    if (choice?.delta.content) pieces.push(choice.delta.content);
    finish_reason = choice?.finish_reason ?? finish_reason;
    usage = chunk.usage ?? usage;
  }
  assert.ok(pieces.length > 3, `it came in pieces: ${JSON.stringify(pieces)}`);
  assert.ok(finish_reason === 'stop' || finish_reason === 'length', String(finish_reason));
  assert.ok(usage !== null && usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);

  const models = await client.models.list();
  assert.deepEqual(
    models.data.map(({ id, object }) => ({ id, object })),
    [{ id: model, object: 'model' }],
  );
  const stranger = new OpenAI({ baseURL, apiKey: `${apiKey.slice(0, -1)}_`, maxRetries: 0 });
  await assert.rejects(stranger.models.list(), (error) => {
    assert.ok(error instanceof OpenAI.AuthenticationError, String(error));
    assert.equal(error.status, 401);
    return true;
  });
}

/** Every --json is one document, and what the contract says it is. */
async function checkDocuments(program: Program): Promise<void> {
  const list = await documentOf(program, ['ls']);
  const { items } = list as { items: unknown[] };
  assert.equal(items.length, 1);
  parsed(workloadSchema, items[0]);
  assert.equal(parsed(workloadSchema, await documentOf(program, ['show', model])).state, 'running');
  const { items: events } = (await documentOf(program, ['events', model])) as { items: unknown[] };
  const timeline = parsed(eventPageSchema, { items: events, next_cursor: null });
  assert.deepEqual(
    timeline.items.map(({ to_state }) => to_state),
    ['pending', 'provisioning', 'running'],
  );
  const logs = (await documentOf(program, ['logs', model])) as { text: string; run_epoch: number };
  assert.equal(logs.run_epoch, 1);
  assert.match(logs.text, /model/);
  const machines = parsed(machineListSchema, await documentOf(program, ['machines']));
  assert.deepEqual(machines.items[0]?.workloads, [model]);
  const catalog = parsed(catalogSchema, await documentOf(program, ['catalog']));
  assert.ok(catalog.models.some(({ name }) => name === model));
  const chat = (await documentOf(program, [
    ...['chat', model, 'Say hello.', '--max-tokens', '24'],
  ])) as { answer: string; ended: string; usage: { completion_tokens: number } };
  assert.ok(chat.answer.trim() !== '' && chat.ended === 'whole');
  assert.ok(chat.usage.completion_tokens > 0);
}

async function checkCycle(program: Program): Promise<void> {
  const { data_dir } = program;
  const { id } = parsed(workloadSchema, await documentOf(program, ['show', model]));
  assert.equal(enginesOf(data_dir, id).length, 1);

  assert.equal((await program.cli(['stop', model])).code, 0);
  assert.equal(enginesOf(data_dir, id).length, 0, 'its engine is gone');
  const parked = parsed(workloadSchema, await documentOf(program, ['show', model]));
  assert.equal(parked.state, 'stopped');
  const refused = await program.cli(['chat', model, 'Say hello.']);
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /start smollm2-135m/);

  const started = await program.cli(['start', model]);
  assert.equal(started.code, 0, started.stderr);
  assert.equal(enginesOf(data_dir, id).length, 1);
  const again = await program.cli(['chat', model, 'Say hello.', '--max-tokens', '8']);
  assert.equal(again.code, 0, again.stderr);

  assert.equal((await program.cli(['rm', model])).code, 0);
  assert.deepEqual(runsOf(data_dir), [], "its runs' folders are gone");
  assert.deepEqual(await documentOf(program, ['ls']), { items: [] });
  const again_json = ['launch', 'endpoint', model, '--json'];
  const launched = await program.cli(again_json);
  assert.equal(launched.code, 0, launched.stderr);
  const document = JSON.parse(launched.stdout);
  parsed(planSchema, document.plan);
  assert.equal(parsed(workloadSchema, document.workload).state, 'running');
  assert.equal(document.outcome, 'running');
  assert.match(document.key, /^ept_/);
}

async function documentOf(program: Program, args: string[]): Promise<unknown> {
  const said = await program.cli([...args, '--json']);
  assert.equal(said.code, 0, `${args.join(' ')}: ${said.stderr}`);
  return JSON.parse(said.stdout);
}

/** What the schema makes of it; what the schema does not know is a failure too. */
function parsed<S extends z.ZodType>(schema: S, document: unknown): z.infer<S> {
  const value = schema.parse(document);
  assert.deepEqual(value, document, 'there is nothing that the contract does not name');
  return value;
}
