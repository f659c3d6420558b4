/**
 * The relay between fenced containers and the gateway: what goes through, what does not, and what
 * becomes of those who leave.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  request,
  type Server,
} from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '../contract/limits.ts';
import type { GuardedNetwork } from '../drivers/docker/network.ts';
import { systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { localGateway } from './gateway-door.ts';
import { createGatewayRelay, type GatewayRelay } from './gateway-relay.ts';

const network: GuardedNetwork = {
  ...{ name: 'n', bridge: 'lo', subnets: ['127.0.0.0/8'], gateways: ['127.0.0.1'] },
};

type Given = {
  relay: GatewayRelay;
  port: number;
  folder: string;
  seen: IncomingMessage[];
  gateway: Server;
};

/** Each with a gateway that does what the test says. */
function given(
  name: string,
  answer: RequestListener,
  body: (given: Given) => Promise<void>,
  in_network = network,
): void {
  test(name, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'einsora-relay-'));
    const seen: IncomingMessage[] = [];
    const gateway = createServer((asked, response) => {
      seen.push(asked);
      answer(asked, response);
    });
    gateway.listen(0, '127.0.0.1');
    await once(gateway, 'listening');
    const relay = openRelay(folder, () => (gateway.address() as AddressInfo | null)?.port ?? 1);
    try {
      const door = await relay.openDoor(in_network);
      assert.ok(door);
      await body({ relay, port: door.port, folder, seen, gateway });
    } finally {
      await relay.close();
      gateway.closeAllConnections();
      gateway.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

function openRelay(folder: string, port: () => number): GatewayRelay {
  const port_file = join(folder, 'gateway-port');
  return createGatewayRelay({ gateway: localGateway(port), port_file, log: silentLog });
}

const chat = '/v1/chat/completions';
const ok: RequestListener = (asked, response) => {
  asked.resume();
  response.setHeader('set-cookie', 'a=b');
  response.end('fine');
};

async function ask(port: number, path: string, init: RequestInit = {}) {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, init);
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

/** What is answered to bytes that no client would send; empty for a connection that was closed. */
async function raw(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(text);
  const chunks: string[] = [];
  socket.on('data', (chunk) => {
    chunks.push(String(chunk));
    socket.end();
  });
  await new Promise((resolve) => socket.once('close', resolve));
  return chunks.join('').split('\r\n', 1)[0] ?? '';
}

given('paths of the gateway go on, with a few headers and the body as it is', ok, async (all) => {
  const headers = {
    authorization: 'Bearer ept_x',
    'content-type': 'application/json',
    cookie: 'session=1',
    origin: 'http://evil.test',
    'x-forwarded-for': '1.2.3.4',
    'x-einsora-tenant': 'another',
  };
  const answer = await ask(all.port, `${chat}?a=1`, { method: 'POST', headers, body: '{}' });
  assert.deepEqual([answer.status, answer.text], [200, 'fine']);
  assert.equal(answer.headers.get('set-cookie'), null);
  const [asked] = all.seen;
  assert.equal(asked?.url, `${chat}?a=1`);
  assert.match(asked?.headers.host ?? '', /^localhost:\d+$/);
  assert.equal(asked?.headers.authorization, 'Bearer ept_x');
  const { cookie, origin, 'x-forwarded-for': by, 'x-einsora-tenant': of } = asked?.headers ?? {};
  assert.deepEqual([cookie, origin, by, of], [undefined, undefined, undefined, undefined]);
});

given('nothing else of the control plane can be asked for', ok, async ({ port, seen }) => {
  const others = ['/', '/healthz', '/v1/workloads', '/v1/model-files', '/v1', '/v1/modelsx'];
  const tricks = [
    '/v1/chat/../workloads',
    '/v1/chat/%2e%2e/workloads',
    '/v1/chat/./x',
    '//v1/chat/x',
  ];
  for (const path of [...others, ...tricks, '/v1/chat/..', '/v1/models\\..', `http://x${chat}`]) {
    const line = await raw(port, `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    assert.match(line, /^HTTP\/1\.1 (404|400)/, path);
  }
  for (const method of ['OPTIONS', 'TRACE', 'PUT', 'PATCH']) {
    assert.match(await raw(port, `${method} ${chat} HTTP/1.1\r\nHost: x\r\n\r\n`), / 404 /);
  }
  assert.equal(await raw(port, 'CONNECT localhost:4600 HTTP/1.1\r\nHost: x\r\n\r\n'), '');
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
  assert.equal(await raw(port, `GET ${chat} HTTP/1.1\r\nHost: x\r\n${upgrade}`), '');
  assert.equal(seen.length, 0);
});

const never: RequestListener = (asked, response) => {
  asked.resume();
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('data: 1\n\n');
};

/** Asks, and gives the answer as soon as it begins. */
async function begin(port: number): Promise<IncomingMessage> {
  const asked = request({ port, host: '127.0.0.1', path: chat, method: 'POST', agent: false });
  asked.on('error', () => {});
  asked.end('{}');
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.on('error', () => {});
  return answer;
}

given('events come as they are sent, before the answer ends', never, async ({ port }) => {
  const answer = await begin(port);
  const [chunk] = await once(answer, 'data');
  assert.equal(String(chunk), 'data: 1\n\n');
  answer.destroy();
});

given('who leaves takes the connection to the gateway along at once', never, async (all) => {
  const answer = await begin(all.port);
  await once(answer, 'data');
  const [asked] = all.seen;
  assert.ok(asked);
  const left_at = systemClock.monotonic();
  answer.destroy();
  await once(asked.socket, 'close');
  const took_ms = systemClock.monotonic() - left_at;
  assert.ok(took_ms < 100, `${took_ms} ms`);
});

const cutting: RequestListener = (asked, response) => {
  asked.resume();
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('data: 1\n\n', () => response.destroy());
};
given('an answer that is cut does not end like a whole one', cutting, async ({ port }) => {
  const answer = await begin(port);
  answer.resume();
  await new Promise((resolve) => answer.once('close', resolve));
  assert.equal(answer.complete, false);
});

let written = 0;
const flood: RequestListener = (asked, response) => {
  asked.resume();
  const chunk = Buffer.alloc(64 * 1024);
  const more = () => {
    while (!response.destroyed) {
      written += chunk.length;
      if (!response.write(chunk)) return void response.once('drain', more);
    }
  };
  more();
};
given('a caller who reads nothing holds the gateway back', flood, async ({ port }) => {
  const answer = await begin(port);
  answer.pause();
  let before = -1;
  while (before !== written) {
    before = written;
    await systemClock.sleep(100);
  }
  assert.ok(written < 32 * 2 ** 20, `${written} bytes were taken`);
  answer.destroy();
});

given('one caller has so many requests at once, and gets them back', never, async ({ port }) => {
  const all = Array.from({ length: limits.relay_requests_of_one }, () => begin(port));
  const answers = await Promise.all(all);
  assert.equal((await ask(port, '/v1/models')).status, 429);
  for (const answer of answers) answer.destroy();
  // Those who left are counted off as their connections close.
  for (let status = 429; status !== 200; ) {
    const again = await begin(port);
    status = again.statusCode ?? 0;
    again.destroy();
  }
});

given('one caller has so many connections, however silent', ok, async ({ port }) => {
  const all = Array.from({ length: limits.relay_connections_of_one }, () =>
    connect(port, '127.0.0.1'),
  );
  await Promise.all(all.map((socket) => once(socket, 'connect')));
  assert.equal(await raw(port, 'GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n'), '');
  for (const socket of all) socket.destroy();
});

const elsewhere = { ...network, subnets: ['10.9.0.0/16'] };
given(
  'callers of other networks are hung up on',
  ok,
  async ({ port, seen }) => {
    assert.equal(await raw(port, `GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n`), '');
    assert.equal(seen.length, 0);
  },
  elsewhere,
);

given('a gateway that is not there is said to be so', ok, async ({ port, gateway }) => {
  gateway.closeAllConnections();
  gateway.close();
  await once(gateway, 'close');
  const { status, text } = await ask(port, '/v1/models');
  assert.equal(status, 502);
  assert.equal(JSON.parse(text).error.code, 'gateway_unreachable');
});

given('its port is the same over restarts, because containers know it', ok, async (all) => {
  await all.relay.close();
  const again = openRelay(all.folder, () => 1);
  const door = await again.openDoor(network);
  assert.equal(door?.port, all.port);
  assert.equal(await again.openDoor(network), door, 'once for a network');
  const third = openRelay(all.folder, () => 1);
  assert.equal(await third.openDoor(network), null, 'another port would help nobody');
  await again.close();
});
