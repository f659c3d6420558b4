/**
 * The real program with a real notebook, opened by tickets and used by cookies: afterwards none of
 * these secrets is in the store, a log, a file or a process, the notebook's own among them.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeToken } from '../src/core/token.ts';
import { systemRandom } from '../src/lib/random.ts';
import { type Canaries, commandLineOf, createCanaries, processesOf } from './lib/canary.ts';
import { needs } from './lib/parts.ts';
import { cleanUp, type Program, startProgram, temporaryFolder } from './lib/program.ts';

type Told = { status: number; cookie: string; text: string };

const parts = { ...needs('python', 'bwrap', 'cgroup'), timeout: 300_000 };

test('no ticket and no cookie of a site is where it does not belong', parts, async () => {
  const data_dir = temporaryFolder();
  const env = { EINSORA_LOG: 'trace' };
  const program = await startProgram({ data_dir, env });
  const canaries = createCanaries();
  try {
    const lab = await launch(program);
    const said = await useSite(program, canaries, lab);
    assert.ok(canaries.names().length >= 7, canaries.names().join());
    const opened = await program.cli(['open', 'lab', '--no-browser']);
    canaries.add('sign-in link of open', /#t=([^&]+)&/.exec(opened.stdout)?.[1] ?? '');
    const shown = await readEverything(program, lab.id);
    const found = [
      ...canaries.inFiles(data_dir),
      ...canaries.inProcesses(processesOf(program.pid, data_dir)),
      ...canaries.inText('the arguments of up', commandLineOf(program.pid)),
      ...canaries.inText('what up printed', program.said()),
      ...canaries.inText('what was answered', said.join('\n')),
      ...canaries.inText('what is shown', shown),
    ];
    assert.deepEqual(
      found.map(({ secret, where }) => `${secret} in ${where}`),
      [],
    );
    const log = readFileSync(join(data_dir, 'einsora.log'), 'utf8');
    assert.match(log, /a ticket was used/, 'it is said that one was used');
  } finally {
    await cleanUp(data_dir, program);
  }
});

type Lab = { id: string; host: string; origin: string };

async function launch(program: Program): Promise<Lab> {
  const made = await program.cli(['launch', 'notebook', '--name', 'lab', '--json'], 240_000);
  assert.equal(made.code, 0, made.stderr);
  const { body } = await program.api<{ id: string }>('/v1/workloads/lab');
  const host = `w-${body.id}.localhost:${new URL(program.url).port}`;
  return { id: body.id, host, origin: `http://${host}` };
}

/** Tickets that are spent, unspent, late to come and put where they do not belong; cookies too. */
async function useSite(program: Program, canaries: Canaries, lab: Lab): Promise<string[]> {
  const said: string[] = [];
  const ticket = async (name: string) => {
    const made = await program.api<{ url: string }>(`/v1/workloads/lab/access`, { method: 'POST' });
    assert.equal(made.status, 201);
    const value = /#t=(\S+)$/.exec(made.body.url)?.[1] ?? '';
    canaries.add(name, value);
    return value;
  };
  const at = async (method: string, path: string, headers: Record<string, string>, body = '') => {
    const told = await tell(program, lab, { method, path, headers, body });
    said.push(told.text);
    return told;
  };
  const own = { origin: lab.origin, 'sec-fetch-site': 'same-origin' };
  const json = { ...own, 'content-type': 'application/json' };
  await ticket('unspent ticket');
  const spent = await ticket('spent ticket');
  const redeemed = await at('POST', '/.einsora/open', json, JSON.stringify({ ticket: spent }));
  assert.equal(redeemed.status, 204);
  canaries.add('cookie of access', redeemed.cookie.split('=')[1] ?? '');
  assert.equal((await at('GET', '/api/status', { cookie: redeemed.cookie })).status, 200);
  const replayed = await at('POST', '/.einsora/open', json, JSON.stringify({ ticket: spent }));
  assert.equal(replayed.status, 401);
  // Where people and programs put them by mistake.
  await at('GET', `/.einsora/open?t=${await ticket('ticket in a query')}`, {});
  await at('GET', `/.einsora/${await ticket('ticket in a path')}`, {});
  const in_header = await ticket('ticket in a header');
  await at('GET', '/api/status', {
    authorization: `Bearer ${in_header}`,
    'x-request-id': in_header,
  });
  const made_up = makeToken('eat_', systemRandom.bytes(32));
  canaries.add('made up ticket', made_up);
  await at('POST', '/.einsora/open', json, JSON.stringify({ ticket: made_up }));
  await program.api(`/v1/workloads/${await ticket('ticket as a name')}/access`, { method: 'POST' });
  return said;
}

function tell(
  program: Program,
  lab: Lab,
  ask: { method: string; path: string; headers: Record<string, string>; body: string },
): Promise<Told> {
  const { method, path, headers, body } = ask;
  const port = Number(new URL(program.url).port);
  return new Promise((resolve, reject) => {
    const length = body === '' ? {} : { 'content-length': Buffer.byteLength(body) };
    const request = httpRequest({
      ...{ host: '127.0.0.1', port, method, path, agent: false },
      headers: { ...headers, host: lab.host, ...length },
    });
    request.on('error', reject);
    request.on('response', async (answer) => {
      const text = String(Buffer.concat(await answer.toArray()));
      const [set = ''] = answer.headers['set-cookie'] ?? [];
      resolve({ status: answer.statusCode ?? 0, cookie: set.split(';')[0] ?? '', text });
    });
    request.end(body);
  });
}

async function readEverything(program: Program, id: string): Promise<string> {
  const texts: string[] = [];
  const paths = ['activity', 'sessions', 'tokens', 'workloads', 'usage', `workloads/${id}/export`];
  for (const path of [...paths, `workloads/${id}/events`, `workloads/${id}/logs`]) {
    texts.push(JSON.stringify((await program.api(`/v1/${path}`)).body));
  }
  for (const args of [['audit', 'export'], ['ls'], ['show', 'lab'], ['events', 'lab']]) {
    const { stdout, stderr } = await program.cli(args);
    texts.push(stdout, stderr);
  }
  return texts.join('\n');
}
