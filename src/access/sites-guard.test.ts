/**
 * Who is let in to a site, over raw sockets: hosts, cookies, other sites, WebSockets, and messages
 * that mean different things to different readers.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  createSiteRig,
  type Notebook,
  raw,
  type SiteRig,
  startProgramServer,
  startRawProgram,
} from '../../test/lib/site-rig.ts';

const given = {} as { site: SiteRig; lab: Notebook; other: Notebook; cookie: string };
const reached: string[] = [];
const program = await startProgramServer((request, response) => {
  reached.push(`${request.method} ${request.url}`);
  response.end('reached');
});
program.server.on('upgrade', (request, socket) => {
  reached.push(`upgrade ${request.url}`);
  socket.end(
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  );
});

before(async () => {
  const site = await createSiteRig();
  site.dial.now = program.dial;
  const [lab, other] = [await site.addNotebook(), await site.addNotebook()];
  Object.assign(given, { site, lab, other, cookie: await site.open(lab) });
});
after(async () => {
  await given.site.close();
  await program.close();
});

const send = (method: string, lines: string[], body = '', host = given.lab.host) => {
  reached.splice(0);
  return raw(given.site.port, [`${method} /x HTTP/1.1`, `Host: ${host}`, ...lines], body);
};
const withCookie = () => `Cookie: ${given.cookie}`;

test('without its cookie nothing is reached, and what exists is not told', async () => {
  const { site, lab, other, cookie } = given;
  const value = cookie.split('=')[1] ?? '';
  const session = await site.addSession();
  const unknown = `w-${lab.id.slice(0, 20)}zzzzzz.localhost:${site.port}`;
  const cases: [string, string, string[]][] = [
    ['nothing', lab.host, []],
    ['of another site', other.host, [withCookie()]],
    ['of another port', lab.host, [`Cookie: einsora_access_1=${value}`]],
    ['a session of the dashboard', lab.host, [`Cookie: ${session.cookie}`]],
    [
      'its value by that name',
      lab.host,
      [`Cookie: ${cookie.split('=')[0]}=${session.cookie.split('=')[1]}`],
    ],
    ['a bearer token', lab.host, [`Authorization: Bearer ${site.rig.token}`]],
    ['a workload that is not', unknown, [withCookie()]],
    ['a wrong value', lab.host, [`${withCookie()}x`]],
  ];
  for (const [what, host, lines] of cases) {
    const answer = await send('GET', lines, '', host);
    assert.equal(answer.status, 401, what);
    assert.match(answer.body, /"code":"access_needed"/, what);
    assert.deepEqual(reached, [], what);
  }
  const page = await send('GET', ['Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: document']);
  assert.match(page.body, new RegExp(`href="http://localhost:${site.port}/open/${lab.id}"`));
  assert.match(page.head, /content-type: text\/html/);
  assert.doesNotMatch(page.body, /location|<script/, 'never sent on without a click');
});

test('a cookie that a page of the site added beside ours locks nobody out', async () => {
  const name = given.cookie.split('=')[0];
  const tossed = [
    `Cookie: ${name}=FAKE; ${given.cookie}`,
    `Cookie: ${given.cookie}; ${name}=${'x'.repeat(43)}`,
  ];
  for (const line of tossed) {
    assert.equal((await send('GET', [line])).body.includes('reached'), true, line);
  }
});

test('nested names, a trailing dot and other spellings are nobody here', async () => {
  const { site, lab } = given;
  const hosts = [
    `x.${lab.host}`,
    `w-${lab.id}.localhost.:${site.port}`,
    `w-${lab.id}.localhost:${site.port + 1}`,
    `w-${lab.id}.localhost`,
    `w-${lab.id}x.localhost:${site.port}`,
    `w-${lab.id.slice(1)}.localhost:${site.port}`,
    `w-${lab.id}.evil.example:${site.port}`,
    `w-${lab.id}.localhost.evil.example:${site.port}`,
    `w-${lab.id}.127.0.0.1:${site.port}`,
    `-${lab.id}.localhost:${site.port}`,
    `user@${lab.host}`,
  ];
  for (const host of hosts) {
    const answer = await send('GET', [withCookie()], '', host);
    assert.ok([400, 421].includes(answer.status), `${host}: ${answer.status}`);
    assert.deepEqual(reached, [], host);
  }
  assert.equal((await send('GET', [withCookie()], '', lab.host.toUpperCase())).status, 200);
  const two = await raw(site.port, [
    'GET / HTTP/1.1',
    `Host: ${lab.host}`,
    `Host: ${lab.host}`,
    withCookie(),
  ]);
  assert.ok([400, 421].includes(two.status));
  const absolute = await raw(site.port, [
    `GET http://${given.other.host}/ HTTP/1.1`,
    `Host: ${lab.host}`,
    withCookie(),
  ]);
  assert.equal(absolute.status, 421);
});

test('a write comes from a page of the site itself, by Origin and Sec-Fetch-Site', async () => {
  const { site, lab, other } = given;
  const length = 'Content-Length: 0';
  const refused: string[][] = [
    [],
    [`Origin: ${other.origin}`],
    [`Origin: ${site.origin}`],
    ['Origin: null'],
    ['Origin: http://evil.example'],
    [`Origin: ${lab.origin}`, 'Sec-Fetch-Site: cross-site'],
    [`Origin: ${lab.origin}`, 'Sec-Fetch-Site: same-site'],
    [`Origin: ${lab.origin}`, 'Sec-Fetch-Site: none'],
    [`Origin: ${lab.origin}`, `Origin: ${lab.origin}`],
    [`Origin: ${lab.origin}.evil.example`],
    ['Sec-Fetch-Site: same-origin'],
  ];
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    for (const lines of refused) {
      const answer = await send(method, [withCookie(), length, ...lines]);
      assert.equal(answer.status, 403, `${method} ${lines}`);
      assert.deepEqual(reached, []);
    }
    const good = [`Origin: ${lab.origin}`, 'Sec-Fetch-Site: same-origin'];
    assert.equal((await send(method, [withCookie(), length, ...good])).status, 200, method);
    assert.equal((await send(method, [withCookie(), length, `Origin: ${lab.origin}`])).status, 200);
  }
});

test('of what another site causes, only a visit in a tab of its own is let in', async () => {
  const cases: [string[], number][] = [
    [['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: document'], 200],
    [['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: empty'], 200],
    [['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: iframe'], 403],
    [['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: no-cors', 'Sec-Fetch-Dest: script'], 403],
    [['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: cors', 'Sec-Fetch-Dest: empty'], 403],
    [['Sec-Fetch-Site: same-site', 'Sec-Fetch-Mode: no-cors', 'Sec-Fetch-Dest: image'], 403],
    [['Sec-Fetch-Site: same-origin', 'Sec-Fetch-Mode: cors'], 200],
    [['Sec-Fetch-Site: none', 'Sec-Fetch-Mode: navigate', 'Sec-Fetch-Dest: document'], 200],
    [[], 200],
  ];
  for (const [lines, wanted] of cases) {
    assert.equal((await send('GET', [withCookie(), ...lines])).status, wanted, String(lines));
  }
});

const handshake = (lines: string[]) =>
  send('GET', [
    ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
    ...['Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==', ...lines],
  ]);

test('a WebSocket says the exact Origin, has the cookie, and nothing is dialled before', async () => {
  const { site, lab, other } = given;
  const dialled = site.dialled.length;
  const refused: [string[], number][] = [
    [[withCookie()], 403],
    [[withCookie(), `Origin: ${other.origin}`], 403],
    [[withCookie(), `Origin: ${site.origin}`], 403],
    [[withCookie(), 'Origin: null'], 403],
    [[withCookie(), `Origin: ${lab.origin.toUpperCase()}`], 403],
    [[withCookie(), `Origin: ${lab.origin}`, `Origin: ${lab.origin}`], 403],
    [[withCookie(), `Origin: ${lab.origin}`, 'Sec-Fetch-Site: cross-site'], 403],
    [[`Origin: ${lab.origin}`], 401],
    [[`Origin: ${lab.origin}`, `Authorization: Bearer ${site.rig.token}`], 401],
  ];
  for (const [lines, wanted] of refused) {
    assert.equal((await handshake(lines)).status, wanted, String(lines));
  }
  assert.equal(site.dialled.length, dialled);
  const good = await handshake([withCookie(), `Origin: ${lab.origin}`]);
  assert.equal(good.status, 101);
  assert.deepEqual(reached, ['upgrade /x']);
});

test('what is no 101 of the program is none for the browser, and ends the connection', async () => {
  const { site, lab } = given;
  const answers = [
    ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno', 200],
    ['HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n', 403],
    ['', 502],
  ] as const;
  for (const [text, wanted] of answers) {
    const refusing = await startRawProgram((socket) => socket.once('data', () => socket.end(text)));
    site.dial.now = refusing.dial;
    const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n';
    const answer = await raw(
      site.port,
      [
        ...['GET /x HTTP/1.1', `Host: ${lab.host}`, withCookie(), `Origin: ${lab.origin}`],
        ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
        'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
      ],
      smuggled,
    );
    assert.equal(answer.status, wanted);
    assert.equal(answer.text.split('HTTP/1.1').length, 2, 'one answer, then the end');
    await refusing.close();
  }
  site.dial.now = program.dial;
});

test('an upgrade to anything else is none', async () => {
  const h2c = [
    'Connection: Upgrade, HTTP2-Settings',
    'Upgrade: h2c',
    'HTTP2-Settings: AAMAAABkAAQ',
  ];
  const seen: string[] = [];
  const listening = await startProgramServer((request, response) => {
    seen.push(...request.rawHeaders.map((one) => one.toLowerCase()));
    response.end('plain');
  });
  given.site.dial.now = listening.dial;
  const answer = await send('GET', [withCookie(), ...h2c]);
  assert.equal(answer.status, 200);
  assert.equal(seen.includes('upgrade') || seen.includes('http2-settings'), false);
  given.site.dial.now = program.dial;
  await listening.close();
});

test('a message that two readers could frame in two ways gets nowhere', async () => {
  const { lab } = given;
  const origin = `Origin: ${lab.origin}`;
  const inner = 'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n';
  const bad: [string, string[], string][] = [
    ['both lengths', ['Content-Length: 5', 'Transfer-Encoding: chunked'], `0\r\n\r\n${inner}`],
    ['two lengths', ['Content-Length: 0', `Content-Length: ${inner.length}`], inner],
    ['a list of lengths', ['Content-Length: 0, 0'], inner],
    ['a signed length', ['Content-Length: +5'], 'hello'],
    ['a length with a space', ['Content-Length : 5'], 'hello'],
    ['a folded header', ['X-A: b\r\n Content-Length: 5'], 'hello'],
    ['a bare line feed', ['X-A: b\nContent-Length: 5'], 'hello'],
    ['a bare return', ['X-A: b\rContent-Length: 5'], 'hello'],
    ['a null', ['X-A: b\0c'], ''],
    ['another coding', ['Transfer-Encoding: gzip, chunked'], `0\r\n\r\n${inner}`],
    [
      'a coding twice',
      ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
      `0\r\n\r\n${inner}`,
    ],
    ['a coding that is none', ['Transfer-Encoding: xchunked'], `0\r\n\r\n${inner}`],
    ['a coding not last', ['Transfer-Encoding: chunked, identity'], `0\r\n\r\n${inner}`],
    ['a chunk without a size', ['Transfer-Encoding: chunked'], `zz\r\n\r\n${inner}`],
    ['a chunk too long', ['Transfer-Encoding: chunked'], `2\r\nabc\r\n0\r\n\r\n${inner}`],
  ];
  for (const [what, lines, body] of bad) {
    const answer = await send('POST', [withCookie(), origin, ...lines], body);
    assert.ok(
      [400, 501, 502].includes(answer.status) || answer.status === 0,
      `${what}: ${answer.status}`,
    );
    assert.equal(
      reached.some((one) => one.includes('smuggled')),
      false,
      what,
    );
  }
});

test('a header cannot be added by what is in another', async () => {
  const answer = await send('GET', [withCookie(), 'X-A: b\r\nAuthorization: Basic x']);
  assert.equal(answer.status, 200);
  const long = await send('GET', [withCookie(), `X-Long: ${'a'.repeat(20_000)}`]);
  assert.equal(long.status, 431);
});

test('what is below /.einsora is ours, however it is asked', async () => {
  const { site, lab } = given;
  for (const path of [
    '/.einsora',
    '/.einsora/',
    '/.einsora/x',
    '/.einsora?x=1',
    '/.einsora/open/x',
  ]) {
    reached.splice(0);
    const answer = await raw(site.port, [
      `GET ${path} HTTP/1.1`,
      `Host: ${lab.host}`,
      withCookie(),
    ]);
    assert.equal(answer.status, 404, path);
    assert.deepEqual(reached, [], path);
  }
  const theirs = await raw(site.port, [
    'GET /.einsorax HTTP/1.1',
    `Host: ${lab.host}`,
    withCookie(),
  ]);
  assert.equal(theirs.status, 200);
});
