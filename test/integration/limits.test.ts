/**
 * Limits with the real llama.cpp: one key for two models, refused exactly, changed between two
 * requests, and its use as the engine counts it.
 */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import OpenAI, { RateLimitError } from 'openai';
import type { ModelKey } from '../../src/contract/endpoint-sharing.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, startProgram, temporaryFolder } from '../lib/program.ts';

const messages = [{ role: 'user' as const, content: 'Who runs you?' }];

test(
  'one key opens two models under its limits, its user’s and those of a model',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir });
    const done = async (...argv: string[]) => {
      const { code, stdout, stderr } = await program.cli(argv);
      assert.equal(code, 0, stderr);
      return stdout;
    };
    try {
      mkdirSync(join(data_dir, 'models'));
      const path = join(data_dir, 'models', 'known.gguf');
      const { sentence } = writeKnownAnswerModel(path);
      for (const name of ['one', 'two']) await done('launch', 'endpoint', path, '--name', name);
      const limits = ['--rpm', '3', '--tpm', '2000', '--concurrency', '4', '--expires', '30d'];
      const models = ['--model', 'one', '--model', 'two'];
      const made = JSON.parse(await done('keys', 'create', ...models, ...limits, '--json'));
      const client = new OpenAI({ baseURL: made.base_url, apiKey: made.key, maxRetries: 0 });
      const listed: string[] = [];
      for await (const { id } of client.models.list()) listed.push(id);
      assert.deepEqual(listed.sort(), ['one', 'two']);
      const ask = async (model: string) => {
        const { choices, usage } = await client.chat.completions.create({ model, messages });
        assert.equal(choices[0]?.message.content, sentence);
        return usage?.total_tokens ?? 0;
      };
      const key = async (): Promise<ModelKey | undefined> => {
        const { items } = JSON.parse(await done('keys', 'ls', '--json')) as { items: ModelKey[] };
        return items.find(({ id }) => id === made.id);
      };

      const used = (await ask('one')) + (await ask('two')) + (await ask('one'));
      assert.ok(used > 0);
      assert.deepEqual((await key())?.use, { requests: 3, tokens: used, concurrency: 0 });
      await assert.rejects(ask('two'), (error) => {
        assert.ok(error instanceof RateLimitError);
        assert.deepEqual([error.code, error.type], ['rate_limit_exceeded', 'requests']);
        const wait = Number(error.headers?.get('retry-after-ms'));
        assert.ok(wait > 0 && wait <= 60_000, String(wait));
        return true;
      });
      await done('keys', 'limit', made.id, '--rpm', 'none');
      await ask('two');

      await done('limits', 'set', '--model', 'one', '--rpm', '1');
      await ask('one');
      await assert.rejects(ask('one'), /The limit of the model `one` over all who ask it/);
      await ask('two');
      const { owner } = await ownerOf(done);
      await done('limits', 'set', '--user', owner, '--tpm', '10');
      await ask('two');
      await assert.rejects(ask('two'), /The limit of this key's user over all keys is 10 tokens/);
      await done('limits', 'set', '--user', owner, '--tpm', 'none');
      await ask('two');
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

async function ownerOf(done: (...argv: string[]) => Promise<string>): Promise<{ owner: string }> {
  const { items } = JSON.parse(await done('users', 'ls', '--json')) as {
    items: { name: string }[];
  };
  return { owner: items[0]?.name ?? '' };
}
