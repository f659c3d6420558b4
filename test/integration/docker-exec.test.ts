/**
 * Programs beside a run's own in real containers: pipes, terminals, their ends, and what is not
 * there.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { markedPids } from '../../src/drivers/docker/processes.ts';
import { DriverError, type RunSpec } from '../../src/drivers/driver.ts';
import type { ExecAsk } from '../../src/lib/session.ts';
import { until } from '../contracts/driver.ts';
import { type DockerHarness, dockerHarness } from '../lib/docker-harness.ts';
import { shellessImage } from '../lib/docker-images.ts';
import { needs } from '../lib/parts.ts';
import { textOf, untilText } from '../lib/streams.ts';

const real = needs('docker');
const never = new AbortController().signal;
const stays = 'while :; do sleep 1; done';

function ask(script: string, changes: Partial<ExecAsk> = {}): ExecAsk {
  return { argv: ['/bin/sh', '-c', script], env: {}, cwd: null, terminal: null, ...changes };
}

async function running(harness: DockerHarness, changes: Partial<RunSpec> = {}): Promise<RunSpec> {
  const spec = harness.shell(stays, changes);
  await harness.driver.start(spec, never);
  return spec;
}

async function pidsOf({ docker }: DockerHarness, { run }: RunSpec): Promise<string> {
  return docker('inspect', '-f', '{{.Id}}', `ein-${run.workload_id}.0.1`);
}

test(
  'a program with pipes has its input, two outputs, its variables, folder and code',
  real,
  async () => {
    await using harness = await dockerHarness();
    const { run } = await running(harness);
    const script = 'echo "$WORD in $(pwd)"; echo oops >&2; wc -c; exit 7';
    const asked = ask(script, { env: { WORD: 'hello' }, cwd: '/tmp' });
    const session = await harness.driver.exec(run, asked, never);
    session.stdin.end('12345');
    const [out, err] = await Promise.all([textOf(session.stdout), textOf(session.stderr)]);
    assert.equal(out.replace(/\s+/g, ' '), 'hello in /tmp 5 ');
    assert.equal(err, 'oops\n');
    assert.deepEqual(await session.exited, { code: 7, signal: null });
  },
);

test(
  'a terminal has its size from the start, follows it, and speaks on one output',
  real,
  async () => {
    await using harness = await dockerHarness();
    const { run } = await running(harness);
    const asked: ExecAsk = { argv: [], env: {}, cwd: null, terminal: { columns: 101, rows: 33 } };
    const session = await harness.driver.exec(run, asked, never);
    assert.equal(session.stderr, null);
    session.stdin.write(
      'while [ "$(stty size)" != "33 101" ]; do sleep 0.05; done; echo size-$?\r',
    );
    await untilText(session.stdout, 'size-0');
    session.resize(90, 20);
    session.stdin.write('while [ "$(stty size)" != "20 90" ]; do sleep 0.05; done; echo now-$?\r');
    await untilText(session.stdout, 'now-0');
    session.stdin.write('exit 4\r');
    session.stdout.resume();
    assert.deepEqual(await session.exited, { code: 4, signal: null });
  },
);

test('ten megabytes come whole and in order, and a slow reader holds them back', real, async () => {
  await using harness = await dockerHarness();
  const { run } = await running(harness);
  const script =
    'i=0; while [ $i -lt 10 ]; do yes 0123456789abcde | head -c 1048576; i=$((i+1)); done';
  const session = await harness.driver.exec(run, ask(script), never);
  session.stdin.end();
  const text = await textOf(session.stdout);
  assert.equal(text.length, 10 * 1048576);
  assert.equal(text, '0123456789abcde\n'.repeat(65536 * 10));
  assert.equal((await session.exited).code, 0);
});

test('one that is killed takes with it what it started, and nothing else', real, async () => {
  await using harness = await dockerHarness();
  const spec = await running(harness);
  const id = await pidsOf(harness, spec);
  const other = await harness.driver.exec(spec.run, ask('exec sleep 1000'), never);
  // Some of it in a session of its own, whose parent has ended.
  const script = 'setsid sleep 1000 & (sleep 1000 &) ; echo up; sleep 1000';
  const session = await harness.driver.exec(spec.run, ask(script), never);
  await untilText(session.stdout, 'up');
  const marked = () => markedPids(id, 'EINSORA_EXEC=').length;
  await until(harness.clock, 'all of it is there', async () => marked() === 4 || null);
  session.kill();
  session.stdout.resume();
  session.stderr?.resume();
  await session.exited;
  await until(harness.clock, 'only the other one is left', async () => marked() === 1 || null);
  const cancel = new AbortController();
  const third = await harness.driver.exec(spec.run, ask('exec sleep 1000'), cancel.signal);
  cancel.abort();
  third.stdout.resume();
  third.stderr?.resume();
  await third.exited;
  await until(harness.clock, 'the called off one is gone', async () => marked() === 1 || null);
  other.kill();
});

test('a program that is not there, or a folder, is told by name', real, async () => {
  await using harness = await dockerHarness();
  const { run } = await running(harness);
  const refused = (text: RegExp) => (error: unknown) =>
    error instanceof DriverError && error.code === 'exec_failed' && text.test(error.message);
  const nothing = ask('', { argv: ['/no/such'] });
  await assert.rejects(harness.driver.exec(run, nothing, never), refused(/no program \/no\/such/));
  const nowhere = ask('pwd', { cwd: '/no/folder' });
  await assert.rejects(harness.driver.exec(run, nowhere, never), refused(/folder/));
  const early = harness.driver.exec(run, ask('true'), AbortSignal.abort());
  await assert.rejects(early, refused(/called off/));
  await harness.driver.stop(run, 'park', 0);
  await assert.rejects(harness.driver.exec(run, ask('true'), never), refused(/does not run/));
});

test(
  'an image without a shell runs, says that it has none, and its files can be read',
  real,
  async () => {
    await using harness = await dockerHarness();
    const image = await shellessImage(harness.engine);
    const { run } = await running(harness, { image, argv: ['/app/sleep', '1000'] });
    const shell: ExecAsk = { argv: [], env: {}, cwd: null, terminal: { columns: 80, rows: 24 } };
    await assert.rejects(harness.driver.exec(run, shell, never), /no shell/);
    const files = await harness.driver.files(run);
    assert.equal(await textOf(await files.read('/app/note.txt', 3)), 'shell here\n');
    await assert.rejects(
      files.list('/app'),
      (error) => error instanceof DriverError && error.code === 'file_refused',
    );
  },
);

test(
  'a run that ends takes its programs with it: their output ends, and their end is told',
  real,
  async () => {
    await using harness = await dockerHarness();
    const { run } = await running(harness);
    const session = await harness.driver.exec(run, ask('echo up; sleep 1000'), never);
    await untilText(session.stdout, 'up');
    session.stdout.resume();
    session.stderr?.resume();
    await harness.driver.stop(run, 'remove', 0);
    const { code } = await session.exited;
    assert.ok(code === null || code === 137);
  },
);

test(
  'a port that a program has open on its own loopback is reached, and no port of the machine',
  real,
  async () => {
    await using harness = await dockerHarness();
    const { run } = await running(harness);
    const script = 'while :; do echo from-inside | nc -l -p 7777; done';
    const server = await harness.driver.exec(run, ask(script), never);
    const said = await until(harness.clock, 'it is reached', async () => {
      const socket = await harness.driver.connect(run, 7777).catch(() => null);
      return socket === null
        ? null
        : untilText(socket, 'from-inside').finally(() => socket.destroy());
    });
    assert.equal(said, 'from-inside\n');
    server.kill();
    const here = createServer();
    here.listen(0, '127.0.0.1');
    await once(here, 'listening');
    const { port } = here.address() as AddressInfo;
    await assert.rejects(
      harness.driver.connect(run, port),
      (error) => error instanceof DriverError && error.code === 'port_unreachable',
    );
    here.close();
  },
);
