/**
 * SSH on the real program: into a notebook of the machine itself, and into a container.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { createEngine } from '../../src/drivers/docker/engine.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { exec, spawnChild } from '../../src/lib/exec.ts';
import { digest } from '../../src/lib/secret.ts';
import { debianImage } from '../lib/docker-catalog.ts';
import { needs } from '../lib/parts.ts';
import {
  cleanUp,
  type Program,
  repository,
  startProgram,
  temporaryFolder,
} from '../lib/program.ts';
import { clientEnv } from '../lib/ssh-rig.ts';

const launcher = join(repository, 'bin/einsora');

/** OpenSSH through what ssh-config wrote, into `<name>.einsora`. */
async function clientOf(data_dir: string) {
  const home = join(data_dir, 'a home');
  mkdirSync(join(home, '.ssh'), { recursive: true, mode: 0o700 });
  const env = { ...clientEnv(home), SHELL: '/bin/sh' };
  const args = ['--data-dir', data_dir, 'ssh-config', '--write'];
  const written = await exec(launcher, args, { env, timeout_ms: 60_000 });
  assert.equal(written.code, 0, written.stderr);
  const settings = ['-F', join(home, '.ssh/config'), '-o', 'BatchMode=yes'];
  const run = (program: string, rest: string[], input?: string) =>
    exec(program, [...settings, ...rest], {
      ...{ env, timeout_ms: 120_000, output_limit_bytes: 64 * 1024 * 1024 },
      ...(input === undefined ? {} : { input }),
    });
  return { home, env, settings, run };
}

type Client = Awaited<ReturnType<typeof clientOf>>;

async function runsAndCopies({ home, run }: Client, host: string): Promise<void> {
  const asked = await run('ssh', [host, 'cat; echo err >&2; exit 7'], 'typed');
  assert.deepEqual([asked.code, asked.stdout, asked.stderr], [7, 'typed', 'err\n']);
  const killed = await run('ssh', [host, 'kill -KILL $$']);
  assert.ok(killed.code !== 0, `${killed.code}`);
  const much = await run('ssh', [host, 'head -c 10000000 /dev/zero | tr "\\0" "x"']);
  assert.equal(digest(much.stdout), digest('x'.repeat(10_000_000)));
  const shown = await run(
    'ssh',
    ['-tt', host, 'stty size; test -t 0 && test -t 1 && echo both'],
    '',
  );
  assert.match(shown.stdout, /24 80\s+both/);

  const from = join(home, 'sent');
  mkdirSync(join(from, 'deep er'), { recursive: true });
  const big = Buffer.alloc(3_000_000, 'einsora ');
  writeFileSync(join(from, 'deep er/big'), big);
  writeFileSync(join(from, 'run me'), '#!/bin/sh\necho it ran\n', { mode: 0o755 });
  const up = await run('scp', ['-r', from, `${host}:came`]);
  assert.equal(up.code, 0, up.stderr);
  const ran = await run('ssh', [host, 'pwd; "./came/run me"; sha256sum < "came/deep er/big"']);
  assert.equal(ran.stdout, `/workspace\nit ran\n${digest(big)}  -\n`);
  const down = await run('scp', ['-r', `${host}:/workspace/came`, join(home, 'back')]);
  assert.equal(down.code, 0, down.stderr);
  assert.deepEqual(readFileSync(join(home, 'back/deep er/big')), big);
  const batch = join(home, 'batch');
  writeFileSync(batch, 'rename came/run\\ me came/moved\nls -l came\nrm came/moved\n');
  const listed = await run('sftp', ['-b', batch, host]);
  assert.equal(listed.code, 0, listed.stderr);
  assert.match(listed.stdout, /-rwxr-xr-x .* 22 .* moved/);
}

/** A port that a program opens in there, by -L on a socket of ours. */
async function forwards({ home, env, settings }: Client, host: string, program: string) {
  const local = join(home, 'forwarded');
  const args = [...settings, '-o', 'ExitOnForwardFailure=yes', '-L', `${local}:localhost:8123`];
  const client = spawnChild('ssh', [...args, host, program], { env });
  try {
    const page = await until(async () => {
      const socket = connect(local);
      let answer = '';
      socket.on('error', () => {});
      socket.end('GET / HTTP/1.0\r\n\r\n');
      socket.on('data', (data) => {
        answer += data;
      });
      await once(socket, 'close').catch(() => null);
      return answer === '' ? null : answer;
    });
    assert.match(page, /200 OK/);
  } finally {
    client.kill();
    await once(client, 'exit');
  }
}

async function until<T>(look: () => Promise<T | null>): Promise<T> {
  const deadline = systemClock.monotonic() + 30_000;
  for (;;) {
    const found = await look();
    if (found !== null) return found;
    assert.ok(systemClock.monotonic() < deadline, 'it took too long');
    await systemClock.sleep(100);
  }
}

/** A session that would go on; resolves once its program runs. */
async function staying({ env, settings }: Client, host: string) {
  const client = spawnChild('ssh', [...settings, host, 'echo on; sleep 600'], { env });
  let said = '';
  client.stderr?.on('data', (data) => {
    said += data;
  });
  const ended = once(client, 'exit') as Promise<[number | null]>;
  if (client.stdout !== null) await once(client.stdout, 'data');
  return { ended: async () => ({ code: (await ended)[0], said }) };
}

async function endsByStop(program: Program, client: Client, name: string): Promise<void> {
  const session = await staying(client, `${name}.einsora`);
  const stopped = program.cli(['stop', name]);
  const { code, said } = await session.ended();
  assert.equal(code, 255);
  assert.match(said, new RegExp(`einsora: ${name} was stopped, or begun anew`));
  assert.equal((await stopped).code, 0);
}

const web = 'python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1';

test(
  'a notebook of the machine itself: commands, files, ports, and the end of each',
  needs('ssh', 'python', 'bwrap', 'cgroup'),
  async () => {
    const data_dir = temporaryFolder();
    const program = await startProgram({ data_dir });
    try {
      const made = await program.cli(['launch', 'notebook', '--name', 'lab'], 240_000);
      assert.equal(made.code, 0, made.stderr);
      const client = await clientOf(data_dir);
      await runsAndCopies(client, 'lab.einsora');
      await forwards(client, 'lab.einsora', web);
      const outside = new URL(program.url).port;
      const refused = await client.run('ssh', ['-W', `localhost:${outside}`, 'lab.einsora'], '');
      assert.match(refused.stderr, /no program of the workload has it open/);
      await endsByStop(program, client, 'lab');
      assert.equal((await program.cli(['start', 'lab'], 120_000)).code, 0);
      const session = await staying(client, 'lab.einsora');
      await program.kill();
      const { code } = await session.ended();
      assert.equal(code, 255);
    } finally {
      await cleanUp(data_dir, program);
    }
  },
);

test('an instance in a container: the same', needs('ssh', 'docker'), async () => {
  const engine = createEngine('/var/run/docker.sock', systemClock);
  const image = await debianImage(engine);
  const data_dir = temporaryFolder();
  const program = await startProgram({ data_dir });
  try {
    const key = join(data_dir, 'key');
    const keygen = ['-q', '-t', 'ed25519', '-N', '', '-f', key];
    await exec('ssh-keygen', keygen, { env: clientEnv(data_dir), timeout_ms: 20_000 });
    const args = ['launch', 'instance', '--name', 'box', '--image', image];
    const made = await program.cli([...args, '--ssh-key', `${key}.pub`], 240_000);
    assert.equal(made.code, 0, made.stderr);
    const client = await clientOf(data_dir);
    const refused = await client.run('ssh', ['box.einsora', 'true']);
    assert.match(refused.stderr, /Permission denied \(publickey\)/);
    client.settings.push('-i', key);
    await runsAndCopies(client, 'box.einsora');
    const serve =
      "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 5, ReuseAddr => 1, " +
      'LocalAddr => "127.0.0.1:8123") or die; while ($c = $s->accept) { print $c ' +
      '"HTTP/1.0 200 OK\\r\\n\\r\\nhi"; close $c }\'';
    await forwards(client, 'box.einsora', serve);
    await endsByStop(program, client, 'box');
  } finally {
    await cleanUp(data_dir, program);
  }
});
