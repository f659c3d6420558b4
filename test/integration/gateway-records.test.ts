/**
 * Records of requests through the whole program: exact with a model whose answers are known, kept
 * over kill -9, which is told and counted.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import OpenAI from 'openai';
import type { GatewayTop } from '../../src/contract/gateway-top.ts';
import type { RequestUsagePage } from '../../src/contract/request-usage.ts';
import { parseExposition } from '../lib/exposition.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, until } from '../lib/program.ts';

const messages = [{ role: 'user' as const, content: 'Who runs you?' }];
const totalOf = async (program: Program) =>
  (await program.api<RequestUsagePage>('/v1/usage/requests?group_by=model')).body.total;
const journalOf = async (program: Program) =>
  (await program.api<GatewayTop>('/v1/gateway/top')).body.journal;

test(
  'what is used is counted to the token, and what is recorded outlives kill -9',
  needs('llama', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    let program = await startProgram({ data_dir });
    try {
      const known = writeKnownAnswerModel(join(data_dir, 'known.gguf'));
      const launched = await program.cli(
        ['launch', 'endpoint', join(data_dir, 'known.gguf'), '--name', 'known', '--json'],
        60_000,
      );
      assert.equal(launched.code, 0, launched.stderr);
      const { url, key } = JSON.parse(launched.stdout);
      const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
      const asked = { model: 'known', messages };
      const whole = await client.chat.completions.create(asked);
      for await (const _ of await client.chat.completions.create({ ...asked, stream: true })) {
      }
      await assert.rejects(client.chat.completions.create({ ...asked, model: 'unknown' }));
      await until(
        async () => (await totalOf(program)).requests === 3,
        5000,
        () => 'three requests were not recorded',
      );
      const total = await totalOf(program);
      assert.deepEqual([total.answered, total.refused, total.estimated], [2, 1, 0]);
      assert.equal(total.completion_tokens, 2 * known.completion_tokens);
      assert.equal(total.prompt_tokens, 2 * (whole.usage?.prompt_tokens ?? 0));

      const usage = await program.cli(['usage', '--by', 'key']);
      assert.match(usage.stdout, /^….{4} \(known\) +3 +2 +1 /m);
      const request = await program.cli(['request', whole._request_id ?? '']);
      assert.match(request.stdout, /^ended +answered$/m);
      const top = await program.cli(['gateway', 'top', '--once']);
      assert.match(top.stdout, /^known +0/m);
      const token = await program.cli([
        'tokens',
        'create',
        'prometheus',
        '--scope',
        'usage:read',
        '--json',
      ]);
      const { token: secret } = JSON.parse(token.stdout);
      const scraped = await fetch(`${program.url}/metrics`, {
        headers: { authorization: `Bearer ${secret}` },
      });
      const families = parseExposition(await scraped.text());
      const answered = families
        .get('einsora_gateway_requests_total')
        ?.samples.find(({ labels }) => labels.outcome === 'answered');
      assert.deepEqual([answered?.labels.model, answered?.value], ['known', 2]);
      assert.equal((await fetch(`${program.url}/metrics`)).status, 401);
      assert.equal((await journalOf(program))?.unclean, 0);

      await program.kill();
      program = await startProgram({ data_dir });
      assert.deepEqual(await totalOf(program), total);
      assert.equal((await journalOf(program))?.unclean, 1);
      assert.equal(await program.interrupt(), 0);
      program = await startProgram({ data_dir });
      assert.equal((await journalOf(program))?.unclean, 1);
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);
