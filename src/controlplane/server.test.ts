/**
 * The listeners: for which names they answer, what is on every answer, what never gets in.
 */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { createRig, type Rig } from '../../test/lib/rig.ts';
import { limits } from '../contract/limits.ts';
import { isGatewayPath } from '../contract/routes.ts';
import type { Gateway } from '../gateway/gateway.ts';
import { type Listening, listen } from './server.ts';

const gateway: Gateway = {
  handle: async (_request, response) => void response.end('the gateway'),
  close: async () => {},
};
const given = {} as { rig: Rig; listening: Listening; port: number };

before(async () => {
  const rig = await createRig();
  const listening = await listen(0, { ...rig, gateway });
  Object.assign(given, { rig, listening, port: listening.port });
});
after(async () => {
  await given.listening.close();
  await given.rig.close();
});

/** Sends exactly these lines, and gives all that comes back. */
function raw(lines: string[], body = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(given.port, '127.0.0.1');
    let got = '';
    socket.setEncoding('utf8');
    socket.on('data', (chunk) => {
      got += chunk;
    });
    socket.on('close', () => resolve(got));
    socket.on('error', (error) => (got === '' ? reject(error) : resolve(got)));
    socket.write(`${[...lines, 'Connection: close', '', ''].join('\r\n')}${body}`);
  });
}

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);
const idOf = (answer: string) => /^x-request-id: (\S+)\r$/im.exec(answer)?.[1];
const get = (host: string, path = '/healthz') => raw([`GET ${path} HTTP/1.1`, `Host: ${host}`]);

test('it answers for its own names, in any case', async () => {
  for (const name of ['localhost', 'LocalHost', '127.0.0.1', '[::1]']) {
    assert.equal(statusOf(await get(`${name}:${given.port}`)), 200, name);
  }
});

test('it answers for no other name, and says so before anything else', async () => {
  const { port } = given;
  const others = [
    'localhost',
    `localhost:${port + 1}`,
    `localhost.:${port}`,
    `evil.example:${port}`,
    `localhost.evil.example:${port}`,
    `w-01h.localhost:${port}`,
    `x@localhost:${port}`,
    `localhost:${port}:80`,
    `localhost:0${port}`,
    `127.0.0.2:${port}`,
    `127.1:${port}`,
    `2130706433:${port}`,
    `0.0.0.0:${port}`,
    `[::ffff:127.0.0.1]:${port}`,
    '',
  ];
  for (const host of others) {
    const paths = ['/healthz', '/', '/v1/models', '/v1/workloads', '/nothing'];
    for (const path of paths) {
      const answer = await get(host, path);
      assert.equal(statusOf(answer), 421, `${host} ${path}`);
      assert.match(answer, /"code":"wrong_host"/);
    }
  }
});

test('two hosts, or a path with a host of its own, are nobody here', async () => {
  const { port } = given;
  const own = `Host: localhost:${port}`;
  for (const second of [own, 'Host: evil.example']) {
    const answer = await raw(['GET /healthz HTTP/1.1', own, second]);
    assert.ok([400, 421].includes(statusOf(answer)), second);
  }
  const absolute = `GET http://evil.example/healthz HTTP/1.1`;
  assert.equal(statusOf(await raw([absolute, own])), 421);
  assert.equal(statusOf(await raw([`GET http://localhost:${port}/healthz HTTP/1.1`, own])), 421);
  assert.equal(statusOf(await raw(['GET /healthz HTTP/1.1'])), 400);
});

test('nobody is believed for a forwarding header', async () => {
  const answer = await raw([
    'GET /healthz HTTP/1.1',
    `Host: evil.example:${given.port}`,
    `X-Forwarded-Host: localhost:${given.port}`,
    'Forwarded: host=localhost',
  ]);
  assert.equal(statusOf(answer), 421);
});

test('every answer has an id of ours, whatever the caller sends', async () => {
  const own = `localhost:${given.port}`;
  const paths = ['/healthz', '/', '/v1/me', '/v1/nothing', '/v1/openapi.json'];
  const seen = new Set<string>();
  for (const path of paths) {
    const lines = [`GET ${path} HTTP/1.1`, `Host: ${own}`, 'X-Request-ID: mine'];
    const answer = await raw(lines);
    const id = idOf(answer);
    assert.match(id ?? '', /^[0-9a-z]{26}$/, path);
    seen.add(id ?? '');
    const in_body = /"request_id":"(\w+)"/.exec(answer)?.[1];
    if (in_body !== undefined) assert.equal(in_body, id, path);
    assert.match(answer, /^x-content-type-options: nosniff\r$/im, path);
    assert.match(answer, /^cache-control: no-store\r$/im, path);
  }
  const refused = idOf(await get('evil.example'));
  assert.match(refused ?? '', /^[0-9a-z]{26}$/);
  assert.equal(seen.size, paths.length);
});

test('each request has one line in the log, with its id, and who asked', async () => {
  const { rig, port } = given;
  const answer = await raw([
    'GET /v1/me?secret=in-the-query HTTP/1.1',
    `Host: localhost:${port}`,
    `Authorization: Bearer ${rig.token}`,
  ]);
  const lines = rig.lines.filter((line) => line.request_id === idOf(answer));
  assert.deepEqual(
    lines.map(({ method, path, status, tenant, subject }) => [
      method,
      path,
      status,
      tenant,
      subject,
    ]),
    [['GET', '/v1/me', 200, 'local', 'op']],
  );
  const refused = idOf(await get('evil.example'));
  assert.equal(rig.lines.filter((line) => line.request_id === refused).length, 1);
  const text = JSON.stringify(rig.lines);
  assert.equal(text.includes(rig.token) || text.includes('in-the-query'), false);
});

test('a body over the limit is refused, declared or chunked, and the next request answered', async () => {
  const { rig, port } = given;
  const head = [
    'POST /v1/workloads HTTP/1.1',
    `Host: localhost:${port}`,
    `Authorization: Bearer ${rig.token}`,
    'Content-Type: application/json',
  ];
  const big = 'x'.repeat(limits.api_body_bytes + 10);
  const declared = await raw([...head, `Content-Length: ${big.length}`], big);
  assert.equal(statusOf(declared), 413);
  const chunk = `${big.length.toString(16)}\r\n${big}\r\n0\r\n\r\n`;
  const chunked = await raw([...head, 'Transfer-Encoding: chunked'], chunk);
  assert.equal(statusOf(chunked), 413);
  assert.match(chunked, /"code":"body_too_large"/);
  assert.equal(statusOf(await get(`localhost:${port}`)), 200);
});

test('a request that says its length in two ways gets nowhere', async () => {
  const own = `Host: localhost:${given.port}`;
  const head = ['POST /v1/session HTTP/1.1', own, 'Content-Type: application/json'];
  const both = ['Content-Length: 2', 'Transfer-Encoding: chunked'];
  assert.equal(statusOf(await raw([...head, ...both], '0\r\n\r\n')), 400);
  const twice = ['Content-Length: 2', 'Content-Length: 3'];
  assert.equal(statusOf(await raw([...head, ...twice], '{} ')), 400);
});

test('the gateway has its own paths, and no API has one below them', async () => {
  const answer = await get(`localhost:${given.port}`, '/v1/chat/completions');
  assert.match(answer, /the gateway/);
  assert.deepEqual(
    ['/v1/models', '/v1/models/a', '/v1/modelsx', '/v1/chat', '/v1/workloads'].map(isGatewayPath),
    [true, true, false, false, false],
  );
});

test('however many requests are open at the gateway, the API answers', async () => {
  const { rig } = given;
  const held: ServerResponse[] = [];
  const holding: Gateway = { ...gateway, handle: async (_, response) => void held.push(response) };
  const listening = await listen(0, { ...rig, gateway: holding });
  const origin = `http://127.0.0.1:${listening.port}`;
  const asked = Array.from({ length: limits.requests_at_once + 1 }, () =>
    fetch(`${origin}/v1/models`).then((answer) => answer.text()),
  );
  while (held.length < asked.length) await new Promise((resolve) => setImmediate(resolve));
  const began = rig.lines.length;
  assert.equal((await fetch(`${origin}/healthz`)).status, 200);
  for (const response of held) response.end('done');
  assert.deepEqual(new Set(await Promise.all(asked)), new Set(['done']));
  const lines = rig.lines.slice(began).filter(({ message }) => message === 'request');
  assert.deepEqual(
    lines.map(({ path }) => path),
    ['/healthz'],
    'what the gateway answers it logs itself',
  );
  await listening.close();
});

test('the API answers HEAD as it answers GET, without a body', async () => {
  const lines = ['HEAD /v1/me HTTP/1.1', `Host: localhost:${given.port}`];
  const anonymous = await raw(lines);
  assert.equal(statusOf(anonymous), 401);
  const signed = await raw([...lines, `Authorization: Bearer ${given.rig.token}`]);
  assert.equal(statusOf(signed), 200);
  assert.equal(signed.split('\r\n\r\n')[1], '');
});

test('a port that is taken is said, with another one to try', async () => {
  const { rig, port } = given;
  await assert.rejects(listen(port, { ...rig, gateway }), (error: Error) => {
    assert.match(error.message, new RegExp(`Port ${port} on 127\\.0\\.0\\.1 is taken`));
    return true;
  });
});

test('a flood by strangers is a few lines and a count; who is known keeps each line', async () => {
  const { rig, port } = given;
  const ask = (headers: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${port}/v1/me`, { headers }).then((answer) => answer.arrayBuffer());
  const began = rig.lines.length;
  for (let count = 0; count < limits.stranger_lines + 50; count += 1) await ask();
  await ask({ authorization: `Bearer ${rig.token}` });
  const lines = rig.lines.slice(began).filter((line) => line.message === 'request');
  const strangers = lines.filter((line) => line.status === 401);
  assert.ok(strangers.length <= limits.stranger_lines);
  assert.ok(strangers.length > limits.stranger_lines / 2, 'some were written before');
  assert.equal(lines.filter((line) => line.subject === 'op').length, 1);
  await rig.clock.advance(limits.stranger_lines_ms);
  assert.ok(rig.lines.some((line) => Number(line.left_out) >= 50));
});
