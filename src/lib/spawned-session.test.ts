/**
 * Programs on pipes and in terminals, for real: nothing of their output is lost, whoever is slow.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { systemClock } from './clock.ts';
import { killGroup } from './exec.ts';
import { spawnOnPipes } from './pipes.ts';
import { spawnOnTerminal } from './pty.ts';
import type { ExecSession } from './session.ts';
import { toSession } from './spawned-session.ts';

const env = { PATH: '/usr/bin:/bin', TERM: 'xterm' };
const clock = systemClock;

const folder = mkdtempSync(join(tmpdir(), 'einsora-pipes-'));
let tags = 0;
after(() => {
  assert.deepEqual(readdirSync(folder), [], 'no name of a pipe stays');
  rmSync(folder, { recursive: true });
});

async function piped(script: string): Promise<ExecSession> {
  tags += 1;
  const where = { env, cwd: '/', folder, tag: `test-${tags}` };
  const spawned = await spawnOnPipes('/bin/sh', ['-c', script], where);
  return toSession(spawned, { clock, kill: () => killGroup(spawned.pid, 'SIGKILL') });
}

function shown(script: string, size = { columns: 100, rows: 30 }): ExecSession {
  const spawned = spawnOnTerminal('setsid', ['-cw', '--', '/bin/sh', '-c', script], {
    env,
    cwd: '/',
    size,
  });
  const kill = () => killGroup(spawned.pid, 'SIGKILL');
  return toSession(spawned, { clock, kill, resize: spawned.resize });
}

/** Reads like a slow client: a piece, then a rest. */
async function slowly(stream: Readable): Promise<number> {
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += (chunk as Buffer).length;
    await clock.sleep(1);
  }
  return bytes;
}

test('what a program prints comes on its stream, and how it ended afterwards', async () => {
  const session = await piped('printf out; printf err >&2; exit 7');
  const read = [text(session.stdout), text(session.stderr as Readable)];
  assert.deepEqual(await Promise.all(read), ['out', 'err']);
  assert.deepEqual(await session.exited, { code: 7, signal: null });
});

test('stdin is closed by its half, and the rest goes on', async () => {
  const session = await piped('cat; echo after');
  session.stdin.end('given');
  assert.equal(await text(session.stdout), 'givenafter\n');
  assert.deepEqual(await session.exited, { code: 0, signal: null });
});

test('a terminal has a size, can get another one, and is a terminal', async () => {
  const session = shown('test -t 0 && stty size; read line; stty size; echo "$line"; exit 3');
  session.stdout.once('data', () => {
    session.resize(42, 12);
    session.stdin.write('tyed\x7f\x7fped\n');
  });
  const said = (await text(session.stdout)).replaceAll('\r', '');
  assert.match(said, /^30 100\n/);
  assert.match(said, /\n12 42\ntyped\n$/);
  assert.deepEqual(await session.exited, { code: 3, signal: null });
});

test('Ctrl-C ends what runs in a terminal, and nothing more typed ends who reads', async () => {
  const stopped = shown('echo ready; exec sleep 1000');
  stopped.stdout.once('data', () => stopped.stdin.write('\x03'));
  await text(stopped.stdout);
  assert.notEqual((await stopped.exited).code, 0);
  const reads = shown('stty -echo; echo ready; cat; echo done');
  reads.stdout.once('data', () => reads.stdin.end());
  assert.match(await text(reads.stdout), /done/);
});

test('a slow reader gets all of ten megabytes, long after the program ended', async () => {
  const script = 'head -c 10000000 /dev/zero';
  assert.equal(await slowly((await piped(script)).stdout), 10_000_000);
  assert.equal(await slowly(shown(script).stdout), 10_000_000);
});

test('the names of its streams are there for a program to open', async () => {
  const session = await piped('echo err > /dev/stderr; cat > /dev/stdout');
  session.stdin.end('through');
  const read = [text(session.stdout), text(session.stderr as Readable)];
  assert.deepEqual(await Promise.all(read), ['through', 'err\n']);
});

test('bytes are not changed on the way', async () => {
  const session = await piped('head -c 1000000 /dev/urandom | tee /dev/stderr');
  const [out, err] = await Promise.all([
    buffer(session.stdout),
    buffer(session.stderr as Readable),
  ]);
  assert.ok(out.equals(err) && out.length === 1_000_000);
});

test('what a program leaves in the background does not keep its session open', async () => {
  for (const session of [
    await piped('sleep 100 & echo one'),
    shown('trap "" HUP; sleep 100 & echo one'),
  ]) {
    assert.match(await text(session.stdout), /^one/);
    assert.equal((await session.exited).code, 0);
    session.kill();
  }
});

test('a reader that goes away leaves nothing waiting', async () => {
  const session = await piped('head -c 1000000 /dev/zero; exit 4');
  session.stdout.destroy();
  session.stderr?.resume();
  assert.deepEqual(await session.exited, { code: 4, signal: null });
});

test('a program that cannot be started says so', async () => {
  const where = { env, cwd: '/', folder };
  await assert.rejects(spawnOnPipes('/nonexistent', [], { ...where, tag: 'none' }));
  const gone = { ...where, folder: join(folder, 'gone'), tag: 'gone' };
  await assert.rejects(spawnOnPipes('/bin/true', [], gone), /no pipes could be made/);
});
