import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createRawServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { socketPaths } from '../../drivers/docker/place.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { askEngine, judgeDocker } from './docker.ts';
import { debian } from './fixture-machine.ts';

const path = '/var/run/docker.sock';
const judge = (answer: Parameters<typeof judgeDocker>[0]['socket'], client: string | null = null) =>
  judgeDocker({ here: debian, client, socket: answer });

test('neither client nor engine: install both', () => {
  const finding = judge(null);
  assert.match(finding.message, /neither a client nor an engine/);
  assert.equal(finding.fix, 'sudo apt-get install -y docker.io, then: sudo systemctl start docker');
});

test('a client alone is no engine', () => {
  assert.match(judge(null, '28.2.2').message, /client 28.2.2 is installed, but there is no engine/);
});

test('a socket of which we are locked out: the group, and what it means', () => {
  const finding = judge({ path, answer: { kind: 'denied' } });
  assert.match(finding.fix ?? '', /usermod -aG docker .*as good as root/);
});

test('a socket that nobody listens on: start it, with what this system has', () => {
  const refused = { path, answer: { kind: 'refused' } } as const;
  assert.equal(judge(refused).fix, 'sudo systemctl start docker');
  const here = { ...debian, systemd: false, sudo: '' } as const;
  const bare = judgeDocker({ here, client: null, socket: refused });
  assert.equal(bare.fix, 'service docker start');
});

test('an engine that answers is fine, with its version', () => {
  const answer = { kind: 'version', version: '28.2.2', api_version: '1.50' } as const;
  const finding = judge({ path, answer });
  assert.equal(finding.status, 'ok');
  assert.match(finding.message, /28.2.2 \(API 1.50\)/);
});

test('sockets of rootless and desktop engines are looked at after that of the system', () => {
  const [first, ...rest] = socketPaths({ home: '/home/ada', uid: 1000 });
  assert.equal(first, path);
  assert.ok(rest.includes('/run/user/1000/docker.sock'));
  const named = (host: string) => socketPaths({ home: '/home/ada', uid: 1000, host });
  assert.deepEqual(named('unix:///srv/docker.sock'), ['/srv/docker.sock'], 'a named one alone');
  assert.deepEqual(named(''), [first, ...rest]);
});

test('a real socket: an engine that answers', async (t) => {
  const socket = await serve(t, (_, response) =>
    response.end('{"Version":"20.10.24","ApiVersion":"1.41"}'),
  );
  assert.deepEqual(await askEngine(socket, systemClock), {
    kind: 'version',
    version: '20.10.24',
    api_version: '1.41',
  });
});

test('a real socket: something else answers', async (t) => {
  const socket = await serve(t, (_, response) => response.end('hello'));
  assert.deepEqual(await askEngine(socket, systemClock), { kind: 'garbled' });
});

test('a real socket: a flood is cut off', async (t) => {
  const socket = await serve(t, (_, response) => response.end('x'.repeat(1024 * 1024)));
  assert.deepEqual(await askEngine(socket, systemClock), { kind: 'garbled' });
});

test('a real socket: an engine that takes the connection and says nothing', async (t) => {
  const server = createRawServer(() => {});
  const socket = await listen(t, server);
  const hasty: Clock = { ...systemClock, after: (_, fn) => systemClock.after(1, fn) };
  assert.deepEqual(await askEngine(socket, hasty), { kind: 'silent' });
});

test('no file is absent; a file that is no socket is refused', async (t) => {
  const folder = temporaryFolder(t);
  assert.deepEqual(await askEngine(join(folder, 'none'), systemClock), { kind: 'absent' });
  writeFileSync(join(folder, 'plain'), '');
  assert.deepEqual(await askEngine(join(folder, 'plain'), systemClock), { kind: 'refused' });
});

function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'einsora-docker-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function serve(t: TestContext, handler: RequestListener): Promise<string> {
  return listen(t, createServer(handler));
}

async function listen(t: TestContext, server: Server): Promise<string> {
  const socket = join(temporaryFolder(t), 'engine.sock');
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  t.after(() => server.close());
  return socket;
}
