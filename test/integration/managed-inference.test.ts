/**
 * Managed inference with the real llama.cpp and two tenants: the guest gets the exact answer
 * through the gateway with a key of its own, and everything else is as if it did not exist.
 */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import OpenAI from 'openai';
import type { ModelKey } from '../../src/contract/endpoint-sharing.ts';
import { exec } from '../../src/lib/exec.ts';
import { writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import { cleanUp, mainFile, type Program, startProgram, temporaryFolder } from '../lib/program.ts';

const question = [{ role: 'user' as const, content: 'Who runs you, and where, and since when?' }];
const password = 'a long enough word';

/** The command line of a member of another tenant, from elsewhere. */
async function memberOf(program: Program, slug: string, home: string) {
  const run = (argv: string[], input = '') =>
    exec(process.execPath, ['--disable-warning=ExperimentalWarning', mainFile, ...argv], {
      env: { PATH: process.env.PATH ?? '', HOME: home },
      input,
      timeout_ms: 60_000,
    });
  const tenant = await program.api('/v1/tenants', { body: { slug } });
  assert.equal(tenant.status, 201, JSON.stringify(tenant.body));
  const invited = await program.cli(['invite', '--tenant', slug, '--role', 'member', '--json']);
  const { url } = JSON.parse(invited.stdout) as { url: string };
  const login = ['login', '--invite', '--name', `of-${slug}`, '--password-stdin'];
  const joined = await run(login, `${url}\n${password}\n`);
  assert.equal(joined.code, 0, joined.stderr);
  return run;
}

/** How much of a prompt the engine had from before, as it says itself. */
async function cachedTokens(client: OpenAI, model: string): Promise<number> {
  const answer = await client.chat.completions.create({ model, messages: question });
  const { timings } = answer as unknown as { timings?: { cache_n?: number } };
  assert.equal(typeof timings?.cache_n, 'number', JSON.stringify(answer));
  return timings?.cache_n ?? 0;
}

/** The command line's own chat makes a key of the guest's, and ends it. */
async function chats(bolt: Awaited<ReturnType<typeof memberOf>>, sentence: string): Promise<void> {
  const said = await bolt(['chat', 'local/known', 'Who runs you?']);
  assert.equal(said.stdout, `${sentence}\n`, said.stderr);
  const keys = JSON.parse((await bolt(['keys', 'ls', '--json'])).stdout).items as ModelKey[];
  const of_chat = keys.filter(({ revoked_at }) => revoked_at !== null);
  assert.deepEqual([keys.length, of_chat.length], [2, 1], 'the key of a chat ends with it');
}

/** Whatever else a guest tries is answered as if there were nothing. */
async function othersShut(bolt: Awaited<ReturnType<typeof memberOf>>, id: string): Promise<void> {
  for (const argv of [
    ['show', id],
    ['logs', id],
    ['events', id],
    ['stop', id],
    ['rm', id],
    ['export', id],
    ['exec', id, '--', 'true'],
    ['show', 'local/known'],
  ]) {
    const shut = await bolt(argv);
    assert.notEqual(shut.code, 0, argv.join(' '));
    assert.match(`${shut.stdout}${shut.stderr}`, /not_found|There is no/, argv.join(' '));
  }
  const machines = await bolt(['machines', '--json']);
  const [lender] = JSON.parse(machines.stdout).items as { workloads: string[] }[];
  assert.deepEqual(lender?.workloads ?? [], []);
  const mine = await bolt(['launch', 'notebook', '--name', 'mine', '--detach', '--json']);
  assert.equal(mine.code, 0, mine.stderr);
  let why = '';
  for (let tries = 0; tries < 100 && why !== 'isolation_not_allowed'; tries += 1) {
    const shown = JSON.parse((await bolt(['show', 'mine', '--json'])).stdout);
    assert.equal(shown.placement, null);
    why = shown.reason?.code ?? '';
  }
  assert.equal(why, 'isolation_not_allowed');
  await bolt(['rm', 'mine']);
}

test('a guest prompts an endpoint on a weak driver, and can do nothing else', {
  timeout: 240_000,
  ...needs('llama', 'bwrap', 'cgroup'),
}, async () => {
  const data_dir = temporaryFolder();
  const home = join(data_dir, 'elsewhere');
  mkdirSync(home);
  const program = await startProgram({ data_dir });
  try {
    const path = join(data_dir, 'known.gguf');
    const { sentence } = writeKnownAnswerModel(path);
    const made = await program.cli(['launch', 'endpoint', path, '--name', 'known', '--json']);
    assert.equal(made.code, 0, made.stderr);
    const { url: baseURL, key: own_key, workload } = JSON.parse(made.stdout);
    assert.equal(workload.placement.isolation, 'weak');
    const owner = new OpenAI({ baseURL, apiKey: own_key, maxRetries: 0 });
    await cachedTokens(owner, 'known');
    assert.ok((await cachedTokens(owner, 'known')) > 0, 'the engine remembers prompts');
    const bolt = await memberOf(program, 'bolt', home);

    const early = await bolt(['keys', 'create', '--model', 'local/known', '--json']);
    assert.equal(JSON.parse(early.stdout).error.code, 'not_found');
    const refused = await program.cli(['endpoint', 'share', 'known', '--invite', 'bolt', '--json']);
    assert.equal(JSON.parse(refused.stdout).error.code, 'machine_not_shared');
    const lent = await program.cli(['machine', 'share', '--to', 'bolt', '--json']);
    assert.equal(lent.code, 0, lent.stderr);
    const opened = await program.cli(['endpoint', 'share', 'known', '--invite', 'bolt']);
    assert.equal(opened.code, 0, opened.stderr);
    assert.match(opened.stderr, /takes prompts of bolt/);

    const offered = await bolt(['endpoint', 'open', '--json']);
    const [model] = (JSON.parse(offered.stdout).items as { model: string }[]).map(
      (one) => one.model,
    );
    assert.equal(model, 'local/known');
    const keyed = await bolt(['keys', 'create', '--model', 'local/known', '--json']);
    assert.equal(keyed.code, 0, keyed.stderr);
    const { key } = JSON.parse(keyed.stdout) as { key: string };
    const guest = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 });
    const seen: string[] = [];
    for await (const { id } of guest.models.list()) seen.push(id);
    assert.deepEqual(seen, ['local/known']);
    const asked = { model: 'local/known', messages: question };
    const answer = await guest.chat.completions.create(asked).withResponse();
    assert.equal(answer.data.choices[0]?.message.content, sentence);
    const by = answer.response.headers.get('x-einsora-served-by') ?? '';
    assert.doesNotMatch(by, /machine=/);

    await chats(bolt, sentence);

    // Whose prompts begin alike is told to nobody by how fast an answer comes.
    for (const [client, name] of [
      [guest, 'local/known'],
      [owner, 'known'],
      [guest, 'local/known'],
    ] as const) {
      assert.equal(await cachedTokens(client, name), 0, name);
    }
    await othersShut(bolt, workload.id);

    const shut = await program.cli(['endpoint', 'unshare', 'known', '--all']);
    assert.equal(shut.code, 0, shut.stderr);
    await assert.rejects(guest.chat.completions.create(asked), /does not exist/);
    assert.equal(await cachedTokens(owner, 'known'), 0, 'it may still remember the guest');
    const still = await owner.chat.completions.create({ model: 'known', messages: question });
    assert.equal(still.choices[0]?.message.content, sentence);
  } finally {
    await cleanUp(data_dir, program);
  }
});
