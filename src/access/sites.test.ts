/**
 * The access proxy over real sockets: what gets through, what does not, and how it ends.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { duplexPair } from 'node:stream';
import { after, before, test } from 'node:test';
import {
  createSiteRig,
  type Notebook,
  parseAnswer,
  raw,
  type SiteRig,
  startProgramServer,
  startRawProgram,
} from '../../test/lib/site-rig.ts';

const given = {} as { site: SiteRig; lab: Notebook; cookie: string };
before(async () => {
  const site = await createSiteRig();
  const lab = await site.addNotebook();
  Object.assign(given, { site, lab, cookie: await site.open(lab) });
});
after(() => given.site.close());

const get = (path: string, lines: string[] = [], cookie = given.cookie) =>
  raw(given.site.port, [
    `GET ${path} HTTP/1.1`,
    `Host: ${given.lab.host}`,
    `Cookie: ${cookie}`,
    ...lines,
  ]);

test('a request goes to the run, with its token, and nothing of ours', async () => {
  const seen: { url: string | undefined; headers: string[] }[] = [];
  const program = await startProgramServer((request, response) => {
    seen.push({ url: request.url, headers: request.rawHeaders });
    response.writeHead(200, { 'content-type': 'text/plain', 'x-mine': 'a' }).end('hello');
  });
  given.site.dial.now = program.dial;
  const answer = await get('/lab/tree?x=1&y=%2e%2e', [
    'Cookie: a=b; einsora_session_1=stolen; __Host-einsora_access_9=x; c=d',
    'Authorization: Basic abc',
    'X-Forwarded-For: 1.2.3.4',
    'X-Real-IP: 1.2.3.4',
    'Forwarded: for=1.2.3.4',
    'X-Einsora-Tenant: root',
    'X-Request-ID: mine',
    'Proxy-Authorization: Basic abc',
    'TE: trailers',
    'X-Hop: 1',
    'X-Kept: 1',
    'Connection: X-Hop',
  ]);
  assert.equal(answer.status, 200);
  assert.equal(answer.body.includes('hello'), true);
  assert.match(answer.head, /^x-mine: a\r$/m);
  const [one] = seen;
  assert.equal(one?.url, '/lab/tree?x=1&y=%2e%2e');
  const pairs = new Map<string, string>();
  for (let at = 0; at < (one?.headers.length ?? 0); at += 2) {
    pairs.set(String(one?.headers[at]).toLowerCase(), String(one?.headers[at + 1]));
  }
  assert.equal(pairs.get('host'), given.lab.host);
  assert.equal(pairs.get('authorization'), `token token-of-${given.lab.id}.0.1`);
  assert.equal(pairs.get('cookie'), 'a=b; c=d');
  assert.match(pairs.get('x-request-id') ?? '', /^[0-9a-z]{26}$/);
  assert.equal(pairs.get('x-kept'), '1');
  for (const name of ['x-forwarded-for', 'x-real-ip', 'forwarded', 'x-einsora-tenant', 'x-hop']) {
    assert.equal(pairs.has(name), false, name);
  }
  assert.equal(pairs.has('proxy-authorization') || pairs.has('te'), false);
  assert.deepEqual(given.site.dialled, [`${given.lab.id}.0.1 web`]);
  assert.ok(given.site.touched.includes(given.lab.id));
  await program.close();
});

test('an answer comes without what reaches past the site', async () => {
  const program = await startProgramServer((_, response) => {
    response.writeHead(200, [
      ...['Set-Cookie', 'own=1; Path=/', 'Set-Cookie', 'wide=1; Domain=localhost'],
      ...['Set-Cookie', 'wide2=1; domain = w.localhost', 'Set-Cookie', 'einsora_access_1=x'],
      ...[
        'set-cookie',
        ' __Host-einsora_session_1=x; Secure',
        'Strict-Transport-Security',
        'max-age=1',
      ],
      ...['Alt-Svc', 'h3=":1"', 'Access-Control-Allow-Origin', '*'],
      ...['Access-Control-Allow-Credentials', 'true', 'Cross-Origin-Opener-Policy', 'unsafe-none'],
      ...['Content-Security-Policy', 'frame-ancestors *', 'X-Einsora-Served-By', 'me', 'ETag', 'a'],
      ...['Content-Length', '2'],
    ]);
    response.end('ok');
  });
  given.site.dial.now = program.dial;
  const { head } = await get('/');
  const cookies = head.match(/^set-cookie: .*$/gim) ?? [];
  assert.deepEqual(
    cookies,
    ['Set-Cookie: own=1; Path=/\r'].map((line) => line.trimEnd()),
  );
  for (const gone of [
    'strict-transport',
    'alt-svc',
    'access-control',
    'x-einsora',
    'unsafe-none',
  ]) {
    assert.equal(head.toLowerCase().includes(gone), false, gone);
  }
  assert.match(head, /^content-security-policy: frame-ancestors 'self'\r$/m);
  assert.match(head, /^cross-origin-resource-policy: same-origin\r$/m);
  assert.match(head, /^cross-origin-opener-policy: same-origin\r$/m);
  assert.match(head, /^referrer-policy: same-origin\r$/m);
  assert.match(head, /^ETag: a\r$/m);
  await program.close();
});

test('an answer that is cut never looks whole', async () => {
  for (const head of ['Content-Length: 100\r\n', 'Transfer-Encoding: chunked\r\n']) {
    const program = await startRawProgram((socket) => {
      socket.once('data', () => {
        const part = head.startsWith('T') ? '5\r\nhello\r\n' : 'hello';
        socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n${part}`, () => socket.destroy());
      });
    });
    given.site.dial.now = program.dial;
    const answer = await get('/cut');
    assert.equal(answer.status, 200);
    assert.match(answer.body, /hello/);
    assert.doesNotMatch(answer.body, /\r\n0\r\n/);
    await program.close();
  }
});

test('what the program does not answer is told by hop, to a person as a page', async () => {
  given.site.dial.now = () => Promise.reject(new Error('it is not open yet'));
  const page = await get('/', ['Sec-Fetch-Mode: navigate', 'Sec-Fetch-Site: none']);
  assert.equal(page.status, 502);
  assert.match(page.body, /<li class="bad">\S+ program/);
  assert.match(page.head, /^content-type: text\/html/m);
  assert.match(page.body, /it is not open yet/);
  const json = await get('/api/status');
  assert.equal(json.status, 502);
  assert.match(json.body, /"code":"site_program_unreachable"/);
  const offline = Object.assign(new Error('gone'), { code: 'machine_offline' });
  given.site.dial.now = () => Promise.reject(offline);
  assert.match((await get('/api')).body, /"code":"site_machine_unreachable"/);
});

test('a WebSocket is a pipe both ways, after a 101 of the program alone', async () => {
  const program = await startRawProgram((socket) => {
    socket.once('data', (data) => {
      if (!data.includes('Upgrade: websocket') && !/upgrade: websocket/i.test(data.toString())) {
        socket.end('HTTP/1.1 400 No\r\n\r\n');
        return;
      }
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst',
      );
      socket.on('data', (more) => socket.write(`echo:${more}`));
    });
  });
  given.site.dial.now = program.dial;
  const socket = connect(given.site.port, '127.0.0.1');
  socket.setEncoding('latin1');
  let text = '';
  const until = (what: string) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (!text.includes(what)) return;
        socket.off('data', look);
        resolve();
      };
      socket.on('data', look);
      look();
    });
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.write(
    [
      'GET /api/kernels HTTP/1.1',
      `Host: ${given.lab.host}`,
      `Cookie: ${given.cookie}`,
      `Origin: ${given.lab.origin}`,
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
      'Sec-WebSocket-Version: 13',
      '',
      '',
    ].join('\r\n'),
  );
  await until('first');
  assert.equal(parseAnswer(text).status, 101);
  socket.write('hello');
  await until('echo:hello');
  const [theirs] = program.sockets;
  const gone = new Promise((resolve) => theirs?.once('close', resolve));
  socket.destroy();
  await gone;
  await program.close();
});

test('what is dialled may be any stream: a tunnel has no sockets', async () => {
  const server = createServer((_, response) => void response.end('out of a tunnel'));
  server.on('upgrade', (_, socket) => {
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello',
    );
    socket.on('error', () => {});
    socket.end();
  });
  given.site.dial.now = async () => {
    const [near, far] = duplexPair();
    server.emit('connection', far);
    return near;
  };
  const fresh = await given.site.addNotebook();
  const cookie = await given.site.open(fresh);
  const ask = (lines: string[]) =>
    raw(given.site.port, ['GET / HTTP/1.1', `Host: ${fresh.host}`, `Cookie: ${cookie}`, ...lines]);
  for (let count = 0; count < 2; count += 1) {
    assert.match((await ask([])).body, /out of a tunnel/);
  }
  assert.equal(given.site.dialled.filter((one) => one.startsWith(fresh.id)).length, 1);
  const shaken = await ask([
    ...[`Origin: ${fresh.origin}`, 'Connection: Upgrade', 'Upgrade: websocket'],
    ...['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='],
  ]);
  assert.equal(shaken.status, 101);
  assert.match(shaken.body, /hello/);
});
