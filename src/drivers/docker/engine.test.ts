/**
 * The client of the engine's socket: versions, deadlines, bounds, and what is no engine.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createRaw } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createFakeClock, settle } from '../../../test/lib/fake-clock.ts';
import { fakeEngine } from '../../../test/lib/fake-engine.ts';
import { systemClock } from '../../lib/clock.ts';
import { agree, createEngine, isOlder } from './engine.ts';
import { EngineDown, EngineRefusal } from './engine-error.ts';

const down =
  (kind: string, text = /./) =>
  (error: unknown) =>
    error instanceof EngineDown && error.kind === kind && text.test(error.message);

test('the newest version that both speak is spoken', () => {
  assert.equal(agree('1.41', '1.12'), '1.41');
  assert.equal(agree('1.52', '1.44'), '1.50');
  assert.equal(agree('1.50', ''), '1.50');
  assert.throws(() => agree('1.40', '1.12'), down('api', /too old.*1\.41/));
  assert.throws(() => agree('1.60', '1.51'), down('api', /too new.*1\.51/));
  assert.equal(isOlder('1.9', '1.41'), true);
  assert.equal(isOlder('2.0', '1.41'), false);
});

test('an engine that is replaced by one that wants a newer version is agreed with again', async () => {
  await using fake = await fakeEngine({ newest: '1.41', oldest: '1.12' });
  const engine = createEngine(fake.socket_path, systemClock);
  await engine.json({ method: 'GET', path: '/info' });
  Object.assign(fake.version, { ApiVersion: '1.52', MinAPIVersion: '1.44' });
  const refused = engine.json({ method: 'GET', path: '/info' });
  await assert.rejects(refused, (error) => error instanceof EngineRefusal && error.status === 400);
  await engine.json({ method: 'GET', path: '/info' });
  const versions = fake.requests.map(({ path, version }) => `${version}${path}`);
  assert.deepEqual(versions, [
    ...['null/version', '1.41/info', '1.41/info', 'null/version', '1.50/info'],
  ]);
});

test('an engine that takes a question and says nothing is given up after a while', async () => {
  await using fake = await fakeEngine({ newest: '1.44', oldest: '1.24' });
  const clock = createFakeClock();
  const engine = createEngine(fake.socket_path, clock);
  await engine.version();
  fake.fault = () => 'nothing';
  const asking = engine.json({ method: 'GET', path: '/info', timeout_ms: 5000 });
  asking.catch(() => {});
  while (fake.requests.length < 2) await settle();
  await clock.advance(5000);
  await assert.rejects(asking, down('silent', /5 s/));
  assert.equal(clock.waiting(), 0);
});

test('a question that is called off is over at once', async () => {
  await using fake = await fakeEngine({ newest: '1.44', oldest: '1.24' });
  const engine = createEngine(fake.socket_path, systemClock);
  await engine.version();
  fake.fault = () => 'nothing';
  const cancel = new AbortController();
  const asking = engine.json({ method: 'GET', path: '/info', signal: cancel.signal });
  cancel.abort();
  await assert.rejects(asking, EngineDown);
});

test("the engine's own words stand in a refusal, on one line", async () => {
  await using fake = await fakeEngine({ newest: '1.44', oldest: '1.24' });
  const engine = createEngine(fake.socket_path, systemClock);
  fake.fault = ({ path }) =>
    path === '/info' ? { status: 500, json: { message: 'first\n  second.' } } : null;
  const asking = engine.json({ method: 'GET', path: '/info' });
  await assert.rejects(asking, { status: 500, message: 'first second' });
});

test('no socket, a plain file, nobody behind it, and what is no engine are told apart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-sock-'));
  const at = (name: string) => join(folder, name);
  const version = (path: string) => createEngine(path, systemClock).version();
  try {
    await assert.rejects(version(at('none')), down('absent'));
    writeFileSync(at('file'), '');
    await assert.rejects(version(at('file')), down('refused'));
    const page = createServer((_, response) => response.end('<html>'));
    await listening(page, at('page'));
    await assert.rejects(version(at('page')), down('garbled'));
    page.close();
    const missing = createServer((_, response) => response.writeHead(404).end('nothing here'));
    await listening(missing, at('missing'));
    await assert.rejects(version(at('missing')), down('garbled'));
    missing.close();
    const raw = createRaw((socket) => socket.end('SSH-2.0-hello\r\n'));
    raw.listen(at('raw'));
    await once(raw, 'listening');
    await assert.rejects(version(at('raw')), down('broken'));
    raw.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('an answer without end is cut off, and one that is cut off is no answer', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-sock-'));
  const said = JSON.stringify({ ApiVersion: '1.44', Version: '25' });
  const server = createServer((request, response) => {
    if (request.url === '/version') response.end(said);
    else if (request.url?.endsWith('/cut')) response.write('{', () => response.destroy());
    else endless(response);
  });
  await listening(server, join(folder, 'sock'));
  const engine = createEngine(join(folder, 'sock'), systemClock);
  await assert.rejects(engine.json({ method: 'GET', path: '/cut' }), down('broken'));
  await assert.rejects(engine.json({ method: 'GET', path: '/endless' }), EngineDown);
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

function endless(response: {
  write(chunk: Buffer): boolean;
  once(e: 'drain', f: () => void): void;
}) {
  const chunk = Buffer.alloc(1024 * 1024, ' ');
  const more = () => {
    while (response.write(chunk));
    response.once('drain', more);
  };
  more();
}

async function listening(server: Server, path: string): Promise<void> {
  server.listen(path);
  await once(server, 'listening');
}
