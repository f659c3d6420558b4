import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { needs } from '../../test/lib/parts.ts';
import { type Bench, hangOnInstall, makeBench } from '../../test/lib/wheel-bench.ts';
import { makeWheel } from '../../test/lib/wheel-maker.ts';
import { type Clock, systemClock } from './clock.ts';
import { exec, killGroup, spawnChild } from './exec.ts';
import { readIfThere } from './files.ts';
import { digest } from './secret.ts';
import { installedWheel, installWheel, type WheelOptions, type WheelPin } from './wheel.ts';
import { isAlive } from './wheel-lock.ts';
import { findPython } from './wheel-python.ts';

const child = fileURLToPath(new URL('../../test/lib/wheel-child.ts', import.meta.url));
const python = needs('python');

/** What a child process is given: everything that fits into JSON. */
function childArguments(options: WheelOptions): string[] {
  const { pin, folder, platform, env } = options;
  return [child, JSON.stringify({ pin, folder, platform, env })];
}

function withHash(pin: WheelPin, sha256: string): WheelPin {
  const build = pin.builds.any;
  assert.ok(build);
  return { ...pin, builds: { any: { ...build, sha256 } } };
}

/** Waits for what another process does. */
async function until<T>(look: () => T | null): Promise<T> {
  for (let tries = 0; tries < 1500; tries += 1) {
    const seen = look();
    if (seen !== null) return seen;
    await systemClock.sleep(10);
  }
  throw new Error('it never came');
}

function pidIn(path: string): number | null {
  const text = readIfThere(path);
  return text?.endsWith('\n') ? Number(text) : null;
}

function greeting(bench: Bench): WheelPin {
  return makeWheel(bench.index, 'tiny-greeting', { 'greeting/__init__.py': 'text = "hello"\n' });
}

test(
  'a wheel is installed whole, told in bytes, and found again without Python',
  python,
  async () => {
    using bench = makeBench();
    bench.python();
    const options = bench.options(greeting(bench));
    const progress: number[] = [];
    assert.equal(installedWheel(options), null);
    const onProgress = (done: number) => progress.push(done);
    const result = await installWheel({ ...options, onProgress });
    assert.deepEqual(result, { ok: true, path: join(bench.folder, 'tiny-greeting-1.0') });
    assert.ok(result.ok);
    assert.equal(bench.read(join(result.path, 'greeting/__init__.py')), 'text = "hello"\n');
    assert.deepEqual(
      progress,
      progress.toSorted((a, b) => a - b),
    );
    assert.equal(progress.at(-1), options.pin.builds.any?.bytes);
    assert.deepEqual(readdirSync(bench.folder), ['tiny-greeting-1.0']);
    const offline = { ...options, env: { PATH: '/nowhere' } };
    assert.deepEqual(await installWheel(offline), result);
    assert.equal(installedWheel(options), result.path);
    assert.equal(bench.installs(), 1);
  },
);

test('a wheel with another hash is download_corrupt and nothing of it stays', python, async () => {
  using bench = makeBench();
  bench.python();
  const options = bench.options(withHash(greeting(bench), 'ab'.repeat(32)));
  const result = await installWheel(options);
  assert.equal(result.ok ? null : result.code, 'download_corrupt');
  assert.deepEqual(readdirSync(bench.folder), []);
});

test('a wheel that nobody has is download_failed, with what the client said', python, async () => {
  using bench = makeBench();
  bench.python();
  const options = bench.options({ ...greeting(bench), name: 'tiny-absent' });
  const result = await installWheel(options);
  assert.ok(!result.ok);
  assert.equal(result.code, 'download_failed');
  assert.match(String(result.details.why), /no matching distribution/i);
  assert.equal(result.details.what, 'tiny-absent 1.0');
});

test('without Python and uv it is python_missing', async () => {
  using bench = makeBench();
  const result = await installWheel(bench.options(greeting(bench)));
  assert.equal(result.ok ? null : result.code, 'python_missing');
  assert.deepEqual(readdirSync(bench.folder), []);
});

test('a platform without a build is said before anything else', async () => {
  using bench = makeBench();
  const pin = { name: 'x', version: '1', builds: {} };
  const result = await installWheel({ ...bench.options(pin), platform: 'sunos-x64' });
  assert.ok(!result.ok && result.code === 'install_failed');
  assert.equal(result.details.why, 'there is no build for sunos-x64');
  assert.equal(existsSync(bench.folder), false);
});

test('a disk without room is disk_full before any client is asked', async () => {
  using bench = makeBench();
  bench.python();
  const options = bench.options(greeting(bench));
  const result = await installWheel({ ...options, freeBytes: () => 4096 });
  assert.ok(!result.ok && result.code === 'disk_full');
  assert.equal(result.details.free_bytes, 4096);
  assert.ok(Number(result.details.needed_bytes) > 8_000_000);
  assert.equal(bench.installs(), 0);
});

const with_tmpfs = needs('python', 'tmpfs');
test('a disk that fills up in mid-install is disk_full and nothing stays', with_tmpfs, async () => {
  using bench = makeBench();
  bench.python();
  const big = makeWheel(bench.index, 'tiny-big', { 'big/data.bin': new Uint8Array(2_000_000) });
  mkdirSync(bench.folder);
  const mount = ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', bench.folder];
  assert.equal((await exec('mount', mount, { timeout_ms: 5000 })).code, 0);
  try {
    const result = await installWheel({ ...bench.options(big), freeBytes: () => 2 ** 40 });
    assert.equal(result.ok ? null : result.code, 'disk_full', JSON.stringify(result));
    assert.deepEqual(readdirSync(bench.folder), []);
  } finally {
    await exec('umount', [bench.folder], { timeout_ms: 5000 });
  }
});

test('two installs at once in one process do it once', python, async () => {
  using bench = makeBench();
  bench.python();
  const options = bench.options(greeting(bench));
  const results = await Promise.all([installWheel(options), installWheel(options)]);
  assert.ok(results.every((result) => result.ok));
  assert.equal(bench.installs(), 1);
});

test('two installs at once of two processes do it once', python, async () => {
  using bench = makeBench();
  bench.python();
  const args = childArguments(bench.options(greeting(bench)));
  const run = () => exec(process.execPath, args, { timeout_ms: 60_000 });
  const results = await Promise.all([run(), run()]);
  for (const { stdout, stderr } of results) assert.ok(JSON.parse(stdout || '{}').ok, stderr);
  assert.equal(bench.installs(), 1);
  assert.deepEqual(readdirSync(bench.folder), ['tiny-greeting-1.0']);
});

test('what a killed process left is cleaned by the next install', python, async () => {
  using bench = makeBench();
  const pid_file = join(bench.root, 'pid');
  bench.python(hangOnInstall(pid_file));
  const options = bench.options(greeting(bench));
  const killed = spawnChild(process.execPath, childArguments(options), { env: {} });
  const client_pid = await until(() => pidIn(pid_file));
  const gone = new Promise((resolve) => killed.once('exit', resolve));
  killed.kill('SIGKILL');
  await gone;
  killGroup(client_pid, 'SIGKILL');
  assert.equal(installedWheel(options), null);
  assert.equal(readdirSync(bench.folder).length, 2, 'its lock and its folder');
  bench.python();
  assert.ok((await installWheel(options)).ok);
  assert.deepEqual(readdirSync(bench.folder), ['tiny-greeting-1.0']);
});

test('an abort ends the client and leaves nothing', python, async () => {
  using bench = makeBench();
  const pid_file = join(bench.root, 'pid');
  bench.python(hangOnInstall(pid_file));
  const calling_off = new AbortController();
  const options = { ...bench.options(greeting(bench)), signal: calling_off.signal };
  const install = installWheel(options);
  const client_pid = await until(() => pidIn(pid_file));
  calling_off.abort();
  const result = await install;
  assert.equal(result.ok ? null : result.code, 'aborted');
  assert.equal(isAlive(client_pid), false);
  assert.deepEqual(readdirSync(bench.folder), []);
});

test('a client that brings no byte for two minutes is given up', python, async () => {
  using bench = makeBench();
  bench.python(hangOnInstall(join(bench.root, 'pid')));
  let now = 0;
  const hurried: Clock = {
    ...systemClock,
    monotonic: () => now,
    sleep: async (ms, signal) => {
      now += ms;
      await systemClock.sleep(1, signal);
    },
  };
  const result = await installWheel({ ...bench.options(greeting(bench)), clock: hurried });
  assert.ok(!result.ok && result.code === 'download_failed');
  assert.equal(result.details.why, 'no byte arrived for 120 s');
  assert.deepEqual(readdirSync(bench.folder), []);
});

test('a damaged install is noticed and made again', python, async () => {
  using bench = makeBench();
  bench.python();
  const options = bench.options(greeting(bench));
  const first = await installWheel(options);
  assert.ok(first.ok);
  const file = join(first.path, 'greeting/__init__.py');
  truncateSync(file, 3);
  assert.equal(installedWheel(options), null);
  assert.deepEqual(await installWheel(options), first);
  assert.equal(bench.read(file), 'text = "hello"\n');
});

test('one file of a wheel can be kept alone, under another name', python, async () => {
  using bench = makeBench();
  bench.python();
  const options = bench.options(greeting(bench));
  const keep = { file: 'greeting/__init__.py', as: 'kept.py' };
  const result = await installWheel({ ...options, keep, executables: ['kept.py'] });
  assert.ok(result.ok);
  assert.deepEqual(readdirSync(result.path), ['.complete.json', 'kept.py']);
  assert.equal(statSync(join(result.path, 'kept.py')).mode & 0o777, 0o755);
});

test('where uv fails, pip is tried, and what uv was asked names the hash', python, async () => {
  using bench = makeBench();
  bench.python();
  const told = join(bench.root, 'uv-calls');
  bench.script('uv', `echo "$*" >> ${told}; echo "error: no such index" >&2; exit 2`);
  const result = await installWheel(bench.options(greeting(bench)));
  assert.ok(result.ok);
  assert.match(bench.read(told), /pip install .*--no-deps --require-hashes --only-binary :all:/);
  assert.equal(bench.installs(), 1);
});

test('a Python without pip makes a virtual environment that has it', python, async () => {
  using bench = makeBench();
  bench.python('case "$*" in "-m pip "*) exit 1;; esac');
  const result = await installWheel(bench.options(greeting(bench)));
  assert.ok(result.ok, JSON.stringify(result));
  assert.deepEqual(readdirSync(bench.folder), ['tiny-greeting-1.0']);
});

/** Two wheels as one set, pinned by the text that names them. */
function setOf(bench: Bench, wrong = ''): WheelPin {
  const parts = ['first', 'second'].map((name) =>
    makeWheel(bench.index, name, { [`${name}.py`]: `word = "${name}"\n` }),
  );
  const requirements = parts
    .map(({ name, version, builds }) => {
      const sha256 = name === wrong ? '0'.repeat(64) : builds.any?.sha256;
      return `${name}==${version} \\\n    --hash=sha256:${sha256}\n`;
    })
    .join('');
  const builds = { any: { sha256: digest(requirements), bytes: 2000, unpacked_bytes: 4000 } };
  return { name: 'both', version: '2-py3', builds, requirements };
}

test('a set of wheels is installed whole, by the Python that it is for', python, async () => {
  using bench = makeBench();
  bench.python();
  const other = await findPython({ env: { PATH: bench.bin }, clock: systemClock });
  assert.ok(other);
  const options = { ...bench.options(setOf(bench)), python: other };
  const result = await installWheel(options);
  assert.deepEqual(result, { ok: true, path: join(bench.folder, 'both-2-py3') });
  for (const name of ['first', 'second']) {
    assert.ok(existsSync(join(bench.folder, 'both-2-py3', `${name}.py`)));
  }
  assert.deepEqual(await installWheel({ ...options, env: { PATH: '/nowhere' } }), result);
  assert.equal(bench.installs(), 1);
});

test('one wheel of a set with another hash leaves nothing of the set', python, async () => {
  using bench = makeBench();
  bench.python();
  const result = await installWheel(bench.options(setOf(bench, 'second')));
  assert.equal(result.ok ? '' : result.code, 'download_corrupt');
  assert.deepEqual(readdirSync(bench.folder), []);
});
