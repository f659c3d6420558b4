/**
 * The whole way on exact ground: a model whose every answer is known, launched from a file and
 * asked through the gateway and the command line.
 */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import OpenAI from 'openai';
import { exec } from '../../src/lib/exec.ts';
import { writeEmbeddingModel, writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, mainFile, startProgram, temporaryFolder } from '../lib/program.ts';

const question = [{ role: 'user' as const, content: 'Who runs you?' }];

test(
  'a model file gives its exact text and token counts, streamed and not, to SDK and command line',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir });
    try {
      const folder = join(data_dir, 'my models');
      mkdirSync(folder);
      const known = writeKnownAnswerModel(join(folder, 'known answer.gguf'));
      assert.equal(known.sentence, 'Einsora runs this tiny model on your own machine.');

      const { url, key, workload } = await launchFrom(folder, './known answer.gguf', data_dir);
      const { name: model } = workload;

      const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
      const whole = await client.chat.completions.create({ model, messages: question });
      const [choice] = whole.choices;
      assert.equal(choice?.message.content, known.sentence);
      assert.equal(choice?.finish_reason, 'stop');
      assert.equal(whole.usage?.completion_tokens, known.completion_tokens);
      const prompt_tokens = whole.usage?.prompt_tokens ?? 0;
      assert.ok(prompt_tokens > 0);
      assert.equal(whole.usage?.total_tokens, prompt_tokens + known.completion_tokens);

      const stream = await client.chat.completions.create({
        ...{ model, messages: question, stream: true },
        stream_options: { include_usage: true },
      });
      let text = '';
      let pieces = 0;
      let usage: OpenAI.CompletionUsage | null = null;
      for await (const chunk of stream) {
        const piece = chunk.choices[0]?.delta.content ?? '';
        text += piece;
        if (piece !== '') pieces += 1;
        usage = chunk.usage ?? usage;
      }
      assert.equal(text, known.sentence);
      assert.equal(
        pieces,
        known.completion_tokens - 1,
        'one word an event: it was not gathered up',
      );
      assert.equal(usage?.completion_tokens, known.completion_tokens);
      assert.equal(usage?.prompt_tokens, prompt_tokens);

      const said = await program.cli(['chat', model, 'Who runs you?']);
      assert.equal(said.code, 0, said.stderr);
      assert.equal(said.stdout, `${known.sentence}\n`);
      const told = await program.cli(['chat', model, 'Who runs you?', '--json']);
      const answer = JSON.parse(told.stdout);
      assert.equal(answer.answer, known.sentence);
      assert.equal(answer.ended, 'whole');
      assert.equal(answer.finish_reason, 'stop');
      assert.equal(answer.usage.completion_tokens, known.completion_tokens);
      assert.equal(answer.usage.prompt_tokens, prompt_tokens);

      const short = await program.cli(['chat', model, 'Who?', '--max-tokens', '3', '--json']);
      const cut = JSON.parse(short.stdout);
      assert.equal(cut.answer, 'Einsora runs this');
      assert.equal(cut.finish_reason, 'length');
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

test(
  'a model for embeddings is launched like any other, and gives its exact vectors and counts',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir });
    try {
      writeEmbeddingModel(join(data_dir, 'vectors.gguf'));
      const { url, key, workload } = await launchFrom(data_dir, './vectors.gguf', data_dir);
      const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
      const input = ['one text', 'and another one'];
      const { data, usage } = await client.embeddings.create({ model: workload.name, input });
      assert.deepEqual(
        data.map(({ index, embedding }) => [index, embedding.length, embedding[0], embedding[1]]),
        [
          [0, 384, 1, 0],
          [1, 384, 1, 0],
        ],
      );
      assert.ok(usage.prompt_tokens > 0 && usage.total_tokens === usage.prompt_tokens);
      const show = await program.cli(['show', workload.id]);
      assert.match(show.stdout, /embeddings \(last\)/);
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

/** Launches a path that is relative to where the user stands. */
async function launchFrom(cwd: string, path: string, data_dir: string) {
  const args = ['launch', 'endpoint', path, '--json', '--data-dir', data_dir];
  const launched = await exec(process.execPath, [mainFile, ...args], {
    cwd,
    timeout_ms: 60_000,
    env: { PATH: '/usr/bin:/bin' },
  });
  assert.equal(launched.code, 0, launched.stderr);
  return JSON.parse(launched.stdout);
}
