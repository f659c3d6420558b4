/**
 * How access ends: with its proof, its run, or its time, for all that is open by it; and how a page
 * that waits comes back.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { addUser, select } from '../../test/lib/rig.ts';
import {
  createSiteRig,
  type Notebook,
  raw,
  type SiteRig,
  startProgramServer,
} from '../../test/lib/site-rig.ts';
import { limits } from '../contract/limits.ts';

const given = {} as { site: SiteRig };
const program = await startProgramServer((request, response) => {
  if (request.url !== '/stream') return void response.end('reached');
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('data: 1\n\n');
});
program.server.on('upgrade', (_, socket) => {
  const head = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket';
  socket.write(`${head}\r\n\r\n`);
});
before(async () => {
  given.site = await createSiteRig();
  given.site.dial.now = program.dial;
});
after(async () => {
  await given.site.close();
  await program.close();
});

type Held = { lab: Notebook; cookie: string; stream: Promise<void>; socket: Promise<void> };

/** An event stream and a WebSocket that are open; each promise is of its end. */
async function hold(headers?: Record<string, string>, left_ms?: number): Promise<Held> {
  const { site } = given;
  const lab = await site.addNotebook();
  const cookie = await site.open(lab, headers);
  if (left_ms !== undefined) {
    const text = 'update access_sessions set expires_at = $2 where workload_id = $1';
    const params = [lab.id, site.rig.clock.now() + left_ms];
    await site.rig.store.transact('write', { text, params });
  }
  const request = httpRequest({
    ...{ host: '127.0.0.1', port: site.port, path: '/stream', agent: false },
    headers: { host: lab.host, cookie },
  });
  request.on('error', () => {});
  request.end();
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  assert.equal(answer.statusCode, 200);
  answer.on('error', () => {});
  answer.resume();
  const stream = new Promise<void>((resolve) =>
    answer.once('close', () => {
      assert.equal(answer.complete, false, 'a stream that was cut does not look whole');
      resolve();
    }),
  );
  const client = connect(site.port, '127.0.0.1');
  const lines = [
    ...['GET /socket HTTP/1.1', `Host: ${lab.host}`, `Cookie: ${cookie}`, `Origin: ${lab.origin}`],
    ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  ];
  client.write(`${[...lines, '', ''].join('\r\n')}`);
  const [first] = await once(client, 'data');
  assert.match(String(first), /^HTTP\/1\.1 101/);
  client.on('error', () => {});
  client.resume();
  const socket = new Promise<void>((resolve) => client.once('close', () => resolve()));
  return { lab, cookie, stream, socket };
}

const visit = ({ lab, cookie }: Pick<Held, 'lab' | 'cookie'>, path = '/', lines: string[] = []) =>
  raw(given.site.port, [
    `GET ${path} HTTP/1.1`,
    `Host: ${lab.host}`,
    `Cookie: ${cookie}`,
    ...lines,
  ]);

/** All of it ends within a second of the clock, and a new request finds no access. */
async function endsAfter(held: Held, status: number, act: () => Promise<unknown>): Promise<void> {
  assert.equal((await visit(held)).status, 200);
  await act();
  await given.site.rig.clock.advance(999);
  await Promise.all([held.stream, held.socket]);
  assert.equal((await visit(held)).status, status);
}

async function member() {
  const { rig } = given.site;
  const name = `u${rig.random.bytes(4).join('')}`;
  return { ...(await addUser(rig.store, rig.random, { ...rig.ids, name, role: 'member' })), name };
}

const operator = () => ({ authorization: `Bearer ${given.site.rig.token}` });

test('logging out ends what the session had opened', async () => {
  const { site } = given;
  const { cookie } = await site.addSession((await member()).user_id);
  const headers = { cookie, origin: site.origin, 'sec-fetch-site': 'same-origin' };
  const held = await hold(headers);
  await endsAfter(held, 401, async () => {
    assert.equal((await site.ask('DELETE', '/v1/session', headers)).status, 204);
  });
});

test('revoking a token ends what was opened by it, and its unused tickets', async () => {
  const { site } = given;
  const user = await member();
  const headers = { authorization: `Bearer ${user.token}` };
  const held = await hold(headers);
  const ticket = await site.ticketFor(held.lab, headers);
  await endsAfter(held, 401, async () => {
    const gone = await site.ask('DELETE', `/v1/tokens/${user.token_id}`, operator());
    assert.equal(gone.status, 204, gone.text);
  });
  assert.equal((await site.redeem(held.lab.host, ticket)).status, 401);
});

test('disabling a user, or taking their role, ends what they had open', async () => {
  const { site } = given;
  for (const [method, path, body] of [
    ['POST', 'disable', undefined],
    ['PUT', 'role', { role: 'viewer' }],
  ] as const) {
    const user = await member();
    const held = await hold({ authorization: `Bearer ${user.token}` });
    const route = `/v1/users/${user.name}/${path}`;
    await endsAfter(held, 401, async () => {
      const done = await site.ask(method, route, operator(), body);
      assert.equal(done.status, 200, done.text);
    });
  }
});

test('a stop ends it, and so does a new run; others go on', async () => {
  const { site } = given;
  const bystander = await hold();
  const stopped = await hold();
  await endsAfter(stopped, 503, () => site.move(stopped.lab, 'stopping'));
  const replaced = await hold();
  await endsAfter(replaced, 503, () => site.move(replaced.lab, 'running', 2));
  const open = await Promise.race([bystander.stream, Promise.resolve('open')]);
  assert.equal(open, 'open');
  assert.equal((await visit(bystander)).status, 200);
});

test('when its time is over, all of it is', async () => {
  const { site } = given;
  const lab = await site.addNotebook();
  await site.open(lab);
  const find =
    'select expires_at - created_at as lasts from access_sessions where workload_id = $1';
  assert.deepEqual(await select(site.rig.store, find, [lab.id]), [
    { lasts: limits.access_session_ms },
  ]);
  const held = await hold(undefined, 5000);
  assert.equal((await visit(held)).status, 200);
  await site.rig.clock.advance(5000);
  await Promise.all([held.stream, held.socket]);
  assert.equal((await visit(held)).status, 401);
});

test('a page that was left open waits through a stop, and follows to the next run', async () => {
  const { site } = given;
  const lab = await site.addNotebook();
  const held = { lab, cookie: await site.open(lab) };
  const person = ['Sec-Fetch-Mode: navigate', 'Sec-Fetch-Site: none', 'Sec-Fetch-Dest: document'];
  const state = async () => JSON.parse((await visit(held, '/.einsora/state')).body);
  const again = (lines: string[]) =>
    raw(site.port, [
      ...['POST /.einsora/again HTTP/1.1', `Host: ${lab.host}`, `Cookie: ${held.cookie}`],
      ...['Content-Length: 0', ...lines],
    ]);
  const own = [`Origin: ${lab.origin}`, 'Sec-Fetch-Site: same-origin'];
  await visit(held);
  const said: [string, string][] = [
    ['stopping', 'is stopping'],
    ['stopped', 'is stopped'],
    ['queued', 'is queued'],
    ['provisioning', 'is provisioning'],
  ];
  for (const [to, text] of said) {
    await site.move(lab, to);
    await site.rig.clock.advance(999);
    const page = await visit(held, '/lab', person);
    assert.equal(page.status, 503);
    assert.match(page.body, new RegExp(`${lab.name}.*${text}`, 's'));
    assert.match(page.head, /retry-after: 2/i);
    assert.match(page.head, /script-src 'sha256-/);
    assert.deepEqual(await state(), {
      state: to,
      is_ready: false,
      message: `${lab.name} ${text}, so its page is not there.`,
    });
    assert.equal((await again(own)).status, 503, 'there is nothing to follow to');
    const json = await visit(held, '/api/kernels');
    assert.match(json.body, /"code":"site_not_ready"/);
  }
  await site.move(lab, 'running', 2);
  assert.equal((await visit(held)).status, 503, 'the old access does not open the new run');
  assert.equal((await state()).is_ready, true);
  assert.equal((await again([])).status, 403);
  assert.equal((await again(['Origin: http://evil.example'])).status, 403);
  assert.equal((await again(own)).status, 204);
  assert.equal((await visit(held)).body.includes('reached'), true);
  assert.equal(site.dialled.at(-1), `${lab.id}.0.2 web`);
});

test('what was deleted is not there any more, whoever waits', async () => {
  const { site } = given;
  const lab = await site.addNotebook();
  const held = { lab, cookie: await site.open(lab) };
  await site.move(lab, 'deleted');
  assert.equal((await visit(held)).status, 404);
});

test('what is not used is forgotten, and found again', async () => {
  const { site } = given;
  const { clock, apiDeps } = site.rig;
  await clock.advance(300_000);
  const before_count = apiDeps.revocations.watching();
  const lab = await site.addNotebook();
  const held = { lab, cookie: await site.open(lab) };
  await visit(held);
  assert.equal(apiDeps.revocations.watching(), before_count + 1);
  await clock.advance(180_000);
  assert.equal(apiDeps.revocations.watching(), before_count);
  assert.equal((await visit(held)).status, 200);
});
