/**
 * What a run can reach from inside its sandbox, tried for real.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { until, untilEnded } from '../../../test/contracts/driver.ts';
import {
  type NativeHarness,
  nativeHarness,
  processesWith,
} from '../../../test/lib/native-harness.ts';
import { needs } from '../../../test/lib/parts.ts';
import { runName } from '../../core/run.ts';
import type { RunSpec } from '../driver.ts';

const never = new AbortController().signal;
const real = needs('bwrap', 'cgroup');
const real_with_bash = needs('bwrap', 'cgroup', 'bash');

async function outputOf(harness: NativeHarness, spec: RunSpec): Promise<string> {
  await harness.driver.start(spec, never);
  await untilEnded(harness, spec.run);
  return (await harness.driver.logs(spec.run, 0, 100_000)).text;
}

function connecting(harness: NativeHarness, address: string, changes = {}): RunSpec {
  const script = `exec 3<>/dev/tcp/${address} && echo reached`;
  return harness.shell('', { argv: ['/usr/bin/bash', '-c', script], ...changes });
}

test(
  "the host's loopback is out of reach, but for a run with its network",
  real_with_bash,
  async () => {
    await using harness = nativeHarness();
    const listener = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    try {
      const address = `127.0.0.1/${(listener.address() as AddressInfo).port}`;
      const open = await outputOf(harness, connecting(harness, address, { network: 'host' }));
      assert.match(open, /reached/);
      assert.match(await outputOf(harness, connecting(harness, address)), /refused/);
    } finally {
      listener.close();
    }
  },
);

test('the internet is out of reach', real_with_bash, async () => {
  await using harness = nativeHarness();
  const said = await outputOf(harness, connecting(harness, '1.1.1.1/443'));
  assert.match(said, /Network is unreachable/);
});

test("the host's files are not there: homes, data folder, temp files", real, async () => {
  await using harness = nativeHarness();
  const home = join(harness.folder, '..', 'home');
  mkdirSync(join(home, '.ssh'), { recursive: true });
  writeFileSync(join(home, '.ssh', 'id'), 'private');
  const hidden = [join(home, '.ssh', 'id'), harness.folder, '/root', '/home', '/etc/shadow'];
  const script = hidden.map((path) => `ls -d '${path}' 2>/dev/null && echo seen`).join('\n');
  assert.equal(await outputOf(harness, harness.shell(`${script}; true`)), '');
  const roots = await outputOf(harness, harness.shell('ls /'));
  const allowed = ['bin', 'dev', 'etc', 'lib', 'lib64', 'proc', 'run', 'sbin', 'tmp', 'usr'];
  assert.deepEqual(
    roots
      .trim()
      .split('\n')
      .filter((name) => !allowed.includes(name)),
    [],
  );
});

test('nothing of the system can be written: root, /usr, kernel settings', real, async () => {
  await using harness = nativeHarness();
  const value = '$(cat /proc/sys/kernel/panic)';
  const script = `
    for file in /x /usr/x /etc/x /run/x /proc/x /proc/sys/x; do
      (echo x > $file) 2>/dev/null && echo "wrote $file"
    done
    (echo ${value} > /proc/sys/kernel/panic) 2>/dev/null && echo wrote panic
    for file in $(find /proc -maxdepth 3 -writable -not -path '/proc/[0-9st]*' 2>/dev/null); do
      test -c $file || test -L $file || echo "$file"
    done
    test -e /sys && echo has sys
    echo fine > /tmp/x && echo fine > /run/einsora/x && cat /tmp/x`;
  assert.equal(await outputOf(harness, harness.shell(script)), 'fine\n');
});

test(
  'a run has no capabilities, cannot gain any, and sees only its own processes and descriptors',
  real_with_bash,
  async () => {
    await using harness = nativeHarness();
    const script = `
    grep -E '^Cap(Prm|Eff|Bnd)' /proc/self/status | cut -f2 | sort -u
    unshare -U true 2>/dev/null && echo nested
    test "$(ls -d /proc/[0-9]* | wc -l)" -lt 8 && echo few
    ls /proc/self/fd | xargs`;
    const said = await outputOf(harness, harness.shell(script));
    assert.equal(said, '0000000000000000\nfew\n0 1 2 3\n');
  },
);

test('mounts are read-only unless told otherwise', real, async () => {
  await using harness = nativeHarness();
  const shown = join(harness.folder, '..', 'shown');
  mkdirSync(shown);
  writeFileSync(join(shown, 'model'), 'weights\n');
  const mounts = [
    { source: shown, target: '/data/read', writable: false },
    { source: shown, target: '/data/write', writable: true },
  ];
  const script = `cat /data/read/model
    (echo x > /data/read/new) 2>/dev/null && echo wrote
    echo y > /data/write/kept`;
  assert.equal(await outputOf(harness, harness.shell(script, { mounts })), 'weights\n');
  assert.deepEqual(readdirSync(shown), ['kept', 'model']);
});

test('the environment is what the spec gives, and shows in no command line', real, async () => {
  await using harness = nativeHarness();
  const spec = harness.shell('env | grep -v ^PWD; echo ready; sleep 1000', {
    env: { PATH: '/usr/bin', TOKEN: 'hush-hush-1234' },
  });
  await harness.driver.start(spec, never);
  const said = await until(harness.clock, 'it is ready', async () => {
    const { text } = await harness.driver.logs(spec.run, 0, 1000);
    return text.includes('ready') ? text : null;
  });
  assert.deepEqual(said.trim().split('\n').sort(), [
    'PATH=/usr/bin',
    'TOKEN=hush-hush-1234',
    'ready',
  ]);
  assert.deepEqual(processesWith('hush-hush-1234'), []);
  const files = readdirSync(join(harness.folder, runName(spec.run)));
  assert.ok(!files.includes('bwrap.args'));
});

test(
  'a link in place of a socket does not lead the agent to a socket of the host',
  real,
  async () => {
    await using harness = nativeHarness();
    const secret = join(harness.folder, '..', 'host.sock');
    let reached = 0;
    const listener = createServer((socket) => {
      reached += 1;
      socket.destroy();
    });
    // Listening by a short name: the whole path is longer than a socket address.
    const before = process.cwd();
    process.chdir(join(harness.folder, '..'));
    await new Promise<void>((resolve) => listener.listen('host.sock', resolve));
    process.chdir(before);
    try {
      const spec = harness.shell(
        `ln -s '${secret}' /run/einsora/http.sock; echo ready; sleep 1000`,
      );
      await harness.driver.start(spec, never);
      await until(harness.clock, 'it is ready', async () => {
        return (await harness.driver.logs(spec.run, 0, 1000)).text.includes('ready') || null;
      });
      await assert.rejects(harness.driver.dial(spec.run, 'http'), { code: 'port_unreachable' });
      assert.equal(reached, 0);
    } finally {
      listener.close();
    }
  },
);
