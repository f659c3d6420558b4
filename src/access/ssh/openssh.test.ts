/**
 * The real OpenSSH client against our server: programs, terminals, files, ports.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { needs } from '../../../test/lib/parts.ts';
import {
  clientEnv,
  createSshRig,
  makeKey,
  type SshRig,
  inTerminal as startInTerminal,
  startPiped,
} from '../../../test/lib/ssh-rig.ts';
import { EinsoraError } from '../../contract/errors.ts';
import { systemClock } from '../../lib/clock.ts';

const part = needs('ssh', 'bash');
let rig: SshRig;
before(async () => {
  if (part.skip === false) rig = await createSshRig();
});
after(() => rig?.close());

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');
const there = () => join(rig.root, 'workspace');

test('a command says what it printed on each stream, and how it ended', part, async () => {
  const asked = await rig.ssh(['echo out; echo err >&2; exit 7']);
  assert.deepEqual(
    { code: asked.code, out: asked.stdout, err: asked.stderr },
    { code: 7, out: 'out\n', err: 'err\n' },
  );
});

test('a command that a signal ends is told so', part, async () => {
  const asked = await rig.ssh(['-v', 'kill -TERM $$']);
  assert.equal(asked.code, 255);
  assert.match(asked.stderr, /exit-signal|signal TERM/);
});

test('what is typed into a command reaches it, and its end too', part, async () => {
  const input = 'a line\n'.repeat(40_000);
  const asked = await rig.ssh(['sha256sum'], { input });
  assert.match(asked.stdout, new RegExp(`^${sha256(input)} `));
});

test('a command that does not read what is typed ends all the same', part, async () => {
  const asked = await rig.ssh(['exit 4'], { input: 'x'.repeat(3_000_000) });
  assert.equal(asked.code, 4);
});

test('ten megabytes of output come as they are, beside standard error', part, async () => {
  const make = 'head -c 10000000 /dev/zero | tr "\\0" "x"';
  const asked = await rig.ssh([`(${make}) & (${make} | tr x y >&2); wait`]);
  assert.equal(asked.code, 0);
  assert.equal(sha256(asked.stdout), sha256('x'.repeat(10_000_000)));
  assert.equal(sha256(asked.stderr), sha256('y'.repeat(10_000_000)));
});

test('variables that the client sends are there', part, async () => {
  const asked = await rig.ssh(['-o', 'SetEnv LC_FAVOURITE="a b"', 'echo "$LC_FAVOURITE"']);
  assert.equal(asked.stdout, 'a b\n');
});

test('without a command there is a login shell', part, async () => {
  const asked = await rig.ssh([], { input: 'shopt -q login_shell && echo login; exit 5\n' });
  assert.deepEqual([asked.code, asked.stdout], [5, 'login\n']);
});

test(
  'new keys are exchanged in the middle of a long output, and nothing is lost',
  part,
  async () => {
    const make = 'head -c 30000000 /dev/zero | tr "\\0" "x"';
    const asked = await rig.ssh(['-o', 'RekeyLimit=1M', make]);
    assert.equal(asked.code, 0);
    assert.equal(sha256(asked.stdout), sha256('x'.repeat(30_000_000)));
  },
);

for (const cipher of [
  'aes128-gcm@openssh.com',
  'aes256-gcm@openssh.com',
  'chacha20-poly1305@openssh.com',
]) {
  test(`${cipher} works both ways`, part, async () => {
    const input = 'y'.repeat(300_000);
    const asked = await rig.ssh(['-c', cipher, 'cat'], { input });
    assert.equal(sha256(asked.stdout), sha256(input));
  });
}

test('what is weak is not spoken', part, async () => {
  for (const weak of [
    'Ciphers=aes128-ctr,aes256-cbc',
    'KexAlgorithms=diffie-hellman-group14-sha1,ecdh-sha2-nistp256',
    'HostKeyAlgorithms=ssh-rsa,rsa-sha2-512',
  ]) {
    const asked = await rig.ssh(['-o', weak, 'true']);
    assert.equal(asked.code, 255, weak);
    assert.match(asked.stderr, /no matching/);
  }
});

test('a host key that is not the pinned one is refused', part, async () => {
  const other = await makeKey(rig.folder, 'other-host', ['-t', 'ed25519']);
  const wrong = join(rig.folder, 'wrong');
  writeFileSync(wrong, `[127.0.0.1]:${rig.port} ${readFileSync(`${other}.pub`, 'utf8')}`);
  const asked = await rig.ssh(['true'], { first: ['-o', `UserKnownHostsFile=${wrong}`] });
  assert.equal(asked.code, 255);
  assert.match(asked.stderr, /REMOTE HOST IDENTIFICATION HAS CHANGED|verification failed/);
});

function clientOf(program: string, args: string[]) {
  const { folder } = rig;
  return startPiped(program, args, { env: clientEnv(folder), cwd: folder, folder });
}

/** A client in a terminal of ours: types, and resolves once what is shown matches. */
function inTerminal(args: string[]) {
  const all = [...rig.options, '-p', String(rig.port), '-tt', 'me@127.0.0.1', ...args];
  const env = { ...clientEnv(rig.folder), TERM: 'xterm-256color' };
  const client = startInTerminal('ssh', all, { env, cwd: '/', size: { columns: 90, rows: 30 } });
  let shown = '';
  client.stdout.on('data', (chunk: Buffer) => {
    shown += chunk.toString();
    client.stdout.emit('shown');
  });
  const until = async (pattern: RegExp) => {
    while (!pattern.test(shown)) await once(client.stdout, 'shown');
    return shown;
  };
  return { client, until, type: (text: string) => client.stdin.write(text) };
}

test('a terminal has the size of the client, and follows it', part, async () => {
  const { client, until, type } = inTerminal([]);
  type('stty size; echo "$TERM"\n');
  await until(/30 90\s+xterm-256color/);
  client.resize({ columns: 132, rows: 50 });
  type(
    'for i in $(seq 50); do [ "$(stty size)" = "50 132" ] && break; sleep 0.1; done; stty size\n',
  );
  await until(/50 132/);
  type('exit 6\n');
  assert.deepEqual(await client.exited, { code: 6, signal: null });
});

test('Ctrl-C in a terminal interrupts what runs there', part, async () => {
  const { client, until, type } = inTerminal([
    "trap 'echo got it; exit 9' INT; echo rea''dy; read x",
  ]);
  await until(/ready/);
  type('\x03');
  await until(/got it/);
  assert.equal((await client.exited).code, 9);
});

test('a client that is killed takes its program with it', part, async () => {
  const all = [...rig.options, '-p', String(rig.port), 'me@127.0.0.1'];
  const command = 'echo $$; exec sleep 600';
  const client = await clientOf('ssh', [...all, command]);
  const [first] = (await once(client.stdout, 'data')) as [Buffer];
  const pid = Number(first.toString());
  process.kill(client.pid, 'SIGKILL');
  await client.exited;
  await waitFor(async () => !isAlive(pid));
});

test('files go there and come back by scp, whole folders too', part, async () => {
  const big = Buffer.alloc(3_500_000, 'einsora ');
  const from = join(rig.folder, 'up');
  mkdirSync(join(from, 'deeper'), { recursive: true });
  writeFileSync(join(from, 'a file'), 'small', { mode: 0o755 });
  writeFileSync(join(from, 'deeper', 'big'), big);
  writeFileSync(join(from, 'deeper', 'empty'), '');
  const scp = (...args: string[]) =>
    rig.run('scp', [...rig.options, '-P', String(rig.port), '-r', ...args]);
  const up = await scp(from, 'me@127.0.0.1:sent');
  assert.equal(up.stderr, '');
  assert.equal(up.code, 0);
  assert.deepEqual(readFileSync(join(there(), 'sent/deeper/big')), big);
  const down = await scp('me@127.0.0.1:/workspace/sent', join(rig.folder, 'down'));
  assert.equal(down.code, 0, down.stderr);
  assert.deepEqual(readFileSync(join(rig.folder, 'down/deeper/big')), big);
  assert.equal(readFileSync(join(rig.folder, 'down/a file'), 'utf8'), 'small');
  assert.equal(readFileSync(join(rig.folder, 'down/deeper/empty'), 'utf8'), '');
});

test('a file that is overwritten by a shorter one keeps nothing of the old', part, async () => {
  writeFileSync(join(there(), 'over'), 'a long text that was there');
  writeFileSync(join(rig.folder, 'short'), 'short');
  const args = [...rig.options, '-P', String(rig.port)];
  const up = await rig.run('scp', [...args, join(rig.folder, 'short'), 'me@127.0.0.1:over']);
  assert.equal(up.code, 0, up.stderr);
  assert.equal(readFileSync(join(there(), 'over'), 'utf8'), 'short');
});

test('scp says what is not there', part, async () => {
  const args = [...rig.options, '-P', String(rig.port), 'me@127.0.0.1:missing', rig.folder];
  const asked = await rig.run('scp', args);
  assert.notEqual(asked.code, 0);
  assert.match(asked.stderr, /No such file/i);
});

/** Runs lines of sftp; each must succeed unless it begins with a dash. */
async function sftp(...lines: string[]) {
  const batch = join(rig.folder, 'batch');
  writeFileSync(batch, `${lines.join('\n')}\n`);
  return rig.run('sftp', [...rig.options, '-P', String(rig.port), '-b', batch, 'me@127.0.0.1']);
}

test('sftp makes, lists, renames and removes', part, async () => {
  writeFileSync(join(rig.folder, 'one'), 'the first half, ');
  writeFileSync(join(rig.folder, 'both'), 'the first half, and the second');
  const done = await sftp(
    ...['pwd', 'mkdir box', '-mkdir box', `put "${join(rig.folder, 'one')}" box/one`],
    ...['ls -l box', 'rename box/one box/two', '-rmdir box', 'chmod 600 box/two'],
    ...[`reput "${join(rig.folder, 'both')}" box/two`, `get box/two "${join(rig.folder, 'back')}"`],
    ...['-ln -s box/two box/link', '-get box/none', 'rm box/two', 'rmdir box', 'ls'],
  );
  assert.equal(done.code, 0, done.stderr);
  assert.match(done.stdout, /Remote working directory: \/workspace/);
  assert.match(done.stdout, /-rw-\S+ +1 \S+ +\S+ +16 .* one\n/);
  assert.match(done.stderr, /remote mkdir "?.*box"?: Failure/);
  assert.equal(readFileSync(join(rig.folder, 'back'), 'utf8'), 'the first half, and the second');
  assert.ok(!(await readdir(there())).includes('box'));
});

test('an upload that is cut in the middle leaves the old file', part, async () => {
  writeFileSync(join(there(), 'kept'), 'old');
  writeFileSync(join(rig.folder, 'huge'), Buffer.alloc(60_000_000, 1));
  const args = [...rig.options, '-P', String(rig.port), '-l', '20000', 'me@127.0.0.1'];
  const client = await clientOf('sftp', args);
  client.stdin.write('put huge kept\n');
  await waitFor(async () => (await readdir(there())).includes('kept.part'));
  process.kill(client.pid, 'SIGKILL');
  await waitFor(async () => !(await readdir(there())).includes('kept.part'));
  assert.equal(readFileSync(join(there(), 'kept'), 'utf8'), 'old');
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function waitFor(is_true: () => Promise<boolean>): Promise<void> {
  while (!(await is_true())) await new Promise(setImmediate);
}

test('a port of the run is reached by -L, by many at once, both ways', part, async () => {
  const echo = createServer((socket) => void socket.pipe(socket));
  await once(echo.listen(0, '127.0.0.1'), 'listening');
  const { port } = echo.address() as AddressInfo;
  const local = join(rig.folder, 'local.sock');
  const all = [...rig.options, '-p', String(rig.port), '-N', '-o', 'ExitOnForwardFailure=yes'];
  const args = [...all, '-L', `${local}:localhost:${port}`, 'me@127.0.0.1'];
  const client = await clientOf('ssh', args);
  await waitFor(async () => (await readdir(rig.folder)).includes('local.sock'));
  const talk = async (text: string) => {
    const socket = connect(local);
    socket.end(text);
    let answer = '';
    for await (const chunk of socket) answer += chunk;
    return answer;
  };
  const texts = Array.from({ length: 12 }, (_, index) => `${index}`.repeat(200_000));
  assert.deepEqual(await Promise.all(texts.map(talk)), texts);
  echo.close();
  process.kill(client.pid, 'SIGTERM');
  await client.exited;
});

test('only localhost of the run is reached, and -R is refused with words', part, async () => {
  const out = await rig.ssh(['-v', '-W', '192.0.2.1:80']);
  assert.notEqual(out.code, 0);
  assert.match(out.stderr, /only localhost of the workload can be reached, not 192\.0\.2\.1/);
  const back = await rig.ssh(['-R', '0:localhost:1', 'echo on']);
  assert.match(back.stderr, /einsora: .*-R/);
  assert.equal(back.stdout, 'on\n');
});

test('X11 and the agent are not forwarded, and the session goes on', part, async () => {
  const asked = await rig.ssh(['-A', 'echo "[$SSH_AUTH_SOCK]"']);
  assert.deepEqual([asked.code, asked.stdout], [0, '[]\n']);
});

test('ten sessions ride on one connection of a ControlMaster', part, async () => {
  const control = join(rig.folder, 'c');
  const before_it = rig.served.length;
  const shared = ['-o', `ControlPath=${control}`];
  const opened = await rig.ssh(['-M', '-f', '-N', ...shared]);
  assert.equal(opened.code, 0, opened.stderr);
  const asked = await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      rig.ssh([...shared, `head -c ${index}00000 /dev/zero | wc -c; sleep 0.05; exit ${index}`]),
    ),
  );
  assert.deepEqual(
    asked.map(({ code, stdout }) => [code, stdout.trim()]),
    asked.map((_, index) => [index, `${index}00000`.replace(/^0+$/, '0')]),
  );
  assert.equal(rig.served.length, before_it + 1);
  await rig.ssh([...shared, '-O', 'exit']);
});

test('a program that cannot be started is said, with its reason', part, async () => {
  const exec = () =>
    Promise.reject(new EinsoraError('exec_failed', { name: 'box', why: 'no shell' }));
  const other = await createSshRig({ inside: { exec } });
  const asked = await other.ssh(['true']);
  assert.equal(asked.code, 255);
  assert.match(asked.stderr, /einsora: No program could be started beside box: no shell/);
  await other.close();
});

test('a server that goes away in the middle ends the client with an error', part, async () => {
  const other = await createSshRig();
  const asked = other.ssh(['echo on; sleep 600']);
  await waitFor(async () => other.served.length === 1 && other.lines.length > 0);
  await other.close();
  assert.equal((await asked).code, 255);
});

test('who is cut off is told why, at once', part, async () => {
  const before_it = rig.lines.length;
  const asked = rig.ssh(['echo on; sleep 600']);
  await waitFor(async () => rig.lines.length > before_it);
  await systemClock.sleep(300);
  const began = systemClock.monotonic();
  rig.served.at(-1)?.cut('your token was revoked');
  const { code, stderr } = await asked;
  assert.ok(systemClock.monotonic() - began < 1000);
  assert.equal(code, 255);
  assert.match(stderr, /einsora: your token was revoked/);
});
