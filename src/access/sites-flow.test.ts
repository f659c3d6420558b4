/**
 * How bytes go through a site: streams, ranges, trailers, early answers, gigabytes; and who leaves.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage, type RequestListener } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { settle } from '../../test/lib/fake-clock.ts';
import {
  createSiteRig,
  type Notebook,
  raw,
  type SiteRig,
  startProgramServer,
  startRawProgram,
} from '../../test/lib/site-rig.ts';
import { systemClock } from '../lib/clock.ts';

const given = {} as { site: SiteRig; lab: Notebook; cookie: string };
before(async () => {
  const site = await createSiteRig({ clock: systemClock });
  const lab = await site.addNotebook();
  // The rig's ids and sessions are of its own clock, which stands in the future of this one.
  Object.assign(given, { site, lab, cookie: await site.open(lab) });
});
after(() => given.site.close());

async function served(listener: RequestListener, body: () => Promise<void>): Promise<void> {
  const program = await startProgramServer(listener);
  given.site.dial.now = program.dial;
  try {
    await body();
  } finally {
    await program.close();
  }
}

async function scripted(serve: (socket: Socket) => void, body: () => Promise<void>): Promise<void> {
  const program = await startRawProgram(serve);
  given.site.dial.now = program.dial;
  try {
    await body();
  } finally {
    await program.close();
  }
}

const lines = (method: string, path: string, more: string[] = []) => [
  `${method} ${path} HTTP/1.1`,
  `Host: ${given.lab.host}`,
  `Cookie: ${given.cookie}`,
  `Origin: ${given.lab.origin}`,
  ...more,
];
const get = (path: string, more: string[] = []) => raw(given.site.port, lines('GET', path, more));

/** A client of Node's, for bodies that are long. */
function ask(method: string, path: string, headers: Record<string, string | number> = {}) {
  return httpRequest({
    ...{ host: '127.0.0.1', port: given.site.port, method, path, agent: false },
    headers: {
      ...{ host: given.lab.host, cookie: given.cookie, origin: given.lab.origin },
      ...headers,
    },
  });
}

async function answerOf(request: ReturnType<typeof ask>): Promise<IncomingMessage> {
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  return answer;
}

test('an event stream comes as it is written: its head first, then each event', async () => {
  const say: { text(chunk: string): void } = { text: () => {} };
  await served(
    (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      say.text = (chunk) => void response.write(chunk);
    },
    async () => {
      const request = ask('GET', '/events');
      request.end();
      const answer = await answerOf(request);
      assert.equal(answer.headers['content-type'], 'text/event-stream');
      for (const event of ['data: 1\n\n', 'data: 2\n\n']) {
        say.text(event);
        const [chunk] = await once(answer, 'data');
        assert.equal(String(chunk), event);
      }
      request.destroy();
    },
  );
});

test('who leaves takes the connection to the program along, within 100 ms', async () => {
  let gone = Promise.resolve(0);
  await served(
    (request, response) => {
      gone = once(request.socket, 'close').then(() => systemClock.monotonic());
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
    },
    async () => {
      const request = ask('GET', '/events');
      request.on('error', () => {});
      request.end();
      await once(await answerOf(request), 'data');
      const left = systemClock.monotonic();
      request.destroy();
      assert.ok((await gone) - left < 100);
    },
  );
});

test('who leaves before any answer, or in the middle of an upload, does so too', async () => {
  for (const body of [false, true]) {
    let gone: Promise<unknown> = Promise.resolve();
    let arrived = () => {};
    const there = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    await served(
      (request) => {
        gone = new Promise((resolve) => request.socket.once('close', resolve));
        request.on('error', () => {});
        request.once(body ? 'data' : 'end', arrived).resume();
      },
      async () => {
        const headers: Record<string, string> = body ? { 'content-length': '100' } : {};
        const request = ask(body ? 'POST' : 'GET', '/slow', headers);
        request.on('error', () => {});
        if (body) request.write('half');
        else request.end();
        await there;
        request.destroy();
        await gone;
      },
    );
  }
});

test('an upload that is cut is never whole for the program', async () => {
  const ends: string[] = [];
  await served(
    (request) => {
      request.on('end', () => ends.push('whole'));
      request.on('error', () => ends.push('cut'));
      request.resume();
    },
    async () => {
      const socket = connect(given.site.port, '127.0.0.1');
      const head = lines('POST', '/up', ['Transfer-Encoding: chunked', '', '']).join('\r\n');
      socket.write(`${head}5\r\nhello\r\n`);
      await once(socket, 'connect');
      while (ends.length === 0) {
        socket.destroy();
        await new Promise((resolve) => setImmediate(resolve));
      }
      assert.deepEqual(ends, ['cut']);
    },
  );
});

test('answers without a body, and of a HEAD, keep their head', async () => {
  await served(
    (request, response) => {
      const status = Number(request.url?.slice(1));
      if (status === 200) response.setHeader('content-length', 1234);
      response.writeHead(status, { etag: '"a"' }).end();
    },
    async () => {
      for (const status of [204, 304]) {
        const answer = await get(`/${status}`);
        assert.equal(answer.status, status);
        assert.match(answer.head, /etag: "a"/i);
        assert.equal(answer.body, '');
        assert.doesNotMatch(answer.head, /transfer-encoding/i);
      }
      const head = await raw(given.site.port, lines('HEAD', '/200'));
      assert.match(head.head, /content-length: 1234/i);
      assert.equal(head.body, '');
    },
  );
});

test('ranges, redirects and odd statuses are the program’s own', async () => {
  await served(
    (request, response) => {
      if (request.url === '/go') return void response.writeHead(302, { location: '/lab' }).end();
      if (request.url === '/odd') return void response.writeHead(299, 'Quite Odd').end('x');
      response.writeHead(206, { 'content-range': 'bytes 1-2/5', 'content-length': 2 });
      response.end(String(request.headers.range).slice(-2));
    },
    async () => {
      const part = await get('/part', ['Range: bytes=1-2']);
      assert.equal(part.status, 206);
      assert.match(part.head, /content-range: bytes 1-2\/5/i);
      assert.equal(part.body, '-2');
      assert.match((await get('/go')).head, /location: \/lab/i);
      assert.match((await get('/odd')).text, /^HTTP\/1\.1 299 Quite Odd/);
    },
  );
});

test('trailers go through, both ways, without what has no place in them', async () => {
  const seen: string[] = [];
  await served(
    (request, response) => {
      request.resume().on('end', () => {
        seen.push(...request.rawTrailers);
        response.writeHead(200, { trailer: 'X-Sum' });
        response.write('body');
        response.addTrailers([
          ['X-Sum', '42'],
          ['Set-Cookie', 'a=b'],
        ]);
        response.end();
      });
    },
    async () => {
      const body = '2\r\nhi\r\n0\r\nX-Check: 7\r\nAuthorization: Basic x\r\n\r\n';
      const more = ['Transfer-Encoding: chunked', 'Trailer: X-Check'];
      const answer = await raw(given.site.port, lines('POST', '/t', more), body);
      assert.deepEqual(seen, ['X-Check', '7']);
      assert.match(answer.text, /0\r\nX-Sum: 42\r\n\r\n$/);
    },
  );
});

test('a body is sent when the program says that it wants it', async () => {
  let asked = false;
  const program = await startProgramServer((_, response) => void response.end('late'));
  program.server.on('checkContinue', (request, response) => {
    asked = true;
    if (request.url === '/no') return void response.writeHead(417).end('no');
    response.writeContinue();
    request.on('data', (chunk) => response.write(chunk)).on('end', () => response.end());
  });
  given.site.dial.now = program.dial;
  const request = ask('PUT', '/yes', { expect: '100-continue', 'content-length': 5 });
  request.flushHeaders();
  await once(request, 'continue');
  assert.ok(asked);
  request.end('hello');
  const answer = await answerOf(request);
  assert.equal(String(await answer.toArray()), 'hello');
  const refused = ask('PUT', '/no', { expect: '100-continue', 'content-length': 5 });
  refused.on('continue', () => assert.fail('it does not want it'));
  refused.on('error', () => {});
  refused.flushHeaders();
  assert.equal((await answerOf(refused)).statusCode, 417);
  refused.destroy();
  await program.close();
});

test('an answer that comes before the request was read is the answer', async () => {
  await served(
    (_, response) => void response.writeHead(413).end('too large'),
    async () => {
      const request = ask('POST', '/up', { 'content-length': 64 * 1024 * 1024 });
      request.on('error', () => {});
      const chunk = Buffer.alloc(256 * 1024);
      const pump = () => {
        while (request.write(chunk));
        request.once('drain', pump);
      };
      pump();
      const answer = await answerOf(request);
      assert.equal(answer.statusCode, 413);
      assert.equal(String(await answer.toArray()), 'too large');
      request.destroy();
    },
  );
});

test('a dead connection that was kept is replaced once for what has no body', async () => {
  let connections = 0;
  await scripted(
    (socket) => {
      connections += 1;
      let count = 0;
      socket.on('data', () => {
        count += 1;
        // Kept after the first answer, and dead at the second question.
        if (count === 2) return void socket.destroy();
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      });
    },
    async () => {
      assert.equal((await get('/1')).status, 200);
      assert.equal((await get('/2')).status, 200);
      assert.equal(connections, 2);
      const post = await raw(given.site.port, lines('POST', '/3', ['Content-Length: 1']), 'x');
      assert.equal(post.status, 502, 'what may have had an effect is not sent twice');
    },
  );
});

test('what no browser could take for an answer is a failure of the program', async () => {
  const answers = [
    '',
    'nonsense\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
    'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na',
    `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(80_000)}\r\n\r\n`,
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
  ];
  for (const text of answers) {
    await scripted(
      (socket) => socket.once('data', () => socket.end(text)),
      async () => {
        const answer = await get('/x');
        assert.equal(answer.status, 502, text.slice(0, 60));
        assert.match(answer.body, /site_program_unreachable/);
      },
    );
  }
});

const slow = { timeout: 240_000 };

test(
  'a gigabyte goes each way in little memory, and a slow reader slows the program down',
  slow,
  async () => {
    const size = 1024 * 1024 * 1024;
    const chunk = Buffer.alloc(1024 * 1024, 7);
    let received = 0;
    let written = 0;
    await served(
      (request, response) => {
        if (request.method === 'POST') {
          request.on('data', (part: Buffer) => {
            received += part.length;
          });
          request.on('end', () => response.end('done'));
          return;
        }
        response.writeHead(200, { 'content-length': size });
        const pump = () => {
          while (written < size) {
            written += chunk.length;
            if (!response.write(chunk)) return void response.once('drain', pump);
          }
          response.end();
        };
        pump();
      },
      async () => {
        const before_rss = process.memoryUsage().rss;
        let most = 0;
        const look = () => {
          most = Math.max(most, process.memoryUsage().rss - before_rss);
        };
        const down = ask('GET', '/big');
        down.end();
        const answer = await answerOf(down);
        // It is not read: the program is held up, with what fits in the buffers on the way.
        await settle(2000);
        assert.ok(written < 64 * 1024 * 1024, `${written} bytes were taken from it`);
        let bytes = 0;
        for await (const part of answer as AsyncIterable<Buffer>) {
          bytes += part.length;
          if (bytes % (64 * 1024 * 1024) < part.length) look();
        }
        assert.equal(bytes, size);
        const up = ask('POST', '/big', { 'content-length': size });
        for (let sent = 0; sent < size; sent += chunk.length) {
          if (!up.write(chunk)) await once(up, 'drain');
          look();
        }
        up.end();
        assert.equal(String(await (await answerOf(up)).toArray()), 'done');
        assert.equal(received, size);
        assert.ok(most < 200 * 1024 * 1024, `${Math.round(most / 2 ** 20)} MiB at most`);
      },
    );
  },
);
