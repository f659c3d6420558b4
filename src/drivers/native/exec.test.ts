/**
 * Programs beside a native run, for real: what they are, what they reach, what is left of them.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { test } from 'node:test';
import { until } from '../../../test/contracts/driver.ts';
import {
  type NativeHarness,
  nativeHarness,
  processesWith,
} from '../../../test/lib/native-harness.ts';
import { needs } from '../../../test/lib/parts.ts';
import { runName } from '../../core/run.ts';
import type { ExecAsk } from '../../lib/session.ts';
import type { RunSpec } from '../driver.ts';
import type { Group } from './cgroup.ts';
import { foldersOf, innerFolders } from './group.ts';

const never = new AbortController().signal;
const real = needs('bwrap', 'cgroup');

async function running(harness: NativeHarness, changes: Partial<RunSpec> = {}): Promise<RunSpec> {
  const spec = harness.shell('echo ready; while :; do sleep 0.05; done', changes);
  await harness.driver.start(spec, never);
  await until(harness.clock, 'it is ready', async () => {
    return (await harness.driver.logs(spec.run, 0, 1000)).text.includes('ready') || null;
  });
  return spec;
}

async function sh(harness: NativeHarness, spec: RunSpec, script: string, more?: Partial<ExecAsk>) {
  const ask = { argv: ['sh', '-c', script], env: {}, cwd: null, terminal: null, ...more };
  return harness.driver.exec(spec.run, ask, never);
}

async function said(harness: NativeHarness, spec: RunSpec, script: string): Promise<string> {
  const session = await sh(harness, spec, script);
  session.stderr?.resume();
  const out = await text(session.stdout);
  await session.exited;
  return out;
}

test('it is in the sandbox of the run: its files, processes, name and network', real, async () => {
  await using harness = nativeHarness();
  const spec = await running(harness, { env: { PATH: '/usr/bin:/bin', GIVEN: 'by the spec' } });
  const script = `
    echo x > /tmp/left; hostname; echo $GIVEN; ls -d /home /root /etc/shadow /sys 2>/dev/null
    cat /proc/2/cmdline | tr '\\0' ' ' | cut -c1-12
    for space in mnt pid net ipc uts user cgroup; do
      test "$(readlink /proc/self/ns/$space)" = "$(readlink /proc/2/ns/$space)" || echo "other $space"
    done; ls /sys/class/net 2>/dev/null; cat /proc/net/dev | tail -n +3 | cut -d: -f1 | xargs`;
  assert.equal(await said(harness, spec, script), 'einsora\nby the spec\n/bin/sh -c e\nlo\n');
  assert.equal(await said(harness, spec, 'cat /tmp/left'), 'x\n');
});

test(
  'it has no capabilities, can gain none, and nothing of the host is open in it',
  real,
  async () => {
    await using harness = nativeHarness();
    const spec = await running(harness);
    const script = `
    grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | cut -f2 | sort -u
    grep NoNewPrivs /proc/self/status | cut -f2
    unshare -U true 2>/dev/null && echo nested
    nsenter -t 1 -m true 2>/dev/null && echo entered
    (echo x > /usr/x) 2>/dev/null && echo wrote
    for fd in $(ls /proc/self/fd); do test -d /proc/self/fd/$fd && echo "a folder is open"; done
    ls /proc/self/fd | xargs; env | cut -d= -f1 | sort | xargs`;
    const out = await said(harness, spec, script);
    const lines = out.trim().split('\n');
    if (process.getuid?.() === 0) assert.equal(lines.shift(), '0000000000000000');
    else while (/^[0-9a-f]{16}$/.test(lines[0] ?? '')) lines.shift();
    assert.deepEqual(lines.slice(0, 2), ['1', '0 1 2 3']);
    assert.match(lines[2] ?? '', /^HOME PATH PWD( SHLVL)?( _)?$/);
  },
);

test(
  'it shares the caps of the run, and dies where memory runs out, not the agent',
  real,
  async () => {
    await using harness = nativeHarness();
    const spec = await running(harness, { memory_bytes: 64 * 2 ** 20 });
    const session = await sh(harness, spec, 'exec tail /dev/zero');
    session.stdout.resume();
    session.stderr?.resume();
    assert.deepEqual(await session.exited, { code: null, signal: 'SIGKILL' });
    const group = harness.file(spec, 'run.json').group as Group;
    const held = await sh(harness, spec, 'echo ready; exec sleep 98764');
    held.stderr?.resume();
    await new Promise((resolve) => held.stdout.once('data', resolve));
    const sleeper = await until(harness.clock, 'it sleeps', async () => {
      const found = processesWith('98764');
      return found.find((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8') === 'sleep\n') ?? null;
    });
    const lines = readFileSync(`/proc/${sleeper}/cgroup`, 'utf8');
    for (const folder of foldersOf(group)) {
      assert.ok(lines.includes(runName(spec.run)), `${folder} holds it:\n${lines}`);
    }
    held.kill();
    await held.exited;
  },
);

test('what it leaves in the background stays with the run and ends with it', real, async () => {
  await using harness = nativeHarness();
  const spec = await running(harness);
  const session = await sh(harness, spec, 'setsid sleep 98762 & echo left');
  session.stderr?.resume();
  assert.equal(await text(session.stdout), 'left\n');
  assert.equal((await session.exited).code, 0);
  assert.ok(processesWith('98762').length > 0);
  assert.deepEqual(innerGroups(harness, spec), [], 'its own group is dissolved');
  await harness.driver.stop(spec.run, 'park', 0);
  assert.deepEqual(processesWith('98762'), []);
});

test('a kill reaches what has left its session, and what forks all the time', real, async () => {
  await using harness = nativeHarness();
  const spec = await running(harness);
  const script = 'setsid sh -c "while :; do sleep 0.98763 & sleep 0.01; done" & echo ready; wait';
  const session = await sh(harness, spec, script);
  session.stderr?.resume();
  await new Promise((resolve) => session.stdout.once('data', resolve));
  session.stdout.resume();
  session.kill();
  assert.equal((await session.exited).signal, 'SIGKILL');
  await until(harness.clock, 'all of it is gone', async () => {
    return processesWith('98763').length === 0 || null;
  });
  assert.equal((await harness.driver.observe())[0]?.state, 'running');
});

test('a hundred in turn, and ten that are broken off, leave nothing', real, async () => {
  await using harness = nativeHarness();
  const spec = await running(harness);
  await said(harness, spec, 'true');
  const before = { files: openFiles(), inside: filesOf(harness, spec) };
  for (let round = 0; round < 10; round += 1) {
    await Promise.all(
      Array.from({ length: 10 }, async (_, number) => {
        assert.equal(await said(harness, spec, `echo ${number}`), `${number}\n`);
      }),
    );
    const broken = await sh(harness, spec, 'sleep 1000', { terminal: { columns: 80, rows: 24 } });
    broken.stdout.resume();
    broken.kill();
    await broken.exited;
  }
  await until(harness.clock, 'its descriptors are closed', async () => {
    return openFiles() <= before.files || null;
  });
  assert.deepEqual(filesOf(harness, spec), before.inside);
  assert.deepEqual(innerGroups(harness, spec), []);
});

test('a gigabyte goes through to a reader that takes it, in bounded memory', real, async () => {
  await using harness = nativeHarness();
  const spec = await running(harness);
  const session = await sh(harness, spec, 'head -c 1000000000 /dev/zero');
  session.stderr?.resume();
  const before = process.memoryUsage().rss;
  let bytes = 0;
  let most = 0;
  for await (const chunk of session.stdout) {
    bytes += (chunk as Buffer).length;
    most = Math.max(most, process.memoryUsage.rss() - before);
  }
  assert.equal(bytes, 1_000_000_000);
  assert.ok(most < 150 * 2 ** 20, `${most} bytes more`);
});

test(
  'a reader that takes nothing holds the program up, and memory stays as it is',
  real,
  async () => {
    await using harness = nativeHarness();
    const spec = await running(harness);
    const session = await sh(harness, spec, 'head -c 100000000 /dev/zero; echo over > /tmp/over');
    await harness.clock.sleep(500);
    assert.equal(await said(harness, spec, 'cat /tmp/over 2>/dev/null'), '');
    session.stderr?.resume();
    assert.equal((await buffer(session.stdout)).length, 100_000_000);
    assert.equal(await said(harness, spec, 'cat /tmp/over'), 'over\n');
  },
);

test('what is asked for wrongly is refused before anything starts', real, async () => {
  await using harness = nativeHarness();
  const spec = await running(harness);
  const ask = { argv: ['true'], env: {}, cwd: null, terminal: null };
  const wrongs: Partial<ExecAsk>[] = [
    { argv: ['a\0b'] },
    { env: { 'A B': 'x' } },
    { env: { 'X;touch /tmp/evil': 'x' } },
    { argv: ['x'.repeat(200_000)] },
    { cwd: '/a\0' },
  ];
  for (const wrong of wrongs) {
    await assert.rejects(harness.driver.exec(spec.run, { ...ask, ...wrong }, never), {
      code: 'exec_failed',
    });
  }
  const quotes = `'"$(touch /tmp/evil)\n;\\`;
  const session = await harness.driver.exec(
    spec.run,
    { ...ask, argv: ['printf', '%s', quotes], env: { Q: quotes } },
    never,
  );
  session.stderr?.resume();
  assert.equal(await text(session.stdout), quotes);
  assert.equal(await said(harness, spec, 'ls /tmp/evil 2>/dev/null'), '');
});

function innerGroups(harness: NativeHarness, spec: RunSpec): string[] {
  const group = harness.file(spec, 'run.json').group as Group;
  return foldersOf(group).flatMap(innerFolders);
}

function filesOf(harness: NativeHarness, spec: RunSpec): string[] {
  return readdirSync(join(harness.folder, runName(spec.run))).sort();
}

/** Descriptors of this process on files, pipes and terminals; sockets come and go with the tests. */
function openFiles(): number {
  return readdirSync('/proc/self/fd').filter((name) => {
    const path = `/proc/self/fd/${name}`;
    return existsSync(path) && /\/runs\/|\/dev\/pt|\(deleted\)/.test(readlinkSync(path));
  }).length;
}
