/**
 * Every way in which a hub, a server or a network refuses: its code, its sentence, its command.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { type FakeHub, sha256, startFakeHub } from '../../test/lib/fake-hub.ts';
import { fixOf, sentenceOf } from '../core/reasons.ts';
import { systemClock } from '../lib/clock.ts';
import { Secret } from '../lib/secret.ts';
import { SourceError } from './source-error.ts';
import type { Net } from './source-http.ts';
import { parseModelName } from './source-name.ts';
import { planSource, type SourcePlan } from './source-plan.ts';

let hub: FakeHub;
const content = (text: string) => Buffer.from(`GGUF${text}`);

before(async () => {
  hub = await startFakeHub({ tls: true });
  hub.put('o/one', 'one-Q4_K_M.gguf', content('one'));
  hub.put('o/one', 'README.md', Buffer.from('hello'), { lfs: false });
  hub.put('o/one', 'mmproj-one-F16.gguf', content('eyes'));
  for (const quant of ['Q4_K_M', 'Q4_K_M_L', 'Q8_0']) {
    hub.put('o/many', `many-${quant}.gguf`, content(quant));
  }
  for (const part of [1, 2])
    hub.put('o/split', `big-0000${part}-of-00002.gguf`, content(`${part}`));
  hub.put('o/half', 'big-00001-of-00003.gguf', content('1'));
  hub.put('o/pickle', 'pytorch_model.bin', Buffer.from('x'));
  hub.put('o/pickle', 'modeling.py', Buffer.from('x'), { lfs: false });
  const map = {
    weight_map: { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' },
  };
  hub.put('o/mlx', 'model.safetensors.index.json', Buffer.from(JSON.stringify(map)), {
    lfs: false,
  });
  for (const part of [1, 2])
    hub.put('o/mlx', `model-0000${part}-of-00002.safetensors`, content(`${part}`));
  for (const name of ['config.json', 'tokenizer.json', 'evil.py']) {
    hub.put('o/mlx', name, Buffer.from('{}'), { lfs: false });
  }
  hub.put('o/mlx', 'other.safetensors', content('other'));
  for (const how of ['gated', 'private', 'disabled'] as const) {
    hub.put(`o/${how}`, 'm.gguf', content(how));
    hub.close_repo(`o/${how}`, how);
  }
});
after(() => hub.close());
afterEach(() => {
  hub.faults = {};
  hub.requests.length = 0;
});

function net(): Net {
  const trusted_origins = [hub.url, hub.files_origin];
  return { clock: systemClock, trusted_origins, ca: hub.ca ?? '' };
}

function plan(
  text: string,
  token: string | null = null,
  over: Partial<Net> = {},
): Promise<SourcePlan> {
  const name = parseModelName(text);
  assert.ok(name.kind === 'hub' || name.kind === 'https', text);
  const secret = token === null ? null : new Secret(token);
  const sources = { net: { ...net(), ...over }, hub_url: hub.url };
  return planSource(sources, name, secret, new AbortController().signal);
}

async function refusal(text: string, token: string | null = null, over: Partial<Net> = {}) {
  const error = await plan(text, token, over).then(
    () => assert.fail(`${text} was not refused`),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof SourceError, String(error));
  const { code, details, temporary } = error;
  const says = sentenceOf(code, details);
  const fix = fixOf(code, { name: 'chat', ...details }) ?? '';
  for (const line of [says, fix])
    assert.doesNotMatch(line, /\{|undefined|secretquery|hf_fake/, code);
  return { code, says, fix, temporary };
}

test('a model is its one GGUF, at the commit of its revision, with size and checksum', async () => {
  const planned = await plan('hf://o/one');
  assert.equal(planned.source, `hf://o/one@${hub.commit}/one-Q4_K_M.gguf`);
  assert.equal(planned.revision, hub.commit);
  assert.equal(planned.bytes, 7);
  const [file] = planned.files;
  assert.equal(planned.files.length, 1);
  assert.deepEqual(file?.digest, { kind: 'sha256', value: sha256(content('one')) });
  assert.deepEqual(await plan(planned.source), planned, 'the pinned name plans the same again');
});

test('a quantization chooses by a whole word of the name, or a file by its path', async () => {
  const main = async (text: string) => (await plan(text)).main;
  assert.equal(await main('hf://o/many:q4_k_m'), 'many-Q4_K_M.gguf');
  assert.equal(await main('hf://o/many@main:Q8_0'), 'many-Q8_0.gguf');
  assert.equal(await main('hf://o/many/many-Q4_K_M_L.gguf'), 'many-Q4_K_M_L.gguf');
});

test('split models are planned whole, and of safetensors only what an engine reads', async () => {
  const split = await plan('hf://o/split');
  assert.deepEqual(
    split.files.map(({ name }) => name),
    ['big-00001-of-00002.gguf', 'big-00002-of-00002.gguf'],
  );
  assert.equal(
    (await plan('hf://o/split/big-00002-of-00002.gguf')).main,
    'big-00001-of-00002.gguf',
  );
  const mlx = await plan('hf://o/mlx');
  assert.equal(mlx.format, 'safetensors');
  assert.deepEqual(mlx.files.map(({ name }) => name).sort(), [
    'config.json',
    'model-00001-of-00002.safetensors',
    'model-00002-of-00002.safetensors',
    'model.safetensors.index.json',
    'tokenizer.json',
  ]);
});

test('a long list is read page by page', async () => {
  hub.faults = { page_size: 1 };
  assert.equal((await plan('hf://o/many:Q8_0')).main, 'many-Q8_0.gguf');
  assert.equal(hub.requests.filter(({ path }) => path.includes('/tree/')).length, 3);
});

test('the token opens what is gated or private, and goes to the hub alone', async () => {
  assert.equal((await plan('hf://o/gated', hub.token)).main, 'm.gguf');
  assert.equal((await plan('hf://o/private', hub.token)).main, 'm.gguf');
  assert.ok(hub.requests.every(({ headers }) => headers.authorization === `Bearer ${hub.token}`));
  assert.ok(hub.requests.every(({ path }) => !path.includes(hub.token)));
});

const refusals: [string, string, string | null, RegExp, RegExp][] = [
  [
    'hub_gated',
    'hf://o/gated',
    null,
    /^o\/gated is gated/,
    /accept them at https.*\/o\/gated, then: bin\/einsora secrets set hf-token$/,
  ],
  [
    'hub_repo_not_found',
    'hf://o/private',
    null,
    /has no o\/private, or it is private/,
    /secrets set hf-token/,
  ],
  ['hub_repo_not_found', 'hf://o/nothing', null, /has no o\/nothing/, /check the name/],
  [
    'hub_token_refused',
    'hf://o/one',
    'hf_wrong',
    /does not accept the token hf-token/,
    /^bin\/einsora secrets set hf-token$/,
  ],
  ['hub_repo_disabled', 'hf://o/disabled', null, /has disabled o\/disabled/, /see why at/],
  [
    'hub_revision_not_found',
    'hf://o/one@v9',
    null,
    /no revision v9/,
    /launch endpoint hf:\/\/o\/one$/,
  ],
  [
    'hub_file_not_found',
    'hf://o/many/x.gguf',
    null,
    /has no x.gguf. It has: many-Q4_K_M.gguf, /,
    /hf:\/\/o\/many\/many-Q4_K_M.gguf$/,
  ],
  [
    'model_choice_needed',
    'hf://o/many',
    null,
    /has 3 models to choose from: many-Q4_K_M.gguf, many/,
    /launch endpoint hf:\/\/o\/many:Q4_K_M$/,
  ],
  ['model_choice_needed', 'hf://o/many:Q5', null, /has 3 models/, /hf:\/\/o\/many/],
  [
    'model_files_missing',
    'hf://o/pickle',
    null,
    /pytorch_model.bin can run code/,
    /search=pickle\+GGUF/,
  ],
  ['model_file_unsafe', 'hf://o/pickle/pytorch_model.bin', null, /never fetched/, /GGUF/],
  [
    'model_files_missing',
    'hf://o/one/README.md',
    null,
    /README.md is neither GGUF nor safetensors/,
    /search=one/,
  ],
  [
    'model_parts_missing',
    'hf://o/half',
    null,
    /3 parts and not all are there: big-00002/,
    /hf:\/\/o\/half/,
  ],
];
for (const [code, text, token, says, fix] of refusals) {
  test(`${text} is refused as ${code}`, async () => {
    const refused = await refusal(text, token);
    assert.equal(refused.code, code, refused.says);
    assert.match(refused.says, says);
    assert.match(refused.fix, fix);
    assert.equal(refused.temporary, false);
  });
}

const faults: [string, FakeHub['faults'], boolean, RegExp][] = [
  [
    'hub_rate_limited',
    { status: { code: 429, headers: { 'retry-after': '90' } } },
    true,
    /wait 1m 30s/,
  ],
  ['hub_failing', { status: { code: 502 } }, true, /status 502/],
  ['hub_failing', { file_status: { code: 503 } }, true, /status 503/],
  ['hub_answer_invalid', { status: { code: 418 } }, false, /status 418/],
  ['hub_answer_invalid', { status: { code: 200, body: '<html>' } }, false, /a web page/],
  ['hub_answer_invalid', { status: { code: 200, body: '{"sha":"main"}' } }, false, /no commit/],
  ['hub_answer_invalid', { tree: () => '{' }, false, /no JSON/],
  ['hub_answer_invalid', { tree: () => ({}) }, false, /a list of files that is none/],
  ['hub_answer_invalid', { tree: () => [entry('../x.gguf')] }, false, /a bad name/],
  ['hub_answer_invalid', { tree: () => [entry('/x.gguf')] }, false, /a bad name/],
  ['hub_answer_invalid', { tree: () => [{ ...entry('x.gguf'), size: -1 }] }, false, /a size/],
  ['hub_answer_invalid', { tree: () => [{ ...entry('x.gguf'), oid: 'a/b' }] }, false, /checksum/],
  ['hub_answer_invalid', { tree: () => 'x'.repeat(9 * 2 ** 20) }, false, /more than 8388608/],
  ['hub_answer_invalid', { link: '<https://elsewhere.example/>; rel="next"' }, false, /elsewhere/],
  ['hub_answer_invalid', { page_size: 0 }, false, /more than 50 pages/],
  ['hub_answer_invalid', { head: { 'x-repo-commit': 'f'.repeat(40) } }, false, /another one/],
  ['hub_answer_invalid', { head: { 'x-linked-size': '9' } }, false, /another one/],
  ['hub_answer_invalid', { head: { 'x-linked-etag': '"9"' } }, false, /another one/],
];
for (const [code, fault, temporary, says] of faults) {
  test(`a hub with ${JSON.stringify(fault).slice(0, 60)} (${says.source}) is ${code}`, async () => {
    hub.faults = fault;
    const refused = await refusal('hf://o/one');
    assert.equal(refused.code, code, refused.says);
    assert.match(refused.says, says);
    assert.notEqual(refused.fix, '');
    assert.equal(refused.temporary, temporary);
  });
}

test('a hub that is not there, or whose certificate nobody signed, is hub_unreachable', async () => {
  const gone = await startFakeHub();
  await gone.close();
  const name = parseModelName('hf://o/one');
  assert.ok(name.kind === 'hub');
  const sources = { net: { clock: systemClock, trusted_origins: [gone.url] }, hub_url: gone.url };
  const dead = planSource(sources, name, null, new AbortController().signal);
  await assert.rejects(dead, { code: 'hub_unreachable', temporary: true });
  const { ca: _, ...without } = net();
  const stranger = planSource(
    { net: without, hub_url: hub.url },
    name,
    null,
    AbortSignal.timeout(5000),
  );
  await assert.rejects(stranger, (error: SourceError) => {
    assert.equal(error.code, 'hub_unreachable');
    assert.match(String(error.details.why), /certificate/);
    return !error.temporary;
  });
});

function entry(path: string) {
  return { type: 'file', path, size: 3, oid: '0'.repeat(40) };
}
