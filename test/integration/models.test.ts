/**
 * Models from a hub that the test serves, on the real program: launched, pulled, shared, resumed
 * after kill -9, refused with the reason, and opened by a token that nobody finds afterwards.
 */
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import type { ModelFile } from '../../src/contract/model-files.ts';
import type { Workload } from '../../src/contract/workloads.ts';
import { type FakeHub, sha256, startFakeHub } from '../lib/fake-hub.ts';
import { entry, ggufFile } from '../lib/gguf-writer.ts';
import { successorModel, writeKnownAnswerModel } from '../lib/known-answer.ts';
import { needs } from '../lib/parts.ts';
import {
  cleanUp,
  type Program,
  startProgram,
  temporaryFolder,
  test_cache,
  until,
} from '../lib/program.ts';

const real = needs('llama', 'bwrap', 'cgroup');
const data_dir = temporaryFolder();
const cache_dir = join(data_dir, 'cache-of-this-test');
const models_dir = join(cache_dir, 'models');
let hub: FakeHub;
/** Plain https, by a certificate that the operator trusts. */
let server: FakeHub;
let program: Program | null = null;
let sentence = '';
let known: Buffer;

const start = () =>
  startProgram({
    data_dir,
    env: {
      EINSORA_HUB_URL: hub.url,
      EINSORA_MODEL_ORIGINS: `${hub.files_origin}, ${server.files_origin}`,
      NODE_EXTRA_CA_CERTS: join(data_dir, 'ca.pem'),
      EINSORA_CACHE_DIR: cache_dir,
    },
  });

before(async () => {
  hub = await startFakeHub();
  server = await startFakeHub({ tls: true });
  writeFileSync(join(data_dir, 'ca.pem'), server.ca ?? '');
  const path = join(data_dir, 'known.gguf');
  ({ sentence } = writeKnownAnswerModel(path));
  known = readFileSync(path);
  hub.put('einsora/known', 'known-F32.gguf', known);
  server.put('some/where', 'plain.gguf', otherModel('plain'));
  hub.put('einsora/twin', 'twin-F32.gguf', known);
  hub.put('einsora/secret', 'secret-F32.gguf', otherModel('secret'));
  hub.close_repo('einsora/secret', 'gated');
  hub.put('einsora/slow', 'slow-F32.gguf', otherModel('slow'));
  hub.put('einsora/mlx', 'model.safetensors', Buffer.from('x'.repeat(100)));
  hub.put('einsora/bad', 'bad.gguf', Buffer.from(`GGUF${'x'.repeat(5000)}`));
  if (real.skip !== false) return;
  // Tools are shared with other tests; models are this test's own.
  mkdirSync(cache_dir);
  mkdirSync(join(test_cache, 'tools'), { recursive: true });
  symlinkSync(join(test_cache, 'tools'), join(cache_dir, 'tools'));
  program = await start();
});
after(async () => {
  if (program !== null) await cleanUp(data_dir, program);
  await Promise.all([hub.close(), server.close()]);
});
beforeEach(() => {
  hub.faults = {};
  hub.requests.length = 0;
});

/** The same answers in other bytes. */
function otherModel(name: string): Buffer {
  const words = sentence.split(' ').map((word, index) => (index === 0 ? word : `▁${word}`));
  return ggufFile(successorModel({ name, words, ends: true, width: 384, blocks: 1 }));
}

/** The same answers in two parts, as large models come. */
function splitModel(): Buffer[] {
  const words = sentence.split(' ').map((word, index) => (index === 0 ? word : `▁${word}`));
  const whole = successorModel({ name: 'split', words, ends: true, width: 384, blocks: 1 });
  const half = Math.ceil(whole.tensors.length / 2);
  return [0, 1].map((index) => {
    const split = [
      entry.u16('split.no', index),
      entry.u16('split.count', 2),
      entry.i32('split.tensors.count', whole.tensors.length),
    ];
    return ggufFile({
      entries: index === 0 ? [...whole.entries, ...split] : split,
      tensors: whole.tensors.slice(index * half, (index + 1) * half),
    });
  });
}

function running(): Program {
  assert.ok(program !== null);
  return program;
}

async function cli(...args: string[]) {
  const { code, stdout, stderr } = await running().cli(args);
  return { code, stdout, stderr };
}

async function listed(): Promise<ModelFile[]> {
  const { code, stdout, stderr } = await cli('models', 'ls', '--json');
  assert.equal(code, 0, stderr);
  return (JSON.parse(stdout) as { items: ModelFile[] }).items;
}

const contents = () => hub.requests.filter(({ origin }) => origin === 'files');
const partials = () => readdirSync(join(models_dir, 'partial'));
const blobs = () => readdirSync(join(models_dir, 'blobs')).sort();

test('a launch from a hub says what it will fetch, fetches it, and answers', real, async () => {
  const launched = await cli('launch', 'endpoint', 'hf://einsora/known');
  assert.equal(launched.code, 0, launched.stderr + running().said());
  assert.match(launched.stderr, /^To fetch: 2\.\d MB; [\d.]+ [GT]B free on \S+$/m);
  const revision = hub.commit.slice(0, 12);
  assert.match(
    launched.stderr,
    new RegExp(`✔ model .*2\\.\\d MB of 2\\.\\d MB .*revision ${revision}`),
  );
  const said = await cli('chat', 'known-f32', 'Who?');
  assert.equal(said.stdout, `${sentence}\n`, said.stderr);
  const [file] = await listed();
  assert.equal(file?.source, `hf://einsora/known@${hub.commit}/known-F32.gguf`);
  assert.deepEqual(
    [file?.state, file?.sha256, file?.bytes],
    ['ready', sha256(known), known.length],
  );
  assert.deepEqual(file?.in_use_by, ['known-f32']);
  const { body } = await running().api<Workload>('/v1/workloads/known-f32');
  assert.equal(body.model, file?.source, 'the revision is recorded');
});

test('a second launch, and a model with the same content, fetch nothing', real, async () => {
  assert.equal((await cli('rm', 'known-f32')).code, 0);
  const again = await cli('launch', 'endpoint', 'hf://einsora/known', '--name', 'again');
  assert.equal(again.code, 0, again.stderr);
  assert.match(again.stderr, /To fetch: nothing, the machine has it/);
  assert.equal((await cli('rm', 'again')).code, 0);
  const twin = await cli('launch', 'endpoint', 'hf://einsora/twin');
  assert.equal(twin.code, 0, twin.stderr);
  assert.equal(contents().length, 0);
  assert.deepEqual(blobs(), [sha256(known)]);
  const refused = await cli('models', 'rm', 'twin-F32.gguf');
  assert.equal(refused.code, 5);
  assert.match(refused.stderr, /model_in_use.*is in use by twin-f32/s);
  assert.equal((await cli('rm', 'twin-f32')).code, 0);
  assert.equal((await cli('models', 'rm', 'twin-F32.gguf')).code, 0);
  assert.deepEqual(blobs(), [sha256(known)], 'the other model has it still');
});

test('what cannot be is refused before anything is recorded, with what helps', real, async () => {
  const table: [string, string, RegExp][] = [
    ['hf://einsora/nothing', 'hub_repo_not_found', /secrets set hf-token/],
    ['hf://einsora/secret', 'hub_gated', /accept them at .*secrets set hf-token/],
    ['hf://einsora/known:Q9', 'model_choice_needed', /launch endpoint hf:\/\/einsora\/known/],
    ['hf://einsora/mlx', 'no_engine_for_format', /GGUF/],
    ['https://127.0.0.1/m.gguf', 'source_address_refused', /EINSORA_MODEL_ORIGINS/],
    ['https://u:p@host.example/m.gguf', 'bad_request', /launch endpoint --help/],
    ['s3://bucket/m.gguf', 'model_source_unsupported', /catalog/],
  ];
  for (const [model, code, fix] of table) {
    const refused = await cli('launch', 'endpoint', model, '--name', 'never', '--json');
    const { error } = JSON.parse(refused.stdout) as { error: { code: string; fix: string | null } };
    assert.equal(error.code, code, model);
    assert.match(error.fix ?? '', fix, model);
  }
  assert.equal((await running().api('/v1/workloads/never')).status, 404);
});

test(
  'killed in mid-download: the next start goes on from there and leaves no lock',
  real,
  async () => {
    const slow = sha256(otherModel('slow'));
    hub.faults = { stall_at: 1_500_000 };
    const begun = await cli('launch', 'endpoint', 'hf://einsora/slow', '--detach');
    assert.equal(begun.code, 0, begun.stderr);
    const other = await cli('models', 'pull', 'hf://einsora/slow', '--detach');
    assert.equal(other.code, 0, other.stderr);
    let seen: ModelFile[] = [];
    await until(
      async () => {
        seen = await listed();
        const file = seen.find(({ source }) => source.includes('slow'));
        return file?.state === 'fetching' && (file.done_bytes ?? 0) >= 1_400_000;
      },
      20_000,
      () => `it did not come so far: ${JSON.stringify([seen, partials()])}`,
    );
    assert.equal(contents().length, 1, 'the launch and the pull share one download');
    assert.deepEqual(partials().sort(), [`${slow}.lock`, `${slow}.part`]);
    await running().kill();
    hub.faults = {};
    hub.requests.length = 0;
    program = await start();
    await until(
      async () =>
        (await running().api<Workload>('/v1/workloads/slow-f32')).body.state === 'running',
      30_000,
      () => 'it did not come to run',
    );
    assert.equal(contents().length, 1);
    assert.match(contents()[0]?.headers.range ?? '', /^bytes=1[45]\d{5}-$/);
    assert.deepEqual(partials(), []);
    await until(
      async () => (await listed()).every(({ state }) => state === 'ready'),
      10_000,
      () => 'the pull was not carried out',
    );
    assert.equal((await cli('rm', 'slow-f32')).code, 0);
  },
);

test('a token opens a gated model, and is found nowhere afterwards', real, async () => {
  const secret = { method: 'PUT', body: { value: hub.token } };
  assert.equal((await running().api('/v1/secrets/hf-token', secret)).status, 200);
  const launched = await cli('launch', 'endpoint', 'hf://einsora/secret');
  assert.equal(launched.code, 0, launched.stderr);
  assert.ok(hub.requests.some(({ headers }) => headers.authorization === `Bearer ${hub.token}`));
  assert.ok(contents().every(({ headers }) => headers.authorization === undefined));
  const files = readdirSync(data_dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const holding = files.filter(
    (path) => existsSync(path) && readFileSync(path).includes(hub.token),
  );
  assert.deepEqual(holding, []);
  assert.equal((await cli('rm', 'secret-f32')).code, 0);
});

test('a pull shows how far it is; what the validator refuses is not kept', real, async () => {
  const pulled = await cli('models', 'pull', 'hf://einsora/twin');
  assert.equal(pulled.code, 0, pulled.stderr);
  assert.match(pulled.stderr, /✔ twin-F32\.gguf {2}2\.\d MB {2}gguf, llama, 12 tensors/);
  const bad = await cli('models', 'pull', 'hf://einsora/bad');
  assert.equal(bad.code, 1);
  assert.match(bad.stderr, /✘ The model file was refused/);
  assert.ok(!blobs().includes(sha256(Buffer.from(`GGUF${'x'.repeat(5000)}`))));
  const checked = await cli('models', 'validate', 'twin-F32.gguf', join(data_dir, 'known.gguf'));
  assert.equal(checked.code, 0, checked.stderr);
  assert.match(checked.stdout, /^✔ hf:.*12 tensors$/m);
  const offline = await cli('models', 'validate', join(data_dir, 'owner-token'));
  assert.equal(offline.code, 1);
  assert.match(offline.stdout, /model_file_invalid/);
  for (const name of ['twin-F32.gguf', 'bad.gguf']) {
    assert.equal((await cli('models', 'rm', name)).code, 0, name);
  }
  assert.equal((await cli('models', 'rm', 'twin-F32.gguf')).code, 4);
});

test(
  'a model is checked on its way: other bytes are thrown away, and the launch says so',
  real,
  async () => {
    hub.put('einsora/corrupt', 'corrupt-F32.gguf', otherModel('corrupt'));
    hub.faults = { corrupt: true };
    const launched = await cli('launch', 'endpoint', 'hf://einsora/corrupt', '--json');
    assert.equal(launched.code, 6);
    const { error } = JSON.parse(launched.stdout) as { error: { code: string; message: string } };
    assert.equal(error.code, 'model_corrupt', JSON.stringify(error));
    assert.match(error.message, /another checksum/);
    assert.deepEqual(partials(), []);
  },
);

test('a model in parts is fetched whole, and the engine reads all of it', real, async () => {
  for (const [index, part] of splitModel().entries()) {
    hub.put('einsora/split', `big/big-F32-0000${index + 1}-of-00002.gguf`, part);
  }
  const launched = await cli('launch', 'endpoint', 'hf://einsora/split:F32');
  assert.equal(launched.code, 0, launched.stderr);
  assert.match(launched.stderr, /^To fetch: 2\.\d MB in 2 files/m);
  const said = await cli('chat', 'big-f32', 'Who?');
  assert.equal(said.stdout, `${sentence}\n`, said.stderr);
  assert.equal((await cli('rm', 'big-f32')).code, 0);
});

test('a model of an https server answers; what its URL asks with is not shown', real, async () => {
  const url = `${server.files_origin}/some/where/plain.gguf`;
  const launched = await cli('launch', 'endpoint', `${url}?signature=very-private`);
  assert.equal(launched.code, 0, launched.stderr);
  const said = await cli('chat', 'plain', 'Who?');
  assert.equal(said.stdout, `${sentence}\n`, said.stderr);
  const { stdout } = await cli('models', 'ls', '--json');
  assert.ok(stdout.includes(url) && !stdout.includes('very-private'));
  assert.ok(!readFileSync(join(data_dir, 'einsora.log'), 'utf8').includes('very-private'));
  assert.equal((await cli('rm', 'plain')).code, 0);
});

test('a launch of a model that the validator refuses keeps nothing of it', real, async () => {
  const launched = await cli('launch', 'endpoint', 'hf://einsora/bad', '--json');
  assert.equal(launched.code, 6);
  const { error } = JSON.parse(launched.stdout) as { error: { code: string } };
  assert.equal(error.code, 'model_file_invalid');
  assert.ok(!blobs().includes(sha256(Buffer.from(`GGUF${'x'.repeat(5000)}`))));
  const file = (await listed()).find(({ source }) => source.includes('/bad@'));
  assert.deepEqual([file?.state, file?.checked?.ok], ['failed', false]);
});
