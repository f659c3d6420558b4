/**
 * The real program with a unique secret in every place where one can be: afterwards none of them is
 * in the database, its log of writes, any other file, any process, anything printed or exported,
 * but where it belongs.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeToken } from '../src/core/token.ts';
import { spawnChild } from '../src/lib/exec.ts';
import { systemRandom } from '../src/lib/random.ts';
import { openSqliteStore } from '../src/store/sqlite.ts';
import {
  type Canaries,
  commandLineOf,
  createCanaries,
  type Find,
  processesOf,
} from './lib/canary.ts';
import { giveInside } from './lib/canary-inside.ts';
import { type FakeHub, startFakeHub } from './lib/fake-hub.ts';
import { writeKnownAnswerModel } from './lib/known-answer.ts';
import { needs } from './lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder, test_cache } from './lib/program.ts';
import { dumpOf, keepingLog } from './lib/rig.ts';
import { transactions } from './lib/rig-transactions.ts';

const unique = (name: string) =>
  `${name}-${Buffer.from(systemRandom.bytes(12)).toString('base64url')}`;
const newToken = (prefix: 'tsk_' | 'ept_' | 'eat_') => makeToken(prefix, systemRandom.bytes(32));

type World = { program: Program; canaries: Canaries; hub: FakeHub; cache_dir: string };
type Body = { items?: { id: string }[]; url?: string; token?: string };

test(
  'no secret is where it does not belong',
  needs('llama', 'python', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const hub = await startFakeHub();
    const canaries = createCanaries();
    const surroundings = prepare(data_dir, hub, canaries);
    const { cache_dir } = surroundings;
    let program = await startProgram({ data_dir, env: surroundings.env });
    try {
      const world = () => ({ program, canaries, hub, cache_dir });
      noteFiles(world());
      const outputs: string[] = [];
      const link = await signIn(world());
      outputs.push(await useAccounts(world(), link), await useEndpoint(world()));
      outputs.push(await useInside(world()), await misuse(world()), await readEverything(world()));
      assert.ok(canaries.names().length >= 20, canaries.names().join());
      assertNone(findings(world(), outputs));
      outputs.push(program.said());
      await program.kill();
      outputs.push(await dumpOfFolder(data_dir));
      assertNone(findings(world(), outputs));
      program = await startProgram({ data_dir, env: surroundings.env });
      outputs.push(program.said(), await readEverything(world()));
      assertNone(findings(world(), outputs));
      await showThatItBites(world());
    } finally {
      await cleanUp(data_dir, program);
      await hub.close();
    }
  },
);

/** The environment with secrets of others, and a hub whose token is one. */
function prepare(data_dir: string, hub: FakeHub, canaries: Canaries) {
  const cache_dir = join(data_dir, 'cache-of-this-test');
  mkdirSync(cache_dir);
  mkdirSync(join(test_cache, 'tools'), { recursive: true });
  symlinkSync(join(test_cache, 'tools'), join(cache_dir, 'tools'));
  const path = join(cache_dir, 'known.gguf');
  writeKnownAnswerModel(path);
  hub.put('einsora/gated', 'known-F32.gguf', readFileSync(path));
  hub.close_repo('einsora/gated', 'gated');
  hub.token = `hf_${Buffer.from(systemRandom.bytes(18)).toString('hex')}`;
  canaries.add('hub token', hub.token);
  const of_others: Record<string, string> = {};
  for (const name of ['AWS_SECRET_ACCESS_KEY', 'OPENAI_API_KEY', 'HF_TOKEN', 'LLAMA_ARG_API_KEY']) {
    of_others[name] = unique('env');
    canaries.add(`environment ${name}`, of_others[name]);
  }
  const env = {
    ...{ ...of_others, EINSORA_CACHE_DIR: cache_dir, EINSORA_LOG: 'trace' },
    ...{ EINSORA_HUB_URL: hub.url, EINSORA_MODEL_ORIGINS: hub.files_origin },
  };
  return { env, cache_dir };
}

/** What the program itself keeps in files of their own. */
function noteFiles({ program, canaries }: World): void {
  for (const name of ['owner-token', 'deployment-key', 'pepper']) {
    const text = readFileSync(join(program.data_dir, name), 'latin1').trim();
    canaries.add(name, text, [name]);
  }
}

/** A link of the command line, spent in a browser: a session. */
async function signIn({ program, canaries }: World): Promise<string> {
  const made = await program.api<Body>('/v1/sign-in-links', { method: 'POST' });
  assert.equal(made.status, 201);
  const token = /#t=(\S+)$/.exec(made.body.url ?? '')?.[1] ?? '';
  canaries.add('sign-in link', token);
  const unspent = await program.api<Body>('/v1/sign-in-links', { method: 'POST' });
  canaries.add('unspent sign-in link', /#t=(\S+)$/.exec(unspent.body.url ?? '')?.[1] ?? '');
  const cookie = await openSession(program, { token });
  canaries.add('session of a link', cookieValue(cookie));
  return cookie;
}

async function openSession(program: Program, body: unknown): Promise<string> {
  const answer = await fetch(`${program.url}/v1/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: program.url },
    body: JSON.stringify(body),
  });
  assert.equal(answer.status, 204, await answer.text());
  return answer.headers.getSetCookie()[0]?.split(';')[0] ?? '';
}

const cookieValue = (cookie: string) => cookie.slice(cookie.indexOf('=') + 1);

/** Passwords, invitations, resets and API tokens, right and wrong. */
async function useAccounts(world: World, cookie: string): Promise<string> {
  const { program, canaries } = world;
  const secret = (name: string) => {
    const value = unique(name.replaceAll(' ', '-'));
    canaries.add(name, value);
    return value;
  };
  const ask = asking(program);
  const invited = await ask('POST', '/v1/invitations', { role: 'member' });
  const invitation = tokenIn(invited.url);
  canaries.add('invitation', invitation);
  const password = secret('password');
  const joined = await ask('POST', '/v1/join', { token: invitation, name: 'mia', password });
  if (typeof joined.token === 'string') canaries.add('token of who joined', joined.token);
  await ask('POST', '/v1/join', { token: invitation, name: 'mia2', password }, 400);
  const login = await ask('POST', '/v1/login', { name: 'mia', password });
  canaries.add('token of a login', login.token ?? '');
  await ask('POST', '/v1/login', { name: 'mia', password: secret('wrong password') }, 400);
  await ask('POST', '/v1/login', { name: secret('password as a name'), password }, 400);
  canaries.add(
    'session of a password',
    cookieValue(await openSession(program, { name: 'mia', password })),
  );
  const reset = await ask('POST', '/v1/users/mia/reset');
  canaries.add('reset link', tokenIn(reset.url));
  await ask('POST', '/v1/reset', { token: tokenIn(reset.url), password: secret('new password') });
  await ask('PUT', '/v1/me/password', { password: secret('password of the operator') });
  const made = await ask('POST', '/v1/tokens', { name: 'ci', scopes: ['workloads:read'] });
  canaries.add('API token', made.token ?? '');
  await ask('PUT', '/v1/secrets/hf-token', { value: world.hub.token });
  await ask('PUT', '/v1/secrets/other', { value: secret('another secret') });
  const me = await fetch(`${program.url}/v1/me`, { headers: { cookie } });
  return me.text();
}

/** A launch by a gated model, asked through the gateway. */
async function useEndpoint({ program, canaries }: World): Promise<string> {
  const launched = await program.cli(['launch', 'endpoint', 'hf://einsora/gated', '--json']);
  assert.equal(launched.code, 0, launched.stderr);
  const { key, workload } = JSON.parse(launched.stdout) as {
    key: string;
    workload: { name: string };
  };
  canaries.add('endpoint key', key);
  const prompt = unique('a prompt that nobody else reads');
  canaries.add('prompt', prompt);
  const answer = await fetch(`${program.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: workload.name, messages: [{ role: 'user', content: prompt }] }),
  });
  assert.equal(answer.status, 200, await answer.clone().text());
  await answer.text();
  // What it said on the command line is the user's own: the key is shown there, once.
  return launched.stderr;
}

/** What is given to programs beside a run, and kept in its files. */
async function useInside({ program, canaries }: World): Promise<string> {
  const launched = await program.cli(['launch', 'notebook', '--name', 'inside'], 240_000);
  assert.equal(launched.code, 0, launched.stderr);
  const given = {
    ...{ argument: unique('argument of exec'), variable: unique('variable of exec') },
    ...{ stdin: unique('stdin of exec'), content: unique('content of a file') },
  };
  for (const [name, value] of Object.entries(given)) canaries.add(`${name} given inside`, value);
  await giveInside(program, 'inside', given);
  return launched.stderr;
}

/** Secrets where people put them by mistake: in addresses, names, headers. */
async function misuse({ program, canaries }: World): Promise<string> {
  const said: string[] = [];
  const put = async (name: string, value: string, init: RequestInit & { path: string }) => {
    canaries.add(name, value);
    await fetch(`${program.url}${init.path}`, init).then((answer) => answer.text());
  };
  const owner = readFileSync(join(program.data_dir, 'owner-token'), 'utf8').trim();
  const headers = { authorization: `Bearer ${owner}` };
  const in_path = newToken('tsk_');
  await put('token in a path', in_path, {
    path: `/v1/tokens/${in_path}`,
    method: 'DELETE',
    headers,
  });
  const in_key_path = newToken('ept_');
  const keys = `/v1/workloads/known/keys/${in_key_path}`;
  await put('endpoint key in a path', in_key_path, { path: keys, method: 'DELETE', headers });
  const in_query = newToken('tsk_');
  await put('token in a query', in_query, { path: `/v1/workloads?token=${in_query}` });
  const in_name = newToken('eat_');
  await put('link in an id', in_name, { path: `/v1/requests/${in_name}`, headers });
  const in_gateway = newToken('ept_');
  await put('key in a gateway path', in_gateway, { path: `/v1/models/${in_gateway}` });
  const unknown = newToken('ept_');
  const bearer = { authorization: `Bearer ${unknown}` };
  await put('unknown key', unknown, { path: '/v1/models', headers: bearer });
  const basic = unique('basic');
  const basics = { authorization: `Basic ${Buffer.from(`a:${basic}`).toString('base64')}` };
  await put('basic password', basic, { path: '/v1/me', headers: basics });
  const in_id = newToken('tsk_');
  await put('token as a request id', in_id, {
    path: '/v1/me',
    headers: { ...headers, 'x-request-id': in_id },
  });
  const in_agent = newToken('tsk_');
  await put('token as a browser', in_agent, {
    path: '/v1/me',
    headers: { ...headers, 'user-agent': in_agent },
  });
  return said.join('\n');
}

/** All that can be exported, listed or shown. */
async function readEverything({ program }: World): Promise<string> {
  const texts: string[] = [];
  const ask = asking(program);
  const { items = [] } = await ask('GET', '/v1/workloads?limit=200&deleted=true');
  const lists = ['workloads', 'users', 'tenants', 'invitations', 'tokens', 'sessions', 'secrets'];
  const more = ['machines', 'catalog', 'activity', 'usage', 'model-files', 'openapi.json'];
  for (const name of [...lists, ...more])
    texts.push(JSON.stringify(await ask('GET', `/v1/${name}`)));
  for (const { id } of items) {
    for (const part of ['', '/events', '/logs', '/keys', '/export']) {
      texts.push(JSON.stringify(await ask('GET', `/v1/workloads/${id}${part}`)));
    }
  }
  for (const args of [['audit', 'export'], ['audit', 'ls'], ['doctor'], ['ls'], ['tokens', 'ls']]) {
    const { stdout, stderr } = await program.cli(args);
    texts.push(stdout, stderr);
  }
  return texts.join('\n');
}

function asking(program: Program) {
  return async (method: string, path: string, body?: unknown, least_status = 0): Promise<Body> => {
    const answer = await program.api<Body>(path, {
      method,
      ...(body === undefined ? {} : { body }),
    });
    const told = `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`;
    assert.ok(least_status === 0 ? answer.status < 300 : answer.status >= least_status, told);
    return answer.body;
  };
}

const tokenIn = (url: string | undefined) => /#t=(\S+)$/.exec(url ?? '')?.[1] ?? '';

/** What a backup before an upgrade holds: every row of every table. */
async function dumpOfFolder(folder: string): Promise<string> {
  const transactions_url = new URL('lib/rig-transactions.ts', import.meta.url).href;
  const log = keepingLog([]);
  const store = await openSqliteStore({ folder, transactions_url, transactions, log });
  const lines = await dumpOf(store);
  await store.close();
  assert.ok(lines.some((line) => line.includes('launchWorkload') || line.includes('launch')));
  return lines.join('\n');
}

function findings({ program, canaries, hub }: World, outputs: readonly string[]): Find[] {
  const pids = processesOf(program.pid, program.data_dir);
  assert.ok(pids.length >= 2, 'there is a keeper and an engine to look at');
  const files = hub.requests.filter(({ origin }) => origin === 'files');
  return [
    ...canaries.inFiles(program.data_dir),
    ...canaries.inProcesses(pids),
    ...canaries.inText('the arguments of up', commandLineOf(program.pid)),
    ...canaries.inText('what the file server of the hub was sent', JSON.stringify(files)),
    ...canaries.inText('what was printed or answered', outputs.join('\n')),
    ...canaries.inText('what up printed', program.said()),
  ];
}

function assertNone(found: readonly Find[]): void {
  assert.deepEqual(
    found.map(({ secret, where }) => `${secret} in ${where}`),
    [],
  );
}

/** One secret in a file, spelled otherwise, and in an environment. */
async function showThatItBites(world: World): Promise<void> {
  const { program, canaries } = world;
  const value = unique('planted');
  canaries.add('planted', value);
  const planted = join(program.data_dir, 'planted.log');
  writeFileSync(planted, `{"path":"/x","token":"${Buffer.from(`ab${value}`).toString('base64')}"}`);
  const env = { PLANTED: value, FOLDER: program.data_dir };
  const child = spawnChild('/bin/sleep', ['60'], { env });
  const pid = child.pid ?? 0;
  const found = [...canaries.inFiles(program.data_dir), ...canaries.inProcesses([pid])];
  child.kill('SIGKILL');
  rmSync(planted);
  const places = found.map(({ where }) => where.split(' ')[0]);
  assert.deepEqual(places, ['file', 'environ']);
}
